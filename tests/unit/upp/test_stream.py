"""Stream events."""

from __future__ import annotations

import pytest
from hypothesis import given

from perdure.upp import stream
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONValue, dumps, loads
from perdure.upp.stream import EventDelta, StreamEvent, StreamEventType
from tests.unit.upp import strategies as upp


@given(upp.stream_events)
def test_an_event_survives_json(event: StreamEvent) -> None:
    """Type, index and delta are read back equal."""
    assert StreamEvent.from_json(loads(dumps(event.to_json()))) == event


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (stream.message_start(), {"type": "message_start", "index": 0, "delta": {}}),
        (stream.message_stop(), {"type": "message_stop", "index": 0, "delta": {}}),
        (stream.content_block_start(1), {"type": "content_block_start", "index": 1, "delta": {}}),
        (stream.content_block_stop(1), {"type": "content_block_stop", "index": 1, "delta": {}}),
        (stream.text_delta("a", 2), {"type": "text_delta", "index": 2, "delta": {"text": "a"}}),
        (stream.reasoning_delta("a"), {"type": "reasoning_delta", "index": 0, "delta": {"text": "a"}}),
        (
            stream.tool_call_delta("c", "t", '{"x', 1),
            {
                "type": "tool_call_delta",
                "index": 1,
                "delta": {"toolCallId": "c", "toolName": "t", "argumentsJson": '{"x'},
            },
        ),
        (
            stream.tool_execution_start("c", "t", 17),
            {
                "type": "tool_execution_start",
                "index": 0,
                "delta": {"toolCallId": "c", "toolName": "t", "timestamp": 17},
            },
        ),
        (
            stream.tool_execution_end("c", "t", None, False, 18),
            {
                "type": "tool_execution_end",
                "index": 0,
                "delta": {"toolCallId": "c", "toolName": "t", "result": None, "isError": False, "timestamp": 18},
            },
        ),
    ],
)
def test_the_json_of_each_event(event: StreamEvent, expected: JSONValue) -> None:
    """Names are UPP's; a tool's null result is written, other unset fields are not."""
    assert event.to_json() == expected


def test_media_are_base64() -> None:
    """Bytes of a delta are text in JSON."""
    assert EventDelta(data=b"\xff").to_json() == {"data": "/w=="}


def test_index_and_delta_may_be_absent() -> None:
    """An event is read leniently."""
    assert StreamEvent.from_json({"type": "message_start"}) == StreamEvent(StreamEventType.MESSAGE_START)


@pytest.mark.parametrize("value", [{"type": "telepathy"}, {}, [], {"type": "text_delta", "delta": {"text": 1}}])
def test_what_is_no_event_is_refused(value: JSONValue) -> None:
    """An unknown event is not dropped in silence."""
    with pytest.raises(UPPError, match="event"):
        StreamEvent.from_json(value)
