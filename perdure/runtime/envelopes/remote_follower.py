"""Following what runs ask of agents elsewhere. API and worker processes do; of each ask one at a time, by its lease.

A process that dies leaves its asks to the others: the envelope and the frames that came are in the store, so the ask is sent
again as the same one, the stream goes on where it was, and the wait is answered once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, NoReturn

from perdure.errors import ServerUnavailable
from perdure.runtime.envelopes.remote_outcome import TryLater
from perdure.runtime.envelopes.remote_parts import RemoteParts
from perdure.runtime.rounds import repeat
from perdure.store.database import is_away
from perdure.store.remote_asks import AskRow, read_ask
from perdure.store.remote_leases import Lease, LeaseLost, claim_asks, release_ask, renew_lease, withdraw_ask
from perdure.uap.ids import new_id

if TYPE_CHECKING:
    from perdure.runtime.envelopes.remote_ask import RemoteAsk
    from perdure.runtime.envelopes.remote_clients import RemoteClients

logger = logging.getLogger(__name__)

AT_ONCE = 200
"""How many asks one process follows; others wait for one of these to end, or for another process."""


class RemoteFollower:
    """One process's following."""

    def __init__(self, parts: RemoteParts) -> None:
        """Follow nothing yet."""
        self._parts = parts
        self._tasks: set[asyncio.Task[None]] = set()
        self._clients: RemoteClients | None = None

    async def run(self) -> NoReturn:
        """Look for asks that are due until cancelled; what is followed then is left to others at once."""
        try:
            await repeat((self.look,), self._parts.times.period, jitter=0.2)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def look(self) -> int:
        """One round; returns how many asks were taken.

        Each round holds what it takes by a name of its own: a process that was stopped for longer than a lease may take an
        ask that a task of its own still follows.
        """
        parts = self._parts
        room = AT_ONCE - len(self._tasks)
        if room <= 0:
            return 0
        holder = new_id()
        asks = await claim_asks(
            parts.database, parts.tenant, holder, now=parts.clock(), lease=parts.times.lease, limit=room
        )
        for row in asks:
            lease = Lease(row.key.tenant, row.id, holder)
            task = asyncio.create_task(self._follow(row, lease), name=f"remote ask {row.id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return len(asks)

    async def _follow(self, row: AskRow, lease: Lease) -> None:
        """Follow an ask until it has ended, is due later, or is another's."""
        try:
            asking = self._asking(row, lease)
            try:
                await self._attempt(asking, lease)
            except LeaseLost:
                await self._left(asking)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):  # whatever is in the way, the lease ends by itself
                await release_ask(self._parts.database, lease, row.key, due_at=self._parts.clock(), problem=None)
            raise
        except Exception as error:
            if not is_away(error):
                logger.exception("remote.follow_failed ask=%s run=%s", row.id, row.run)

    async def _attempt(self, asking: RemoteAsk, lease: Lease) -> None:
        parts, row = self._parts, asking.row
        try:
            if await self._is_wanted(lease):
                await self._ask_while_wanted(asking, lease)
            else:
                await self._withdraw(asking, lease)
        except TryLater as later:
            logger.info("remote.deferred ask=%s run=%s url=%s %s", row.id, row.run, row.url, later)
            due_at = parts.clock() + later.pause(row.failures, parts.times.longest_pause)
            await release_ask(parts.database, lease, row.key, due_at=due_at, problem=later.problem)

    def _asking(self, row: AskRow, lease: Lease) -> RemoteAsk:
        """What asks is imported by the first ask: most processes have none, and every binding's library comes with it."""
        from perdure.runtime.envelopes.remote_ask import RemoteAsk
        from perdure.runtime.envelopes.remote_clients import RemoteClients

        if self._clients is None:
            self._clients = RemoteClients(self._parts)
        return RemoteAsk(self._parts, self._clients, row, lease)

    async def _ask_while_wanted(self, asking: RemoteAsk, lease: Lease) -> None:
        """Ask, and keep the lease meanwhile; as soon as the answer is not wanted any more, say so to the other side."""
        work = asyncio.create_task(asking.run(), name=f"ask {lease.ask}")
        keeping = asyncio.create_task(self._keep(lease), name=f"keep the lease of {lease.ask}")
        try:
            await asyncio.wait([work, keeping], return_when=asyncio.FIRST_COMPLETED)
            if work.done() or asking.is_ending:
                await work
                return
            await _cancelled(work)
            await keeping
            await self._withdraw(asking, lease)
        finally:
            await _cancelled(work)
            await _cancelled(keeping)

    async def _keep(self, lease: Lease) -> None:
        """Renew the lease until the answer is not wanted any more.

        Raises:
            LeaseLost: it is another's now, or could not be renewed in time.
        """
        parts, beat = self._parts, self._parts.times.beat
        kept_until = parts.clock() + parts.times.lease
        while True:
            await asyncio.sleep(beat.total_seconds())
            try:
                if not await self._is_wanted(lease):
                    return
                kept_until = parts.clock() + parts.times.lease
            except Exception as error:
                if not is_away(error):
                    raise
                if parts.clock() + beat > kept_until:
                    raise LeaseLost(lease.ask) from error

    async def _is_wanted(self, lease: Lease) -> bool:
        now = self._parts.clock()
        return await renew_lease(self._parts.database, lease, now=now, until=now + self._parts.times.lease)

    async def _withdraw(self, asking: RemoteAsk, lease: Lease) -> None:
        """Tell the other side that its answer is not wanted any more, and end the ask.

        Raises:
            TryLater: the other side is away.
        """
        await asking.cancel()
        await withdraw_ask(self._parts.database, lease, asking.row.key)

    async def _left(self, asking: RemoteAsk) -> None:
        """The ask is another's now; if it is gone with its session, the other side is told once that nobody waits."""
        row = asking.row
        try:
            if await read_ask(self._parts.database, row.key, row.id) is not None:
                return
            await asking.cancel()
        except (TryLater, ServerUnavailable) as error:
            logger.info("remote.cancel_lost ask=%s url=%s %s", row.id, row.url, error)


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Have a task end, whatever it came to: if that counts, it is asked for it."""
    if not task.done():
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
