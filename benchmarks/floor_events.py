"""The event rows that a step of Perdure's has, for the floor that writes the same."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.floor_workflow import Call

USAGE = {"inputTokens": 100, "outputTokens": 50, "totalTokens": 150}
"""What every answer is said to have used: Perdure's rows tell it too."""

_WHOLE_BYTES = 1024
_PREVIEW_BYTES = 128
_RUN, _UAP, _UPP = "run", "uap", "upp"


class Event(NamedTuple):
    """What an event's row says beside whose it is."""

    step: int | None
    attempt: int | None
    source: str
    type: str
    data: str


def run_event(kind: str, **data: Any) -> Event:
    """An event of a run's life."""
    return Event(None, None, _RUN, kind, compact(data))


def step_event(step: int, kind: str, **data: Any) -> Event:
    """An event of the agent's own."""
    return Event(step, None, _UAP, kind, compact(data))


def answer_events(step: int, message: str, text: str, calls: Sequence[Call]) -> list[Event]:
    """What a model's answer brings, from the start of its step to the start of its calls."""
    events = [step_event(step, "step_start", stepNumber=step), _delta(step, "message_start", message)]
    events += _block(step, message, 0, "text_delta", {"text": text})
    for index, call in enumerate(calls):
        named = {"toolCallId": call.id, "toolName": call.name, "argumentsJson": compact(call.arguments)}
        events += _block(step, message, index + 1, "tool_call_delta", named)
    events.append(_delta(step, "message_stop", message))
    if calls:
        asked = [{"toolCallId": c.id, "toolName": c.name, "arguments": c.arguments} for c in calls]
        events.append(step_event(step, "action", toolCalls=asked))
    for index, call in enumerate(calls):
        started = {"toolCallId": call.id, "toolName": call.name, "timestamp": _now_ms()}
        events.append(_delta(step, "tool_execution_start", message, index, started))
    return events


def result_event(step: int, message: str, index: int, call: Call, text: str) -> Event:
    """The end of a tool call. A long result is a preview here, as it is in Perdure's."""
    size = len(compact(text))
    shown = text if size <= _WHOLE_BYTES else text[:_PREVIEW_BYTES]
    ended = {
        "toolCallId": call.id, "toolName": call.name, "result": shown, "isError": False, "timestamp": _now_ms(),
    }  # fmt: skip
    return _delta(step, "tool_execution_end", message, index, ended)


def compact(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))


def _block(step: int, message: str, index: int, kind: str, delta: dict[str, Any]) -> Iterator[Event]:
    yield _delta(step, "content_block_start", message, index)
    yield _delta(step, kind, message, index, delta)
    yield _delta(step, "content_block_stop", message, index)


def _delta(step: int, kind: str, message: str, index: int = 0, delta: dict[str, Any] | None = None) -> Event:
    return Event(step, 1, _UPP, kind, compact({"message": message, "index": index, "delta": delta or {}}))


def _now_ms() -> int:
    return int(time.time() * 1000)
