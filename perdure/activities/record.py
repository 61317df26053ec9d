"""`record`: what must not wait for the next activity. A local activity."""

from __future__ import annotations

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.contracts import RecordInput, RecordResult
from perdure.activities.lifeline import writer_of
from perdure.activities.services import Services
from perdure.store import runs
from perdure.testing.crash import crash_point


class Record:
    """The notes and flags that one worker writes."""

    def __init__(self, services: Services) -> None:
        """Write to the store of `services`."""
        self._services = services

    @activity.defn(name=contracts.RECORD)
    async def record(self, call: RecordInput) -> RecordResult:
        """Write in one transaction; a note is written once however often this runs."""
        writer = writer_of(call.tenant, call.session, call.run or "")
        crash_point("record.storing")
        kind, wait, written = await runs.record(
            self._services.database,
            writer.key,
            run=call.run,
            execution=writer.execution,
            pending=call.pending,
            note=f"{writer.execution}:{call.note}",
            events=call.events,
            paused=call.paused,
            status=call.status,
            wait=call.wait,
        )
        crash_point("record.stored")
        self._services.announcer.changed(writer.key)
        return RecordResult(kind=kind, wait=wait, pending=written)
