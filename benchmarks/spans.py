"""What a run that was alone waited for, by the times that Temporal's history gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

_NS = 1_000_000


@dataclass(frozen=True)
class Spans:
    """Milliseconds of one run of one call per step.

    Attributes:
        activities: from when a worker had a regular activity until Temporal had its result.
        workflow_tasks: the same of workflow tasks; those with local activities are a part of the rest.
        dispatch: from when a task was there until a worker had it.
        rest: handing the input in, beginning and ending the run, and giving back its result.
    """

    activities: float
    workflow_tasks: float
    dispatch: float
    rest: float


def spans(events: Sequence[HistoryEvent], latency_ms: float) -> Spans:
    """What a run's history says of it.

    Args:
        events: of its one execution, all.
        latency_ms: that whoever submitted it saw.
    """
    at = {event.event_id: event.event_time.ToNanoseconds() / _NS for event in events}
    marked = {
        event.marker_recorded_event_attributes.workflow_task_completed_event_id
        for event in events
        if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED
    }
    activities = tasks = dispatch = 0.0
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            activity = event.activity_task_completed_event_attributes
            activities += at[event.event_id] - at[activity.started_event_id]
            dispatch += at[activity.started_event_id] - at[activity.scheduled_event_id]
        elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED and event.event_id not in marked:
            task = event.workflow_task_completed_event_attributes
            tasks += at[event.event_id] - at[task.started_event_id]
            dispatch += at[task.started_event_id] - at[task.scheduled_event_id]
    return Spans(activities, tasks, dispatch, latency_ms - activities - tasks - dispatch)
