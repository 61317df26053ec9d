"""An assistant message as Gemini's parts, in the very order and with the thought signatures that the model gave them.

A message keeps what its blocks and calls cannot say in `metadata.google`: `functionCallParts`, the calls' parts as
they came; `thoughtSignature`, the last text's; and `parts`, the order, only where it is another one than text, then
calls. An entry of `parts` is one of `{"text": <characters of the message's text>}`, `{"media": true}`,
`{"call": true}`, each with its `thoughtSignature`, or `{"part": <as it came>, "text": <characters that show it>}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.upp.content import AudioBlock, BinaryBlock, ContentBlock, ImageBlock, TextBlock, VideoBlock
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage
from perdure.upp.providers._tool_calls import arguments_object, sent_name
from perdure.upp.providers.google.endpoint import PROVIDER
from perdure.upp.providers.google.media import bytes_part, image_part
from perdure.upp.tool_call import ToolCall


def assistant_parts(message: AssistantMessage) -> list[JSONObject]:
    """Returns the message's parts; a recorded order that no longer fits the message is not used."""
    recorded = _own_metadata(message).get("parts")
    if isinstance(recorded, list):
        restored = _restore(message, [entry for entry in recorded if isinstance(entry, dict)])
        if restored is not None:
            return restored
    return plain_parts(message)


def plain_parts(message: AssistantMessage) -> list[JSONObject]:
    """Returns the parts of a message without a recorded order: its content, reasoning left out, then its calls."""
    parts = [part for block in message.content for part in _block_parts(block)]
    signature = _own_metadata(message).get("thoughtSignature")
    texts = [part for part in parts if "text" in part]
    if texts and isinstance(signature, str):
        texts[-1]["thoughtSignature"] = signature
    return [*parts, *_call_parts(message)]


def sent_names(message: AssistantMessage) -> Iterator[tuple[str, str]]:
    """Yields the name that each call of the message is sent with, which its result must repeat: our id, and the name."""
    for call, part in zip(message.tool_calls or (), _call_parts(message), strict=True):
        match part:
            case {"functionCall": {"name": str(name)}}:
                yield call.tool_call_id, name
            case _:
                pass


def native_ids(message: AssistantMessage) -> Iterator[tuple[str, str]]:
    """Yields the ids of those calls of the message that have one of Gemini's: our own, and Gemini's."""
    for call, part in zip(message.tool_calls or (), _recorded_calls(message), strict=False):
        match part:
            case {"functionCall": {"id": str(native)}}:
                yield call.tool_call_id, native
            case _:
                pass


def _restore(message: AssistantMessage, entries: Sequence[JSONObject]) -> list[JSONObject] | None:
    text = "".join(block.text for block in message.content if isinstance(block, TextBlock))
    media = iter([_media_part(block) for block in message.content if _is_media(block)])
    calls = iter(_call_parts(message))
    start, parts = 0, list[JSONObject]()
    for entry in entries:
        end = start + _length(entry)
        part = _restore_part(entry, text[start:end], media, calls)
        if part is None:
            return None
        parts.append(part)
        start = end
    return parts if start == len(text) and next(media, None) is None and next(calls, None) is None else None


def _restore_part(
    entry: JSONObject, text: str, media: Iterator[JSONObject], calls: Iterator[JSONObject]
) -> JSONObject | None:
    signature = entry.get("thoughtSignature")
    signed: JSONObject = {} if signature is None else {"thoughtSignature": signature}
    match entry:
        case {"part": dict(part)}:
            return part
        case {"call": True}:
            return next(calls, None)
        case {"media": True}:
            part = next(media, None)
            return None if part is None else part | signed
        case {"text": int()}:
            return {"text": text} | signed
        case _:
            return None


def _length(entry: JSONObject) -> int:
    length = entry.get("text", 0)
    return length if isinstance(length, int) and length >= 0 else 0


def _block_parts(block: ContentBlock) -> list[JSONObject]:
    if isinstance(block, TextBlock):
        return [{"text": block.text}] if block.text else []
    return [_media_part(block)] if _is_media(block) else []


def _is_media(block: ContentBlock) -> bool:
    return isinstance(block, ImageBlock | AudioBlock | VideoBlock)


def _media_part(block: ContentBlock) -> JSONObject:
    if isinstance(block, ImageBlock):
        return image_part(block)
    assert isinstance(block, AudioBlock | VideoBlock | BinaryBlock)
    return bytes_part(block)


def _call_parts(message: AssistantMessage) -> list[JSONObject]:
    calls = message.tool_calls or []
    return [_call_part(call, part) for call, part in zip(calls, _recorded_calls(message), strict=True)]


def _call_part(call: ToolCall, recorded: JSONObject) -> JSONObject:
    function = recorded.get("functionCall")
    if not isinstance(function, dict) or function.get("name") != call.tool_name:
        return {"functionCall": {"name": sent_name(call.tool_name), "args": arguments_object(call.arguments)}}
    if (function.get("args") or {}) == call.arguments:
        return dict(recorded)
    changed = dict(function)
    changed["args"] = arguments_object(call.arguments)
    part = dict(recorded)
    part["functionCall"] = changed
    return part


def _recorded_calls(message: AssistantMessage) -> list[JSONObject]:
    """Returns each call's part as it came; empty ones if there are none that fit."""
    calls, recorded = message.tool_calls or [], _own_metadata(message).get("functionCallParts")
    if not isinstance(recorded, list) or len(recorded) != len(calls):
        return [{} for _ in calls]
    return [part if isinstance(part, dict) else {} for part in recorded]


def _own_metadata(message: AssistantMessage) -> dict[str, JSONValue]:
    return (message.metadata or {}).get(PROVIDER) or {}
