"""Entries of the event log as writers make them."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given

from perdure.uap.cut import PREVIEW_BYTES
from perdure.uap.events import action_data, run_event, uap_event, upp_event
from perdure.upp.json_value import dumps, loads, sha256_hex
from perdure.upp.messages import AssistantMessage
from perdure.upp.stream import EventDelta, StreamEvent, text_delta
from perdure.upp.tool_call import ToolCall
from tests.unit.upp import strategies as upp


def test_each_source_has_its_form() -> None:
    """Short keys: one SQL function turns them into rows."""
    assert run_event("run.parked", {"reason": "paused"}) == {"s": "run", "t": "run.parked", "d": {"reason": "paused"}}
    assert uap_event("action", 3, {}) == {"s": "uap", "t": "action", "p": 3, "d": {}}
    event = upp_event(text_delta("hi", 0), step=2, attempt=4, message="m")
    data = {"message": "m", "index": 0, "delta": {"text": "hi"}}
    assert event == {"s": "upp", "t": "text_delta", "p": 2, "a": 4, "d": data}


@given(upp.stream_events)
def test_every_upp_event_is_json_that_holds_its_delta(event: StreamEvent) -> None:
    """A viewer reads the same delta that the model gave."""
    entry = loads(dumps(upp_event(event, step=1, attempt=1, message="m")))
    assert isinstance(entry, dict)
    assert isinstance(entry["d"], dict)
    assert EventDelta.from_json(entry["d"]["delta"]).to_json() == event.delta.to_json()


def test_an_action_names_its_calls() -> None:
    """Small arguments are whole; long ones are a preview, with where the whole is."""
    calls = [ToolCall("1", "small", {"a": 1}), ToolCall("2", "long", {"text": "x" * 5000}), ToolCall("3", "odd", "{")]
    small, long, odd = _calls(AssistantMessage("go", calls))
    assert small == {"toolCallId": "1", "toolName": "small", "arguments": {"a": 1}}
    assert odd == {"toolCallId": "3", "toolName": "odd", "arguments": "{"}
    assert len(str(long["arguments"])) <= PREVIEW_BYTES
    whole = dumps({"text": "x" * 5000})
    assert long["cut"] == {"sha256": sha256_hex(whole), "size": len(whole)}


def _calls(message: AssistantMessage) -> list[dict[str, Any]]:
    data = loads(dumps(action_data(message)))
    assert isinstance(data, dict)
    return cast("list[dict[str, Any]]", data["toolCalls"])


def test_an_answer_without_calls_has_no_action() -> None:
    """An empty list, not a missing one."""
    assert action_data(AssistantMessage("done")) == {"toolCalls": []}
