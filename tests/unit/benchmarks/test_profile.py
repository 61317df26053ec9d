"""Where the time goes: what a history says of a run, whose code a stack is, and the tables of both."""

from __future__ import annotations

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from benchmarks import profile_report
from benchmarks.samples import PARTS, shares
from benchmarks.spans import Spans, spans
from tests.unit.benchmarks.measured import result

_TASK, _ACTIVITY, _MARKER = "WORKFLOW_TASK", "ACTIVITY_TASK", "MARKER"


def event(ident: int, kind: str, ms: float, *, scheduled: int = 0, started: int = 0, task: int = 0) -> HistoryEvent:
    """An event that refers to others by their ids."""
    made = HistoryEvent(event_id=ident, event_type=getattr(EventType, f"EVENT_TYPE_{kind}"))
    made.event_time.FromNanoseconds(int(ms * 1_000_000))
    if kind == f"{_ACTIVITY}_COMPLETED":
        made.activity_task_completed_event_attributes.scheduled_event_id = scheduled
        made.activity_task_completed_event_attributes.started_event_id = started
    elif kind == f"{_TASK}_COMPLETED":
        made.workflow_task_completed_event_attributes.scheduled_event_id = scheduled
        made.workflow_task_completed_event_attributes.started_event_id = started
    elif kind == f"{_MARKER}_RECORDED":
        made.marker_recorded_event_attributes.workflow_task_completed_event_id = task
    return made


def test_a_run_is_its_activities_its_workflow_tasks_the_way_to_workers_and_the_rest() -> None:
    """The first workflow task has a local activity: it belongs to the run's beginning, whatever it took."""
    history = [
        event(1, "WORKFLOW_EXECUTION_STARTED", 0),
        event(2, f"{_TASK}_SCHEDULED", 0),
        event(3, f"{_TASK}_STARTED", 5),
        event(4, f"{_TASK}_COMPLETED", 25, scheduled=2, started=3),
        event(5, f"{_MARKER}_RECORDED", 25, task=4),
        event(6, f"{_ACTIVITY}_SCHEDULED", 25),
        event(7, f"{_ACTIVITY}_STARTED", 26),
        event(8, f"{_ACTIVITY}_COMPLETED", 36, scheduled=6, started=7),
        event(9, f"{_TASK}_SCHEDULED", 36),
        event(10, f"{_TASK}_STARTED", 39),
        event(11, f"{_TASK}_COMPLETED", 46, scheduled=9, started=10),
        event(12, "WORKFLOW_EXECUTION_COMPLETED", 46),
    ]
    assert spans(history, 60.0) == Spans(activities=10.0, workflow_tasks=7.0, dispatch=4.0, rest=39.0)


def test_a_stack_is_its_innermost_named_code() -> None:
    """A library that nobody is named for works for its caller; what is nobody's is other."""
    seen = shares(
        [
            "run (asyncio/runners.py:1);execute (perdure/activities/generate.py:2);dumps (json/encoder.py:3) 4",
            "run (asyncio/runners.py:1);call (perdure/store/database.py:2);fetch (asyncpg/connection.py:3) 3",
            "run (asyncio/runners.py:1);activate (temporalio/worker/_workflow.py:1);go (perdure/workflows/step.py:2) 2",
            "run (asyncio/runners.py:1) 1",
        ]
    )
    assert seen == {**dict.fromkeys(PARTS, 0.0), "activities": 0.4, "PostgreSQL's driver": 0.3, "workflow code": 0.2,
                    "event loop": 0.1}  # fmt: skip


def test_the_tables_say_what_was_seen() -> None:
    """A line for each runtime; functions by the time that they take, with how often they are called."""
    rows = [
        {"look": "time", "work": "W1", "contestant": "perdure", "part": "whole", "value": 40.0},
        {"look": "time", "work": "W1", "contestant": "perdure", "part": "rest", "value": 7.0},
        {"look": "interpreter", "work": "W1", "contestant": "floor", "part": "event loop", "value": 0.25},
        {"look": "database", "work": "W1", "contestant": "perdure", "part": "commits", "value": 5.5},
        {"look": "function", "work": "W1", "contestant": "perdure", "part": "emit_v1", "value": 0.1, "calls": 3.0},
        {"look": "function", "work": "W1", "contestant": "perdure", "part": "save_v1", "value": 0.6, "calls": 1.0},
    ]
    said = profile_report.profile(result(kind="profile", rows=rows))
    assert "| Perdure | 40.0 | - | - | - | 7.00 |" in said
    assert "| W1, hand-written floor | 25% |" in said
    assert "Transactions of PostgreSQL per step: 5.50 of Perdure in W1." in said
    assert said.index("| `save_v1` | 1.00 | 0.60 |") < said.index("| `emit_v1` | 3.00 | 0.10 |")
