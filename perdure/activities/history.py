"""What a Temporal history says of a run: the records that rode on its activities. Used to adopt a run and to rebuild rows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.activities import contracts
from perdure.activities.contracts import (
    AroundInput,
    AroundResult,
    BeginRunResult,
    CallToolInput,
    CallToolResult,
    Carried,
    EndRunResult,
    GenerateInput,
    GenerateResult,
    Progress,
    RecordResult,
    SessionInput,
)

_INPUTS: dict[str, type] = {
    contracts.GENERATE: GenerateInput,
    contracts.CALL_TOOL: CallToolInput,
    contracts.AROUND: AroundInput,
}
_RESULTS: dict[str, type] = {
    contracts.BEGIN_RUN: BeginRunResult,
    contracts.RECORD: RecordResult,
    contracts.END_RUN: EndRunResult,
    contracts.GENERATE: GenerateResult,
    contracts.CALL_TOOL: CallToolResult,
    contracts.AROUND: AroundResult,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing of ours in a history.

    Attributes:
        execution: the Temporal run id.
        name: the activity's registered name, or `perdure.session` for the execution's start.
        input: the contract it was given; None for local activities, whose markers hold only results.
        result: the contract it returned; None where it has not returned.
    """

    execution: str
    name: str
    input: Any = None
    result: Any = None

    @property
    def pending(self) -> list[dict[str, Any]]:
        """The records that rode on it."""
        source = self.input if self.input is not None else self.result
        if isinstance(source, SessionInput):
            source = source.carried or Carried()
        return list(getattr(source, "pending", []))

    @property
    def has_written(self) -> bool:
        """Whether the records that rode on it are rows for certain."""
        if isinstance(self.result, GenerateResult):
            return self.result.message is not None
        if isinstance(self.result, CallToolResult):
            return self.result.kind == "result"
        return isinstance(self.result, RecordResult | EndRunResult) and self.result.kind in ("won", "ended")


@dataclass(frozen=True, slots=True)
class FoundProgress:
    """What a history says of where a run stood. `known` is False if the history is gone.

    `pending` is the last checkpoint's record if it may not have been written.
    """

    known: bool
    progress: Progress | None = None
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


async def read_progress(client: Client, workflow_id: str, execution: str, run: str) -> FoundProgress:
    """Where a run stood by the history of the execution that had it."""
    progress: Progress | None = None
    pending: list[dict[str, Any]] = []
    try:
        async for entry in read_entries(client, workflow_id, execution):
            if entry.name == contracts.SESSION and entry.input.carried is not None:
                frame = entry.input.carried.frame
                progress = entry.input.carried.progress if frame is not None and frame.run == run else progress
            elif isinstance(entry.result, BeginRunResult):
                frame = entry.result.frame
                progress = entry.result.progress if frame is not None and frame.run == run else progress
            for record in entry.pending:
                if record.get("k") == "checkpoint" and record["r"]["run"] == run:
                    progress, pending = progress_of(record["r"]), [] if entry.has_written else [record]
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return FoundProgress(known=False)
    return FoundProgress(known=True, progress=progress, pending=pending)


def progress_of(record: dict[str, Any]) -> Progress:
    """The step boundary that a checkpoint's record names."""
    return Progress(
        step=record["step"],
        position=record["position"],
        usage=record["usage"],
        cycles=record["cycles"],
        metadata=record["metadata"],
        done=record.get("done", False),
        reasoning=record.get("reasoning", []),
        plan=record.get("plan"),
        sub_agents=record.get("sub_agents", {}),
        usage_by_agent=record.get("usage_by_agent", {}),
    )


async def read_entries(client: Client, workflow_id: str, execution: str) -> AsyncIterator[Entry]:
    """What is ours in one execution's history, in order; a regular activity comes once, with its result.

    Raises:
        RPCError: NOT_FOUND if the history has expired or was deleted.
    """
    handle = client.get_workflow_handle(workflow_id, run_id=execution)
    scheduled: dict[int, Entry] = {}
    events: list[HistoryEvent] = [event async for event in handle.fetch_history_events()]
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            detail = event.activity_task_scheduled_event_attributes
            name = detail.activity_type.name
            if name in _INPUTS:
                given = await _decode(client, detail.input.payloads[0], _INPUTS[name])
                scheduled[event.event_id] = Entry(execution, name, given)
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            done = event.activity_task_completed_event_attributes
            entry = scheduled.get(done.scheduled_event_id)
            if entry is not None:
                result = await _decode(client, done.result.payloads[0], _RESULTS[entry.name])
                scheduled[done.scheduled_event_id] = Entry(execution, entry.name, entry.input, result)
    for event in events:
        entry = await _entry(client, event, execution, scheduled)
        if entry is not None:
            yield entry


async def _entry(client: Client, event: HistoryEvent, execution: str, scheduled: dict[int, Entry]) -> Entry | None:
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
        detail = event.workflow_execution_started_event_attributes
        given = await _decode(client, detail.input.payloads[0], SessionInput)
        return Entry(execution, contracts.SESSION, given)
    if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED:
        return await _local(client, event, execution)
    return scheduled.get(event.event_id)


async def _local(client: Client, event: HistoryEvent, execution: str) -> Entry | None:
    """A local activity's marker: its name is in the marker's data, which no codec sees, its result beside it."""
    details = event.marker_recorded_event_attributes.details
    if "data" not in details or "result" not in details:
        return None
    data = cast("dict[str, Any]", json.loads(details["data"].payloads[0].data))
    name = str(data.get("activity_type"))
    if name not in _RESULTS:
        return None
    return Entry(execution, name, None, await _decode(client, details["result"].payloads[0], _RESULTS[name]))


async def _decode(client: Client, payload: Payload, kind: type) -> Any:
    return (await client.data_converter.decode([payload], [kind]))[0]
