"""The events of a streamed model call. Source: UPP-1.2, streaming; `object_delta` is UPP-1.3's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from perdure.upp.json_field import (
    invalid,
    read_bytes,
    read_int,
    read_object,
    read_optional_bool,
    read_optional_int,
    read_optional_str,
    read_str,
)
from perdure.upp.json_value import JSONObject, JSONValue, encode_base64


class StreamEventType(StrEnum):
    """The `type` of a stream event."""

    MESSAGE_START = "message_start"
    MESSAGE_STOP = "message_stop"
    CONTENT_BLOCK_START = "content_block_start"
    CONTENT_BLOCK_STOP = "content_block_stop"
    TEXT_DELTA = "text_delta"
    REASONING_DELTA = "reasoning_delta"
    OBJECT_DELTA = "object_delta"
    IMAGE_DELTA = "image_delta"
    AUDIO_DELTA = "audio_delta"
    VIDEO_DELTA = "video_delta"
    TOOL_CALL_DELTA = "tool_call_delta"
    TOOL_EXECUTION_START = "tool_execution_start"
    TOOL_EXECUTION_END = "tool_execution_end"


@dataclass(frozen=True, slots=True)
class EventDelta:
    """What an event adds; which fields are set follows from the event's type.

    Attributes:
        data: bytes of a media delta.
        arguments_json: a fragment of the arguments' JSON text.
        result: a tool's result; meaningful where `is_error` is set.
        timestamp: milliseconds since the epoch.
    """

    text: str | None = None
    data: bytes | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    arguments_json: str | None = None
    result: JSONValue = None
    is_error: bool | None = None
    timestamp: int | None = None

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form; fields that are not set are absent."""
        fields: JSONObject = {
            "text": self.text,
            "data": None if self.data is None else encode_base64(self.data),
            "toolCallId": self.tool_call_id,
            "toolName": self.tool_name,
            "argumentsJson": self.arguments_json,
            "result": self.result,
            "isError": self.is_error,
            "timestamp": self.timestamp,
        }
        ended = self.is_error is not None  # a tool that returned None has a result, and it is null
        return {name: value for name, value in fields.items() if value is not None or (ended and name == "result")}

    @classmethod
    def from_json(cls, value: JSONValue) -> EventDelta:
        """Returns the delta of a JSON object.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object.
        """
        source, what = read_object(value, "event delta"), "event delta"
        return cls(
            text=read_optional_str(source, "text", what),
            data=None if source.get("data") is None else read_bytes(source, "data", what),
            tool_call_id=read_optional_str(source, "toolCallId", what),
            tool_name=read_optional_str(source, "toolName", what),
            arguments_json=read_optional_str(source, "argumentsJson", what),
            result=source.get("result"),
            is_error=read_optional_bool(source, "isError", what),
            timestamp=read_optional_int(source, "timestamp", what),
        )


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream.

    Attributes:
        index: the content block's position; the call's position for tool execution events.
    """

    type: StreamEventType
    index: int = 0
    delta: EventDelta = EventDelta()

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        return {"type": str(self.type), "index": self.index, "delta": self.delta.to_json()}

    @classmethod
    def from_json(cls, value: JSONValue) -> StreamEvent:
        """Returns the event of a JSON object; an absent index is 0, an absent delta is empty.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object or the type is unknown.
        """
        source, what = read_object(value, "stream event"), "stream event"
        kind = read_str(source, "type", what)
        try:
            known = StreamEventType(kind)
        except ValueError as error:
            raise invalid(what, f"unknown type {kind!r}") from error
        return cls(known, read_int(source, "index", what, 0), EventDelta.from_json(source.get("delta") or {}))


def message_start() -> StreamEvent:
    """Returns the event that opens a model's message."""
    return StreamEvent(StreamEventType.MESSAGE_START)


def message_stop() -> StreamEvent:
    """Returns the event that closes a model's message."""
    return StreamEvent(StreamEventType.MESSAGE_STOP)


def content_block_start(index: int = 0) -> StreamEvent:
    """Returns the event that opens a content block."""
    return StreamEvent(StreamEventType.CONTENT_BLOCK_START, index)


def content_block_stop(index: int = 0) -> StreamEvent:
    """Returns the event that closes a content block."""
    return StreamEvent(StreamEventType.CONTENT_BLOCK_STOP, index)


def text_delta(text: str, index: int = 0) -> StreamEvent:
    """Returns a piece of a text block."""
    return StreamEvent(StreamEventType.TEXT_DELTA, index, EventDelta(text=text))


def reasoning_delta(text: str, index: int = 0) -> StreamEvent:
    """Returns a piece of a reasoning block."""
    return StreamEvent(StreamEventType.REASONING_DELTA, index, EventDelta(text=text))


def object_delta(text: str, index: int = 0) -> StreamEvent:
    """Returns a piece of a structured answer's JSON text. Source: UPP-1.3."""
    return StreamEvent(StreamEventType.OBJECT_DELTA, index, EventDelta(text=text))


def tool_call_delta(tool_call_id: str, tool_name: str, arguments_json: str, index: int = 0) -> StreamEvent:
    """Returns a piece of a tool call: a fragment of its arguments' JSON text."""
    delta = EventDelta(tool_call_id=tool_call_id, tool_name=tool_name, arguments_json=arguments_json)
    return StreamEvent(StreamEventType.TOOL_CALL_DELTA, index, delta)


def tool_execution_start(tool_call_id: str, tool_name: str, timestamp: int, index: int = 0) -> StreamEvent:
    """Returns the event that a tool starts; timestamp in milliseconds since the epoch."""
    delta = EventDelta(tool_call_id=tool_call_id, tool_name=tool_name, timestamp=timestamp)
    return StreamEvent(StreamEventType.TOOL_EXECUTION_START, index, delta)


def tool_execution_end(
    tool_call_id: str, tool_name: str, result: JSONValue, is_error: bool, timestamp: int, index: int = 0
) -> StreamEvent:
    """Returns the event that a tool ended; timestamp in milliseconds since the epoch."""
    delta = EventDelta(
        tool_call_id=tool_call_id, tool_name=tool_name, result=result, is_error=is_error, timestamp=timestamp
    )
    return StreamEvent(StreamEventType.TOOL_EXECUTION_END, index, delta)
