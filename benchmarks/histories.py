"""The executions of a session's workflow, as Temporal keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

_SCHEDULED = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED


@dataclass(frozen=True)
class Execution:
    """One execution of a workflow: a run of Temporal's."""

    run_id: str
    events: Sequence[HistoryEvent]

    @property
    def size_bytes(self) -> int:
        """The size of all its events as protobuf."""
        return sum(event.ByteSize() for event in self.events)

    def scheduled(self, name: str | None = None) -> list[datetime]:
        """When its regular activities of that name, or all, were scheduled, in order."""
        return [
            event.event_time.ToDatetime(UTC)
            for event in self.events
            if event.event_type == _SCHEDULED
            and name in (None, event.activity_task_scheduled_event_attributes.activity_type.name)
        ]


async def executions_of(client: Client, workflow_id: str) -> list[Execution]:
    """The last execution of a workflow and those that it goes on from, oldest first, once it is closed."""
    await client.get_workflow_handle(workflow_id).result()
    found: list[Execution] = []
    run_id: str | None = None
    while True:
        handle = client.get_workflow_handle(workflow_id, run_id=run_id)
        events = [event async for event in handle.fetch_history_events()]
        started = events[0].workflow_execution_started_event_attributes
        found.insert(0, Execution(started.original_execution_run_id, events))
        run_id = started.continued_execution_run_id
        if not run_id:
            return found
