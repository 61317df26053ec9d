"""A Chat Completions answer as an LLMResponse; a stream is folded into such an answer first and read here too."""

from __future__ import annotations

import mimetypes
import re

from perdure.upp.content import AssistantContent, AudioBlock, ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_field import read_bytes
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.media_source import Base64Source, UrlSource
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.providers._answer import structured_data
from perdure.upp.providers._shape import read_shape
from perdure.upp.providers._tool_calls import read_arguments, with_own_ids
from perdure.upp.providers.openai_completions.schema import (
    Audio,
    Call,
    Choice,
    Completion,
    Image,
    Message,
    Usage,
)
from perdure.upp.tool_call import ToolCall
from perdure.upp.usage import TokenUsage

_DATA_URL = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "function_call": "tool_use"}
_BROKEN_OFF = frozenset({"error", "insufficient_system_resource"})
_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg", "pcm16": "audio/pcm"}
_REASONING_TEXT = {"reasoning.text": "text", "reasoning.summary": "summary"}


def error_of(answer: JSONObject) -> JSONValue:
    """Returns the error inside an answer or chunk that came with a good status, or None.

    Servers put it at the top, below the first choice, or (older vLLM) make it the whole answer.
    """
    if answer.get("error"):
        return answer["error"]
    if answer.get("object") == "error":
        return answer
    match answer.get("choices"):
        case [{"error": (dict() | str()) as error}, *_] if error:
            return error
        case _:
            return None


def read_answer(answer: JSONObject, request: LLMRequest, provider: str) -> LLMResponse:
    """Returns the response of a whole answer.

    Raises:
        UPPError: INVALID_RESPONSE if it has another shape or no choice; PROVIDER_ERROR if the vendor broke it off;
            CONTENT_FILTERED if structured data was wanted and refused.
    """
    completion = read_shape(Completion, answer, provider)
    choice = next(iter(completion.choices or ()), None)
    if choice is None or choice.message is None:
        raise UPPError("the answer holds no message", ErrorCode.INVALID_RESPONSE, provider)
    if choice.finish_reason in _BROKEN_OFF:
        problem = f"the model's answer was broken off ({choice.finish_reason})"
        raise UPPError(problem, ErrorCode.PROVIDER_ERROR, provider)
    calls = _calls(choice.message.tool_calls or [], provider)
    message = AssistantMessage(
        _content(choice.message, request, provider),
        calls or None,
        id=completion.id or None,
        metadata={provider: _metadata(completion, choice, choice.message)},
    )
    stop_reason = _stop_reason(choice, bool(calls))
    data = structured_data(request, message, stop_reason, provider)
    return LLMResponse(message, read_usage(completion.any_usage), stop_reason, data)


def read_usage(usage: Usage | None) -> TokenUsage:
    """Returns the tokens of a call; zeros if the server does not count them."""
    usage = usage or Usage()
    spent, made = usage.prompt_tokens or 0, usage.completion_tokens or 0
    details = usage.prompt_tokens_details
    cached = (details.cached_tokens if details else None) or usage.prompt_cache_hit_tokens or usage.cached_tokens
    written = details.cache_write_tokens if details else None
    total = spent + made if usage.total_tokens is None else usage.total_tokens
    return TokenUsage(spent, made, total, cached or 0, written or 0)


def reasoning_texts(message: Message) -> list[str]:
    """Returns the reasoning of a message or delta that people can read, one text per part.

    Servers that give it twice, under two names, mean the same text.
    """
    details = [_detail_text(detail) for detail in message.reasoning_details or ()]
    texts = [text for text in details if text] or [message.reasoning_content or message.reasoning or message.thinking]
    return [text for text in texts if text]


def _detail_text(detail: JSONObject) -> str:
    text = detail.get(_REASONING_TEXT.get(str(detail.get("type")), ""))
    return text if isinstance(text, str) else ""


def data_url(url: str) -> tuple[str, str] | None:
    """Returns the media type and the base64 text of a data URL; None for any other address."""
    found = _DATA_URL.fullmatch(url)
    return None if found is None else (found[1] or "image/png", found[2])


def _content(message: Message, request: LLMRequest, provider: str) -> list[AssistantContent]:
    content: list[AssistantContent] = [ReasoningBlock(text) for text in reasoning_texts(message)]
    spoken = message.audio.transcript if message.audio else None
    content.extend(TextBlock(text) for text in (message.text, message.refusal, spoken) if text)
    content.extend(_image(image) for image in message.images or ())
    if message.audio is not None and message.audio.data:
        content.append(_audio(message.audio, request, provider))
    return content


def _image(image: Image) -> ImageBlock:
    inline = data_url(image.image_url.url)
    if inline is not None:
        return ImageBlock(Base64Source(inline[1]), inline[0])
    kind = mimetypes.guess_type(image.image_url.url.partition("?")[0])[0] or "image/png"
    return ImageBlock(UrlSource(image.image_url.url), kind)


def _audio(audio: Audio, request: LLMRequest, provider: str) -> AudioBlock:
    wanted = (request.params or {}).get("audio")
    kind = str(wanted.get("format", "wav")) if isinstance(wanted, dict) else "wav"
    try:
        data = read_bytes({"data": audio.data}, "data", "audio")
    except UPPError as error:
        raise UPPError(f"the answer's {error.message}", ErrorCode.INVALID_RESPONSE, provider, cause=error) from error
    return AudioBlock(data, _AUDIO_TYPES.get(kind, f"audio/{kind}"))


def _calls(calls: list[Call], provider: str) -> list[ToolCall]:
    read: list[ToolCall] = []
    for call in calls:
        if call.function is None or not call.function.name:
            raise UPPError("the answer calls a tool without naming it", ErrorCode.INVALID_RESPONSE, provider)
        given = call.function.arguments
        arguments = given if isinstance(given, dict) else read_arguments(given or "")
        read.append(ToolCall(call.id or "", call.function.name, arguments))
    return with_own_ids(read, provider)


def _stop_reason(choice: Choice, has_calls: bool) -> str:
    if choice.message is not None and choice.message.refusal:
        return "content_filter"
    if has_calls and choice.finish_reason in (None, "", "stop"):
        return "tool_use"
    return _STOP_REASONS.get(choice.finish_reason or "stop", choice.finish_reason or "end_turn")


def _metadata(completion: Completion, choice: Choice, message: Message) -> JSONObject:
    known: JSONObject = {
        "model": completion.model or None,
        "finish_reason": choice.finish_reason or None,
        "system_fingerprint": completion.system_fingerprint or None,
        "service_tier": completion.service_tier or None,
        "reasoning_content": message.reasoning_content,  # also "": what was given must be given back
        "reasoning_details": list[JSONValue](message.reasoning_details or ()) or None,
        "annotations": message.annotations or None,
    }
    return {name: value for name, value in known.items() if value is not None}
