"""Whether two messages say the same, whoever tells them: a client that repeats a conversation has other ids and times.

What is compared is the role, the words, the media, the calls and the results, in order. Reasoning and metadata are not: no
client sends them back; nor are the ids of calls, for which some doors have others. Pure.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from itertools import zip_longest

from perdure.uap.stage_place import CONTENT, place_of
from perdure.upp.content import (
    AudioBlock,
    BinaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    VideoBlock,
)
from perdure.upp.json_value import JSONValue, loads
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.tool_call import ToolCall, ToolResult

_STORED = re.compile(r"/api/content/([0-9a-fA-F-]{36})(?![0-9a-fA-F-])")


def says_same(one: Message, other: Message) -> bool:
    """Whether two messages say the same."""
    if one.type != other.type:
        return False
    if isinstance(one, ToolResultMessage) and isinstance(other, ToolResultMessage):
        return list(map(_result, one.results)) == list(map(_result, other.results))
    if not _words(one) & _words(other) or _calls(one) != _calls(other):
        return False
    return all(_same_media(*pair) for pair in zip_longest(_media(one), _media(other)))


def says_nothing(message: Message) -> bool:
    """Whether there is nothing in a message that could be compared: an answer that was cut before its first word."""
    if isinstance(message, ToolResultMessage):
        return not message.results
    return _words(message) == {""} and not _calls(message) and not _media(message)


def _words(message: Message) -> set[str]:
    """The text as doors tell it: run on, as it is streamed, or block by block."""
    texts = [block.text for block in message.blocks() if isinstance(block, TextBlock)]
    return {"".join(texts), "\n\n".join(texts)}


def _calls(message: Message) -> list[tuple[str, str]]:
    calls: Sequence[ToolCall] = message.tool_calls or () if isinstance(message, AssistantMessage) else ()
    return [(call.tool_name, _canonical(call.arguments)) for call in calls]


def _result(result: ToolResult) -> tuple[str, bool]:
    """A result as it is told: of a stage's tool the words alone."""
    told = result.result
    words = told[CONTENT] if isinstance(told, dict) and place_of(told) is not None else told
    return _canonical(words), result.is_error


def _canonical(value: JSONValue) -> str:
    """One text for a value and for its JSON text, whatever the order of keys."""
    if isinstance(value, str):
        try:
            value = loads(value.encode("utf-8", "surrogatepass"))
        except ValueError:
            return json.dumps(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _media(message: Message) -> list[ContentBlock]:
    return [block for block in message.blocks() if not isinstance(block, TextBlock | ReasoningBlock)]


def _same_media(one: ContentBlock | None, other: ContentBlock | None) -> bool:
    return one is not None and other is not None and one.type == other.type and _source(one) == _source(other)


def _source(block: ContentBlock) -> tuple[str, str]:
    """What a block shows: stored content by its id, else a URL, else bytes by their hash."""
    match block:
        case ImageBlock() | DocumentBlock():
            return _of_source(block.source)
        case AudioBlock() | VideoBlock() | BinaryBlock():
            return "bytes", hashlib.sha256(block.data).hexdigest()
        case _:
            return "none", ""


def _of_source(source: Base64Source | UrlSource | BytesSource | TextSource) -> tuple[str, str]:
    match source:
        case UrlSource():
            stored = _STORED.search(source.url)
            return ("content", stored.group(1).lower()) if stored else ("url", source.url)
        case BytesSource():
            return "bytes", hashlib.sha256(source.data).hexdigest()
        case Base64Source():
            return "bytes", hashlib.sha256(_decoded(source.data)).hexdigest()
        case TextSource():
            return "bytes", hashlib.sha256(source.data.encode("utf-8", "surrogatepass")).hexdigest()


def _decoded(text: str) -> bytes:
    """The bytes of base64; of what is none its own."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return text.encode("utf-8", "surrogatepass")
