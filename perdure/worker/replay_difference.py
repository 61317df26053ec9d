"""Why a history does not replay, in plain words: the first event for which this code would have done something else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from perdure.activities import contracts
from perdure.activities.contracts import (
    AROUND,
    BEGIN_RUN,
    CALL_TOOL,
    CALL_USER,
    CONTROL_STAGE,
    END_RUN,
    FAIL_TASK,
    GENERATE,
    KEEP_TURN,
    READ_HISTORY,
    RECORD,
    RUN_TASK,
    TAKE_ACTION,
    TAKE_STEERS,
)

_WORDS = {
    BEGIN_RUN: "the taking of an input",
    GENERATE: "a model call",
    CALL_TOOL: "a tool call",
    CALL_USER: "the call of a hook",
    AROUND: "the call of middleware",
    READ_HISTORY: "the reading of earlier messages",
    KEEP_TURN: "the storing of a turn",
    RECORD: "a note",
    END_RUN: "the end of a run",
    TAKE_STEERS: "the joining of inputs",
    TAKE_ACTION: "the taking of a stage session's action",
    RUN_TASK: "a task of a stage",
    FAIL_TASK: "the answer to a task that could not be run",
    CONTROL_STAGE: "a pause, resumption or end of a stage session",
}
_MACHINES = {
    "Activity": "schedule an activity",
    "Local activity": "run a local activity",
    "Timer": "set a timer",
    "Child workflow": "start a sub-agent's session",
    "Complete workflow": "end the execution",
    "Fail workflow": "fail the execution",
    "Cancel workflow": "end the execution as cancelled",
    "Continue as new workflow": "continue as new",
    "Signal external WF": "signal another execution",
    "Cancel external WF": "cancel another execution",
}
_EVENT = re.compile(r"HistoryEvent\(id: (\d+), \w+\)")
_MACHINE = re.compile(r"(\w[\w ]*?) machine does not handle this event")
_TYPES = re.compile(r"type of (?:\w+ )*'([^']*)' does not match \w+ type of (?:\w+ )*command '([^']*)'")
_LOCAL = re.compile(r"LocalActivity\((\d+)\)")
_MESSAGE = re.compile(r'message: "((?:[^"\\]|\\.)*)"')
_MARKER = "core_local_activity"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a history and what this code does with it.

    Attributes:
        event: the event's number in the history; None if the code failed without coming to one.
        what: what the history has there, and what this code would do instead, in a sentence.
        reason: the same in the SDK's own words.
    """

    event: int | None
    what: str
    reason: str


def explain(history: WorkflowHistory, failure: Exception) -> Difference:
    """Say what a failed replay stumbled over."""
    reason = _reason(str(failure))
    event, instead = _find(history, reason)
    if event is None:
        return Difference(None, f"this code fails where the history goes on: {reason}", reason)
    there = f"event {event.event_id} of the history is {describe(event)}"
    return Difference(event.event_id, f"{there}; this code would {instead}", reason)


def describe(event: HistoryEvent) -> str:
    """An event in words."""
    local = _local_activity(event)
    kind = str(local.get("activity_type", "")) or event.activity_task_scheduled_event_attributes.activity_type.name
    if kind:
        return f"{_WORDS.get(kind, 'an activity')} ({kind})"
    name = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
    return name.replace("_", " ").lower()


def _reason(text: str) -> str:
    """The innermost message: core wraps it into a description of a failed workflow task."""
    found = _MESSAGE.search(text)
    inner = found[1].replace('\\"', '"').replace("\\n", " ") if found else text
    return inner.removeprefix("[TMPRL1100] Nondeterminism error: ").strip() or text


def _find(history: WorkflowHistory, reason: str) -> tuple[HistoryEvent | None, str]:
    """The event that a reason is about, and what this code does in its place."""
    if found := _TYPES.search(reason):
        before, now = found.groups()
        return _first(history, lambda event: _kind(event) == before), f"make {_named(now)}"
    if found := _EVENT.search(reason):
        number, machine = int(found[1]), _MACHINE.search(reason)
        instead = _MACHINES.get(machine[1].strip(), "do something else") if machine else "do nothing there"
        return _first(history, lambda event: event.event_id == number), instead
    if found := _LOCAL.search(reason):
        number = int(found[1])
        return _first(history, lambda event: _local_activity(event).get("seq") == number), "not come to it"
    return None, ""


def _first(history: WorkflowHistory, is_it: Callable[[HistoryEvent], bool]) -> HistoryEvent | None:
    return next((event for event in history.events if is_it(event)), None)


def _kind(event: HistoryEvent) -> str:
    """The type of the activity or sub-agent that an event is the beginning of; "" for other events."""
    child = event.start_child_workflow_execution_initiated_event_attributes.workflow_type.name
    activity = event.activity_task_scheduled_event_attributes.activity_type.name
    return activity or child or str(_local_activity(event).get("activity_type", ""))


def _named(kind: str) -> str:
    if kind in (contracts.SESSION, contracts.SANDBOXED_SESSION):
        return f"a sub-agent's session ({kind})"
    return f"{_WORDS.get(kind, 'a call')} ({kind})"


def _local_activity(event: HistoryEvent) -> dict[str, Any]:
    """What a marker says of its local activity; empty for other events."""
    marker = event.marker_recorded_event_attributes
    if marker.marker_name != _MARKER or "data" not in marker.details:
        return {}
    try:
        about: object = json.loads(marker.details["data"].payloads[0].data)
    except (ValueError, IndexError):
        return {}
    return cast("dict[str, Any]", about) if isinstance(about, dict) else {}
