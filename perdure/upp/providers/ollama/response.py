"""What Ollama answers: the object of /api/chat, whole or put together from a stream, as UPP's response."""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

from pydantic import BaseModel, Field

from perdure.upp.content import AssistantContent, ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.media_source import BytesSource
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.providers._answer import structured_data
from perdure.upp.providers._shape import read_shape
from perdure.upp.providers._tool_calls import read_arguments, with_own_ids
from perdure.upp.providers.ollama.request import PROVIDER
from perdure.upp.tool_call import ToolCall
from perdure.upp.usage import TokenUsage

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "": "end_turn"}
_IMAGE_TYPES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
_METADATA = (
    "model",
    "created_at",
    "done_reason",
    "total_duration",
    "load_duration",
    "prompt_eval_duration",
    "eval_duration",
    "logprobs",
)


class AnsweredFunction(BaseModel):
    """The function of a call; models behind proxies send the arguments as JSON text."""

    name: str = ""
    arguments: Any = None


class AnsweredCall(BaseModel):
    """One tool call; only newer servers give it an id."""

    id: str | None = None
    function: AnsweredFunction


class AnsweredMessage(BaseModel):
    """The model's message, or a piece of it."""

    content: str | None = None
    thinking: str | None = None
    tool_calls: list[AnsweredCall] | None = None
    images: list[str] | None = None


class Answer(BaseModel):
    """A whole answer, or one line of a stream; durations are nanoseconds."""

    model: str | None = None
    created_at: str | None = None
    message: AnsweredMessage | None = None
    done: bool = False
    done_reason: str | None = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None
    logprobs: list[Any] | None = None
    error: Any = Field(default=None)


def read_answer(value: JSONObject) -> Answer:
    """Returns the answer, or the piece of one.

    Raises:
        UPPError: INVALID_RESPONSE if the object is none.
    """
    answer = read_shape(Answer, value, PROVIDER)
    if answer.message is None and answer.error is None and not answer.done:
        raise _invalid("it has no message")
    return answer


def read_calls(calls: list[AnsweredCall]) -> list[ToolCall]:
    """Returns the calls, in order, each with an id of its own."""
    made = [ToolCall(call.id or "", call.function.name, _arguments(call.function.arguments)) for call in calls]
    return with_own_ids(made, PROVIDER)


def read_images(images: list[str]) -> list[ImageBlock]:
    """Returns the images; Ollama does not say their type, so it is read off their first bytes.

    Raises:
        UPPError: INVALID_RESPONSE if one is no base64.
    """
    return [ImageBlock(BytesSource(data), _image_type(data)) for data in map(_decode, images)]


def to_response(answer: Answer, request: LLMRequest) -> LLMResponse:
    """Returns UPP's response of a whole answer.

    Raises:
        UPPError: INVALID_RESPONSE if there is no message, or no data in it though a structure was asked for.
    """
    if answer.message is None:
        raise _invalid("it has no message")
    message = _message(answer, answer.message)
    reason = _stop_reason(answer, message)
    spent, made = answer.prompt_eval_count or 0, answer.eval_count or 0
    data = structured_data(request, message, reason, PROVIDER)
    return LLMResponse(message, TokenUsage(spent, made, spent + made), reason, data)


def _message(answer: Answer, said: AnsweredMessage) -> AssistantMessage:
    content: list[AssistantContent] = []
    if said.thinking:
        content.append(ReasoningBlock(said.thinking))
    if said.content:
        content.append(TextBlock(said.content))
    content += read_images(said.images or [])
    calls = read_calls(said.tool_calls) if said.tool_calls else None
    return AssistantMessage(content, calls, metadata={PROVIDER: _metadata(answer, said)})


def _metadata(answer: Answer, said: AnsweredMessage) -> JSONObject:
    found: JSONObject = {name: getattr(answer, name) for name in _METADATA}
    return {name: value for name, value in (found | {"thinking": said.thinking or None}).items() if value is not None}


def _stop_reason(answer: Answer, message: AssistantMessage) -> str:
    given = answer.done_reason or ""
    if message.has_tool_calls and _STOP_REASONS.get(given) == "end_turn":
        return "tool_use"  # Ollama says "stop" of calls too
    return _STOP_REASONS.get(given, given)


def _arguments(given: object) -> JSONValue:
    if given is None:
        return {}
    return read_arguments(given) if isinstance(given, str) else cast(JSONValue, given)


def _decode(image: str) -> bytes:
    try:
        return base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid("an image is no base64", error) from error


def _image_type(data: bytes) -> str:
    return next((kind for start, kind in _IMAGE_TYPES.items() if data.startswith(start)), "application/octet-stream")


def _invalid(problem: str, cause: Exception | None = None) -> UPPError:
    return UPPError(f"Ollama's answer cannot be read: {problem}", ErrorCode.INVALID_RESPONSE, PROVIDER, cause=cause)
