"""How an earlier answer's items go back in their own order.

The vendor's models reason better, and some refuse to go on, unless their reasoning comes back in front of what
followed it. What goes back is always what the message says now: only ids, order and reasoning come from what was kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, cast

from perdure.upp.content import ImageBlock, TextBlock
from perdure.upp.json_value import JSONObject, JSONValue, dumps, sha256_hex
from perdure.upp.media_source import UrlSource
from perdure.upp.messages import AssistantMessage
from perdure.upp.providers._media import base64_of
from perdure.upp.providers._tool_calls import read_arguments, sent_name
from perdure.upp.providers.openai_responses.kept import message_parts, objects, part_text, reasoning_text, without
from perdure.upp.tool_call import ToolCall

_MAX_CALL_ID = 64

T = TypeVar("T")


class _DisagreementError(Exception):
    """The message is not the one that the items came from."""


def replay_items(message: AssistantMessage, kept: JSONValue, *, stored: bool) -> list[JSONObject] | None:
    """Returns the items of an answer as they go back; None if what was kept is not this message's any more.

    Args:
        message: the answer, maybe edited since.
        kept: what `reduce_items` returned of it.
        stored: whether the vendor has the answer; if not, reasoning can go back only with its encrypted content.
    """
    items = objects(kept)
    shown = [text for item in items if item.get("type") == "reasoning" and (text := reasoning_text(item))]
    if not items or shown != [block.text for block in message.reasoning]:
        return None
    texts, images, calls = iter(texts_of(message)), iter(message.images), iter(message.tool_calls or ())
    try:
        filled = [_fill(item, texts, images, calls) for item in items]
    except _DisagreementError:
        return None
    unplaced = [*texts, *images, *calls]
    return None if unplaced else _sendable(filled, stored=stored)


def texts_of(message: AssistantMessage) -> list[str]:
    """Returns the texts that an answer says; blank ones are none."""
    return [block.text for block in message.blocks() if isinstance(block, TextBlock) and block.text.strip()]


def arguments_text(call: ToolCall) -> str:
    """Returns the arguments as a model would have written them; a string is text that was no JSON."""
    if isinstance(call.arguments, str):
        return call.arguments
    return dumps(call.arguments).decode("utf-8", "surrogatepass")


def wire_call_id(call_id: str) -> str:
    """Returns a call's id as the vendor takes it; another vendor's longer one is replaced, always by the same."""
    if len(call_id) <= _MAX_CALL_ID:
        return call_id
    return "call_" + sha256_hex(call_id.encode("utf-8", "surrogatepass"))[: _MAX_CALL_ID - len("call_")]


def _fill(
    item: JSONObject, texts: Iterator[str], images: Iterator[ImageBlock], calls: Iterator[ToolCall]
) -> JSONObject:
    """Returns an item with the message's own text, image or call in it."""
    match item.get("type"):
        case "message":
            parts = [_fill_part(part, _take(texts)) for part in objects(item.get("content"))]
            return {"role": "assistant", "status": "completed", **item, "content": cast("list[JSONValue]", parts)}
        case "function_call":
            return _fill_call(item, _take(calls))
        case "image_generation_call" if "result" not in item:
            return {**item, "result": _image_data(_take(images))}
        case _:
            return item


def _fill_part(part: JSONObject, text: str) -> JSONObject:
    if part.get("type") == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": []}  # theirs count characters of the unedited text


def _fill_call(item: JSONObject, call: ToolCall) -> JSONObject:
    if (item.get("call_id"), item.get("name")) != (call.tool_call_id, call.tool_name):
        raise _DisagreementError
    written = item.get("arguments")
    same = isinstance(written, str) and read_arguments(written) == call.arguments
    return {
        **item,
        "call_id": wire_call_id(call.tool_call_id),
        "name": sent_name(call.tool_name),
        "arguments": written if same else arguments_text(call),
    }


def _take(source: Iterator[T]) -> T:
    for item in source:
        return item
    raise _DisagreementError


def _image_data(image: ImageBlock) -> str:
    if isinstance(image.source, UrlSource):
        raise _DisagreementError
    return base64_of(image.source)


def _sendable(items: Sequence[JSONObject], *, stored: bool) -> list[JSONObject]:
    """Returns the items that the vendor takes back: reasoning that it can read, with something after it.

    If it cannot read some of it, all reasoning stays here, and the other items go without the ids that it would look
    for their reasoning by.
    """
    if any(_is_reasoning(item) and not (stored or item.get("encrypted_content")) for item in items):
        return [_anonymous(item) for item in items if not _is_reasoning(item)]
    end = len(items)
    while end and _is_reasoning(items[end - 1]):
        end -= 1
    return list(items[:end])


def _is_reasoning(item: JSONObject) -> bool:
    return item.get("type") == "reasoning"


def _anonymous(item: JSONObject) -> JSONObject:
    match item.get("type"):
        case "message":
            text = "\n\n".join(part_text(part) for part in message_parts(item))
            return {**without(item, "id", "status"), "content": text}
        case "function_call":
            return without(item, "id")
        case _:
            return item
