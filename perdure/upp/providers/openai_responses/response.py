"""A whole answer of the Responses API, as UPP has it; streams end in one too, so both are read here."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from pydantic import BaseModel

from perdure.upp.content import AssistantContent, ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.media_source import Base64Source
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.providers._answer import structured_data
from perdure.upp.providers._http import VendorRequest, error_in_stream
from perdure.upp.providers._shape import read_shape
from perdure.upp.providers._tool_calls import read_arguments, with_own_ids
from perdure.upp.providers.openai_responses.items import OUTPUT
from perdure.upp.providers.openai_responses.kept import message_parts, part_text, reasoning_text, reduce_items
from perdure.upp.tool_call import ToolCall
from perdure.upp.usage import TokenUsage

_MIME_TYPES = {"svg": "image/svg+xml"}


class _Details(BaseModel):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(BaseModel):
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int | None = None
    input_tokens_details: _Details | None = None


class _Incomplete(BaseModel):
    reason: str | None = None


class _Response(BaseModel):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    service_tier: str | None = None
    output: list[dict[str, object]] | None = None
    incomplete_details: _Incomplete | None = None
    usage: _Usage | None = None


class _FunctionCall(BaseModel):
    name: str
    id: str | None = None
    call_id: str | None = None
    arguments: str | dict[str, object] | None = None


class _Image(BaseModel):
    result: str | None = None
    output_format: str | None = None


@dataclass(slots=True)
class _Said:
    """What the items of an answer say.

    Attributes:
        final: the content without what the model said on its way to the answer.
    """

    reasoning: list[AssistantContent] = field(default_factory=list[AssistantContent])
    content: list[AssistantContent] = field(default_factory=list[AssistantContent])
    final: list[AssistantContent] = field(default_factory=list[AssistantContent])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    refused: bool = False


def read_response(raw: JSONObject, request: LLMRequest, sent: VendorRequest) -> LLMResponse:
    """Returns the answer.

    Raises:
        UPPError: what the vendor says went wrong; INVALID_RESPONSE if this is no answer; as `structured_data`.
    """
    provider = sent.provider
    _refuse_failed(raw, sent)
    response = read_shape(_Response, raw, provider)
    items = cast("list[JSONObject]", response.output or [])
    said = _read_items(items, provider)
    calls = with_own_ids(said.calls, provider)
    message = AssistantMessage(
        [*said.reasoning, *said.content],
        calls or None,
        id=response.id or str(uuid.uuid4()),
        metadata={provider: _metadata(response, _with_call_ids(items, calls))},
    )
    stop_reason = _stop_reason(response, said)
    data = structured_data(request, replace(message, content=said.final), stop_reason, provider)
    return LLMResponse(message, _usage(response.usage), stop_reason, data)


def call_id_of(item: JSONObject) -> str:
    """Returns the id of a function call's item; its item's id if it has none of its own, else nothing."""
    return next((value for name in ("call_id", "id") if isinstance(value := item.get(name), str) and value), "")


def _refuse_failed(raw: JSONObject, sent: VendorRequest) -> None:
    """Raises what the vendor says went wrong, or INVALID_RESPONSE for an answer that is not there yet."""
    match raw.get("status"):
        case "failed" | "cancelled" as status:
            raise error_in_stream(sent, raw.get("error") or {"message": f"the vendor says that the answer {status}"})
        case "queued" | "in_progress" as status:
            raise UPPError(f"the vendor sent an answer that is {status}", ErrorCode.INVALID_RESPONSE, sent.provider)
        case _ if isinstance(raw.get("error"), dict) and not raw.get("output"):
            raise error_in_stream(sent, raw)
        case _ if "output" not in raw and "id" not in raw:
            raise UPPError("the vendor sent something that is no answer", ErrorCode.INVALID_RESPONSE, sent.provider)
        case _:
            return


def _read_items(items: Sequence[JSONObject], provider: str) -> _Said:
    said = _Said()
    for item in items:
        match item.get("type"):
            case "reasoning":
                said.reasoning.extend([ReasoningBlock(text)] if (text := reasoning_text(item)) else [])
            case "message":
                texts = [TextBlock(part_text(part)) for part in message_parts(item)]
                said.content.extend(texts)
                said.final.extend(texts if item.get("phase") != "commentary" else ())
                said.refused = said.refused or any(part.get("type") == "refusal" for part in message_parts(item))
            case "function_call":
                said.calls.append(_call(item, provider))
            case "image_generation_call":
                said.content.extend(_images(item, provider))
            case _:
                pass  # the vendor's own tools at work: kept in the metadata
    return said


def _call(item: JSONObject, provider: str) -> ToolCall:
    call = read_shape(_FunctionCall, item, provider)
    written = call.arguments
    arguments = read_arguments(written or "") if not isinstance(written, dict) else cast(JSONValue, written)
    return ToolCall(call_id_of(item), call.name, arguments)


def _images(item: JSONObject, provider: str) -> list[ImageBlock]:
    image = read_shape(_Image, item, provider)
    if not image.result:
        return []
    kind = image.output_format or "png"
    return [ImageBlock(Base64Source(image.result), _MIME_TYPES.get(kind, f"image/{kind}"))]


def _with_call_ids(items: Sequence[JSONObject], calls: Sequence[ToolCall]) -> list[JSONObject]:
    ids = iter([call.tool_call_id for call in calls])
    return [{**item, "call_id": next(ids)} if item.get("type") == "function_call" else item for item in items]


def _metadata(response: _Response, items: Sequence[JSONObject]) -> JSONObject:
    known: JSONObject = {
        "response_id": response.id,
        "model": response.model,
        "status": response.status,
        "service_tier": response.service_tier,
        "incomplete_reason": response.incomplete_details.reason if response.incomplete_details else None,
    }
    present = {name: value for name, value in known.items() if value is not None}
    return {**present, OUTPUT: reduce_items(items)}


def _stop_reason(response: _Response, said: _Said) -> str:
    reason = response.incomplete_details.reason if response.incomplete_details else None
    if reason == "content_filter" or said.refused:
        return "content_filter"
    if reason == "max_output_tokens":
        return "max_tokens"
    return "tool_use" if said.calls else "end_turn"


def _usage(usage: _Usage | None) -> TokenUsage:
    usage = usage or _Usage()
    details = usage.input_tokens_details or _Details()
    total = usage.input_tokens + usage.output_tokens if usage.total_tokens is None else usage.total_tokens
    read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
    return TokenUsage(usage.input_tokens, usage.output_tokens, total, read, written)
