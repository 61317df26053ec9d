"""What is true of every type with a JSON form. That each is read back equal is tested beside the type itself.

Equality alone is not enough: to Python 1, 1.0 and True are equal. So here it is the bytes that must be the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.content import AudioBlock, DocumentBlock, ImageBlock, VideoBlock, block_from_json
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads
from perdure.upp.media import Audio, Document, Image, Video
from perdure.upp.media_source import document_source_from_json, image_source_from_json
from perdure.upp.messages import UserMessage, message_from_json
from perdure.upp.stream import EventDelta, StreamEvent
from perdure.upp.thread import Thread
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from perdure.upp.turn import Turn
from perdure.upp.usage import CycleUsage, TokenUsage
from tests.unit.upp import strategies as upp


class HasJSON(Protocol):
    def to_json(self) -> JSONObject: ...


@dataclass(frozen=True)
class Kind:
    """A type with a JSON form; `required` and `optional` are its fields by the specification's tables."""

    values: st.SearchStrategy[Any]
    read: Callable[[JSONValue], HasJSON]
    required: str
    optional: str = ""


SOURCE = Kind(upp.image_sources, image_source_from_json, "type", "data url")
KINDS = {
    "image source": SOURCE,
    "document source": Kind(upp.document_sources, document_source_from_json, "type", "data url"),
    "text": Kind(upp.text_blocks, block_from_json, "type text"),
    "reasoning": Kind(upp.reasoning_blocks, block_from_json, "type text"),
    "image": Kind(upp.image_blocks, block_from_json, "type source mimeType", "width height"),
    "document": Kind(upp.document_blocks, block_from_json, "type source mimeType", "title"),
    "audio": Kind(upp.audio_blocks, block_from_json, "type data mimeType", "duration"),
    "video": Kind(upp.video_blocks, block_from_json, "type data mimeType", "duration width height"),
    "binary": Kind(upp.binary_blocks, block_from_json, "type data mimeType", "metadata"),
    "user": Kind(upp.user_messages, message_from_json, "id type content timestamp", "metadata"),
    "assistant": Kind(upp.assistant_messages, message_from_json, "id type content timestamp", "toolCalls metadata"),
    "tool_result": Kind(upp.tool_result_messages, message_from_json, "id type content results timestamp", "metadata"),
    "call": Kind(upp.tool_calls, ToolCall.from_json, "toolCallId toolName arguments"),
    "result": Kind(upp.tool_results, ToolResult.from_json, "toolCallId result isError"),
    "execution": Kind(
        upp.tool_executions,
        ToolExecution.from_json,
        "toolName toolCallId arguments result isError duration",
        "approved",
    ),
    "cycle": Kind(upp.cycle_usages, CycleUsage.from_json, "inputTokens outputTokens cacheReadTokens cacheWriteTokens"),
    "usage": Kind(
        upp.usages | upp.priced_usages,
        TokenUsage.from_json,
        "inputTokens outputTokens totalTokens cacheReadTokens cacheWriteTokens",
        "cycles cost",
    ),
    "turn": Kind(upp.turns, Turn.from_json, "messages toolExecutions usage cycles", "data"),
    "thread": Kind(upp.threads, Thread.from_json, "id messages createdAt updatedAt"),
    "delta": Kind(
        upp.event_deltas,
        EventDelta.from_json,
        "",
        "text data toolCallId toolName argumentsJson result isError timestamp",
    ),
    "event": Kind(upp.stream_events, StreamEvent.from_json, "type index delta"),
    "error": Kind(
        upp.upp_errors,
        UPPError.from_json,
        "name message code provider modality",
        "statusCode cause retryAfterMs",
    ),
}
every_kind = given(name=st.sampled_from(sorted(KINDS)), data=st.data())

FREE = {"arguments", "result", "metadata", "data"}
"""Fields that hold whatever JSON there is; a reader must not look into them."""


@every_kind
def test_what_was_read_is_written_as_the_same_bytes(name: str, data: st.DataObject) -> None:
    """Whatever is stored and loaded, however often, has one form, so its hash holds."""
    kind = KINDS[name]
    written = dumps(data.draw(kind.values).to_json())
    assert dumps(kind.read(loads(written)).to_json()) == written


@every_kind
def test_other_json_libraries_carry_it(name: str, data: st.DataObject) -> None:
    """Escaped by another writer, indented and in another order of keys, it is the same value."""
    kind = KINDS[name]
    value = data.draw(kind.values).to_json()
    foreign = json.loads(json.dumps(value, indent=1, sort_keys=True))
    assert json.loads(json.dumps(kind.read(foreign).to_json())) == json.loads(json.dumps(value))  # joins surrogates


@every_kind
def test_fields_are_called_as_the_specification_calls_them(name: str, data: st.DataObject) -> None:
    """All that are required are there, and no others than the optional ones."""
    kind = KINDS[name]
    found = set(data.draw(kind.values).to_json())
    required, optional = set(kind.required.split()), set(kind.optional.split())
    assert required <= found <= required | optional


@every_kind
def test_a_newer_writers_fields_are_ignored(name: str, data: st.DataObject) -> None:
    """On every level but inside free values, where they are somebody's data."""
    kind = KINDS[name]
    value = data.draw(kind.values).to_json()
    more = _with_more(value, data.draw(upp.json_values(3)))
    assert dumps(kind.read(more).to_json()) == dumps(value)


@every_kind
def test_damaged_json_is_refused_or_read_as_what_it_says(name: str, data: st.DataObject) -> None:
    """Whatever stands in place of any part: it is a UPPError, or a value that keeps its form; never another crash."""
    kind = KINDS[name]
    value = data.draw(kind.values).to_json()
    place = data.draw(st.sampled_from(list(_places(value)) or [()]))
    damaged = _replaced(value, place, data.draw(upp.json_values(3)))
    read = _read(kind, damaged)
    if read is not None:
        written = dumps(read.to_json())
        assert dumps(kind.read(loads(written)).to_json()) == written


@every_kind
def test_no_json_makes_a_reader_crash(name: str, data: st.DataObject) -> None:
    _read(KINDS[name], data.draw(upp.json_values(6)))


@given(upp.event_deltas)
def test_a_delta_survives_json(delta: EventDelta) -> None:
    """Its result too, unless no tool ended."""
    again = EventDelta.from_json(loads(dumps(delta.to_json())))
    assert again == delta


@given(upp.cycle_usages)
def test_a_cycle_survives_json(cycle: CycleUsage) -> None:
    assert CycleUsage.from_json(loads(dumps(cycle.to_json()))) == cycle


@given(upp.priced_usages)
def test_a_priced_usage_survives_json(usage: TokenUsage) -> None:
    assert TokenUsage.from_json(loads(dumps(usage.to_json()))) == usage


@given(upp.image_blocks | upp.document_blocks | upp.audio_blocks | upp.video_blocks)
def test_a_block_survives_as_media(block: ImageBlock | DocumentBlock | AudioBlock | VideoBlock) -> None:
    """Media of a block, in a message again, is the block."""
    match block:
        case ImageBlock():
            media = Image.from_block(block)
        case DocumentBlock():
            media = Document.from_block(block)
        case AudioBlock():
            media = Audio.from_block(block)
        case VideoBlock():
            media = Video.from_block(block)
    assert UserMessage([media]).content == [block]


@given(st.binary(max_size=300))
def test_bytes_survive_as_media(data: bytes) -> None:
    for media in (
        Image.from_bytes(data, "image/png"),
        Document.from_bytes(data),
        Audio(data, "a/b"),
        Video(data, "a/b"),
    ):
        read = block_from_json(loads(dumps(media.to_block().to_json())))
        assert read == media.to_block()
    assert Image.from_base64(Image.from_bytes(data, "image/png").to_base64(), "image/png").to_bytes() == data


@given(upp.texts(5), upp.json_objects(), upp.messages)
def test_a_namespace_that_nobody_knows_is_kept(namespace: str, value: JSONObject, message: Any) -> None:
    """In a message, in a thread of it, and in a turn."""
    read = message_from_json({**message.to_json(), "metadata": {namespace: value}})
    assert read.metadata == {namespace: value}
    assert Thread.from_json(loads(dumps(Thread([read]).to_json()))).messages[0].metadata == {namespace: value}


def _read(kind: Kind, value: JSONValue) -> HasJSON | None:
    """Returns what was read, or None if it was refused as it should be."""
    try:
        return kind.read(value)
    except UPPError as error:
        if error.code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RESPONSE):
            return None
        raise


def _with_more(value: JSONValue, more: JSONValue) -> JSONValue:
    if isinstance(value, list):
        return [_with_more(item, more) for item in value]
    if not isinstance(value, dict):
        return value
    known = {name: item if name in FREE else _with_more(item, more) for name, item in value.items()}
    return {"xNewField": more, **known, "x-other": more}


def _places(value: JSONValue, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Returns the places of all parts, but of those inside free values."""
    steps: list[tuple[str | int, JSONValue]] = []
    if isinstance(value, dict):
        steps = [(name, item) for name, item in value.items()]
    elif isinstance(value, list):
        steps = list(enumerate(value))
    places: list[tuple[str | int, ...]] = []
    for step, item in steps:
        places.append((*above, step))
        if step not in FREE:
            places += _places(item, (*above, step))
    return places


def _replaced(value: JSONValue, place: tuple[str | int, ...], new: JSONValue) -> JSONValue:
    if not place:
        return new
    step, *rest = place
    if isinstance(value, dict):
        return {name: _replaced(item, tuple(rest), new) if name == step else item for name, item in value.items()}
    assert isinstance(value, list)
    return [_replaced(item, tuple(rest), new) if index == step else item for index, item in enumerate(value)]
