"""`take_steers`: lets inputs join a run before the first model call of a step. A local activity."""

from __future__ import annotations

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.contracts import TakeSteersInput, TakeSteersResult
from perdure.activities.lifeline import writer_of
from perdure.activities.services import Services
from perdure.store.beginning import take_steers
from perdure.store.messages import read_messages
from perdure.testing.crash import crash_point
from perdure.uap.cut import cut_input


class TakeSteers:
    """The inputs that join runs on one worker."""

    def __init__(self, services: Services) -> None:
        """Read and write the store of `services`."""
        self._services = services

    @activity.defn(name=contracts.TAKE_STEERS)
    async def take_steers(self, call: TakeSteersInput) -> TakeSteersResult:
        """Take them in one transaction; the same ones for the same step, however often this runs."""
        writer = writer_of(call.tenant, call.session, call.run)
        database = self._services.database
        crash_point("take_steers.storing")
        kind, end = await take_steers(database, writer, call.node, position=call.position, step=call.step)
        crash_point("take_steers.stored")
        if kind != "taken" or end == call.position:
            return TakeSteersResult(kind)
        self._services.announcer.changed(writer.key)
        stored = await read_messages(database, writer.key, call.node, first=call.position, end=end, discarded=True)
        return TakeSteersResult(
            kind,
            messages=[cut_input(item.message).to_json() for item in stored],
            rows=[{"id": item.id, "sha256": item.sha256} for item in stored],
        )
