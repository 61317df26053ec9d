"""What any process does for exchanges whose own process died, or that nobody reads: begun, ended, cancelled, forgotten."""

from __future__ import annotations

from datetime import timedelta
from typing import NoReturn

from perdure.protocols.uamp_envelope.delta import DeltaType
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.lifecycle import Step
from perdure.runtime.envelopes.asks import begin, begins_by_itself, cancel_run
from perdure.runtime.envelopes.ending import catch_up, end_stream
from perdure.runtime.envelopes.informs import finish_joining
from perdure.runtime.envelopes.parts import DeskParts
from perdure.runtime.envelopes.proposals import decide
from perdure.runtime.rounds import repeat, seldom
from perdure.store.envelopes.exchanges import exchanges_of_ended_runs, unbegun_exchanges
from perdure.store.envelopes.forgetting import forget_old
from perdure.store.envelopes.informs import unjoined_informs
from perdure.store.envelopes.neglected import cancelled_with_open_runs, note_ended, unread_subscriptions, untold_cancels
from perdure.store.runs import find_run

PERIOD = timedelta(seconds=2)
PATIENCE = timedelta(seconds=2)
"""So long the process that took an envelope has for what it asks for, before another one does it."""

_BATCH = 100
_UNREAD = timedelta(hours=1)
"""So long at least a subscription goes on of which nobody reads."""

_NOBODY = UAMPError(Code.EXPIRED, "nobody has read this subscription for a long time; subscribe again")


class EnvelopeSweep:
    """Its rounds. All of them may be made by several processes at once."""

    def __init__(self, parts: DeskParts) -> None:
        """Look after the exchanges of a desk."""
        self._parts = parts

    async def run(self) -> NoReturn:
        """A round each `PERIOD` until cancelled; what is kept for hours is looked at in each fifth."""
        kept = (seldom(work) for work in (self.expire, self.forget))
        await repeat((self.begin, self.cancel, self.settle, self.join, *kept), PERIOD, jitter=0.2)

    async def begin(self) -> int:
        """Begin what was kept and not begun; how many exchanges."""
        parts = self._parts
        rows = await unbegun_exchanges(
            parts.database,
            parts.tenant,
            before=parts.clock() - PATIENCE,
            limit=_BATCH,
            intents=[intent for intent in Intent if intent.opens and begins_by_itself(parts, intent)],
        )
        for row in rows:
            await begin(parts, row)
        return len(rows)

    async def cancel(self) -> int:
        """Tell of cancels that were not told, and cancel runs that go on; how many exchanges."""
        parts = self._parts
        for row in await untold_cancels(parts.database, parts.tenant, limit=_BATCH):
            await end_stream(parts.streams, row.id, DeltaType.CANCEL, {}, step=Step.CANCEL)
        rows = await cancelled_with_open_runs(parts.database, parts.tenant, limit=_BATCH)
        for row in rows:
            await cancel_run(parts, row)
        return len(rows)

    async def settle(self) -> int:
        """Note the end of what ran and has ended, read or not; how many exchanges."""
        parts = self._parts
        rows = await exchanges_of_ended_runs(parts.database, parts.tenant, limit=_BATCH)
        for row in rows:
            if row.intent is Intent.PROPOSE:
                assert row.run is not None
                await decide(parts.streams, row, await find_run(parts.database, parts.tenant, row.run))
            elif not await catch_up(parts.streams, row.id):
                await note_ended(parts.database, parts.tenant, row.id, now=parts.clock())
        return len(rows)

    async def expire(self) -> int:
        """End subscriptions that nobody reads, and that would have a place here for ever; how many."""
        parts = self._parts
        before = parts.clock() - max(parts.rules.retention, _UNREAD)
        rows = await unread_subscriptions(parts.database, parts.tenant, before=before, limit=_BATCH)
        for row in rows:
            await end_stream(
                parts.streams, row.id, DeltaType.ERROR, _NOBODY.about(row.envelope).to_json(), step=Step.ERROR
            )
        return len(rows)

    async def join(self) -> int:
        """Hand in informs whose process died on the way to their run; how many."""
        parts = self._parts
        rows = await unjoined_informs(parts.database, parts.tenant, before=parts.clock() - PATIENCE, limit=_BATCH)
        for row in rows:
            await finish_joining(parts, row)
        return len(rows)

    async def forget(self) -> int:
        """Delete what is kept no longer; how many exchanges."""
        parts, rules = self._parts, self._parts.rules
        memory = max(rules.retention, 4 * rules.freshness)
        forgotten = await forget_old(
            parts.database, parts.tenant, now=parts.clock(), retention=rules.retention, replay_memory=memory
        )
        return forgotten.exchanges
