"""A whole answer of the vendor, read into UPP's response; streams are folded into the same form before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel

from perdure.upp.content import TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.providers._answer import structured_data
from perdure.upp.providers._shape import read_shape
from perdure.upp.providers.anthropic.content import (
    ReadContent,
    read_content,
    text_block,
    tidy,
    write_content,
)
from perdure.upp.providers.anthropic.json_answer import ANSWER_TOOL
from perdure.upp.providers.anthropic.schema import PROVIDER
from perdure.upp.usage import TokenUsage

_END = "end_turn"


class WireUsage(BaseModel):
    """The vendor's counts; input tokens are without those of the cache."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    def to_usage(self) -> TokenUsage:
        """Returns UPP's usage; tokens of the cache are not in the total."""
        spent, made = self.input_tokens or 0, self.output_tokens or 0
        cached, written = self.cache_read_input_tokens or 0, self.cache_creation_input_tokens or 0
        return TokenUsage(spent, made, spent + made, cached, written)


class WireMessage(BaseModel):
    """The vendor's message."""

    content: list[JSONObject]
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: JSONObject | None = None
    container: JSONObject | None = None
    usage: WireUsage | None = None


def read_response(request: LLMRequest, body: JSONObject, *, by_tool: bool) -> LLMResponse:
    """Returns the response that the vendor's message stands for.

    Args:
        request: what was asked; says whether the answer has data.
        body: the vendor's message.
        by_tool: whether calls of the answer's tool are the answer: they become the message's text, and nothing else
            that the model wrote beside them stays text.

    Raises:
        UPPError: INVALID_RESPONSE if the body is no such message or the data is no JSON; CONTENT_FILTERED if the
            model refused and said nothing, or refused where data was asked for.
    """
    answer = read_shape(WireMessage, body, PROVIDER)
    stop = answer.stop_reason or _END
    blocks = _blocks(answer)
    if by_tool and any(_is_answer(block) for block in blocks):
        blocks = _with_answer_as_text(blocks)
        stop = _END if stop == "tool_use" and not _has_calls(blocks) else stop
    read = read_content(blocks)
    message = AssistantMessage(
        read.content, read.calls or None, id=answer.id or None, metadata={PROVIDER: _metadata(answer, blocks, read)}
    )
    refused = stop == "refusal"
    if refused and not message.text.strip() and not message.has_tool_calls:
        raise UPPError(_refusal(answer), ErrorCode.CONTENT_FILTERED, PROVIDER)
    last_text = [block for block in read.content if isinstance(block, TextBlock)][-1:]
    data = structured_data(
        request, replace(message, content=last_text), "content_filter" if refused else stop, PROVIDER
    )
    usage = answer.usage or WireUsage()
    return LLMResponse(message=message, usage=usage.to_usage(), stop_reason=stop, data=data)


def _blocks(answer: WireMessage) -> list[JSONObject]:
    """Returns the content; a call that the token limit cut off has no arguments instead of empty ones.

    Else a tool that needs no arguments would run on what the model never finished writing.
    """
    blocks = [tidy(block) for block in answer.content]
    if answer.stop_reason == "max_tokens" and blocks and _is_call(blocks[-1]) and not blocks[-1].get("input"):
        blocks[-1] = {**blocks[-1], "input": ""}
    return blocks


def _metadata(answer: WireMessage, blocks: Sequence[JSONObject], read: ReadContent) -> JSONObject:
    metadata: JSONObject = {
        "model": answer.model,
        "stop_reason": answer.stop_reason,
        "stop_sequence": answer.stop_sequence,
        "stop_details": answer.stop_details,
        "container": answer.container,
    }
    if any(read.signatures):
        metadata |= {"thinkingSignature": read.signatures[0], "thinkingSignatures": [*read.signatures]}
    said = [block for block in blocks if block.get("type") != "text" or block.get("text")]
    if said != write_content(read.content, read.calls, read.signatures):
        metadata["content"] = [*said]
    return {name: value for name, value in metadata.items() if value is not None}


def _is_call(block: JSONObject) -> bool:
    return block.get("type") == "tool_use"


def _is_answer(block: JSONObject) -> bool:
    return _is_call(block) and block.get("name") == ANSWER_TOOL


def _has_calls(blocks: Sequence[JSONObject]) -> bool:
    return any(_is_call(block) for block in blocks)


def _with_answer_as_text(blocks: Sequence[JSONObject]) -> list[JSONObject]:
    """Returns the blocks with the answer's tool call as text; beside real calls it is dropped, as it comes again."""
    rest = [block for block in blocks if not _is_answer(block)]
    if _has_calls(rest):
        return rest
    given = next(block.get("input", {}) for block in blocks if _is_answer(block))
    text = given if isinstance(given, str) else dumps(given).decode("utf-8", "surrogatepass")
    return [*(block for block in rest if block.get("type") != "text"), text_block(text)]


def _refusal(answer: WireMessage) -> str:
    details = answer.stop_details or {}
    said = [detail for detail in (details.get("category"), details.get("explanation")) if isinstance(detail, str)]
    return ": ".join(["the model refused to answer", *said])
