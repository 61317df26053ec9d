"""Permits of the limits that all workers share: taken before a model is asked, kept while it answers, given back after."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from perdure.activities.lifeline import STORE_PATIENCE
from perdure.store import limits
from perdure.store.answers import Writer
from perdure.store.database import Database, is_away, keep_trying
from perdure.store.limits import Asked, Permit
from perdure.uap.ids import new_id
from perdure.uap.shared_limits import EVERYBODY, Bucket
from perdure.upp.chance import CHANCE
from perdure.upp.errors import ErrorCode, UPPError

logger = logging.getLogger(__name__)

HOLDER = f"{os.getpid()}@{socket.gethostname()}"
_SHORTEST_S = 0.15
_PER_PLACE_S = 0.03
_LONGEST_S = 2.0
_LONGEST_BLOCK = timedelta(seconds=120)


class Permits:
    """The permits of one model call, one set for each request to the provider.

    Attributes:
        probing: the request under way finds out whether the provider answers again; others wait for it.
    """

    def __init__(self, database: Database, buckets: Sequence[Bucket], writer: Writer, lease_s: float) -> None:
        """Ask for permits of `buckets` for a run. Without any nothing is asked of the database."""
        self._database = database
        self._buckets = buckets
        self._writer = writer
        self._lease_s = lease_s
        self._asked: list[Permit] = []
        self._held: list[Permit] = []
        self.probing = False

    @asynccontextmanager
    async def request(self) -> AsyncGenerator[None]:
        """Hold a permit of every limit inside the block, waiting for one after the other; cancellable while it waits.

        Who waits for a later one holds the earlier ones, which are narrower: nobody else is held up by that.
        """
        if not self._buckets:
            yield
            return
        renewing = asyncio.create_task(self._renew(), name="permits")
        answered = False
        try:
            for bucket in self._buckets:
                await self._take(Permit(new_id(), bucket, self._writer, HOLDER, self._lease_s))
            yield
            answered = True
        finally:
            renewing.cancel()
            await asyncio.shield(asyncio.create_task(self._release(renewing, answered=answered)))

    async def answered(self) -> None:
        """Say that the provider has begun to answer; others need not wait for the end of it."""
        self.probing = False
        for bucket in self._buckets:
            await keep_trying(lambda one=bucket: limits.unblock_bucket(self._database, one), deadline=STORE_PATIENCE)

    async def failed(self, error: UPPError) -> None:
        """Have all workers hold back if the provider has said that it is too much."""
        bucket = next((one for one in self._buckets if one.owner == EVERYBODY), None)
        if bucket is None or error.code is not ErrorCode.RATE_LIMITED:
            return
        asked = None if error.retry_after is None else min(error.retry_after, _LONGEST_BLOCK).total_seconds()
        for_s = await keep_trying(lambda: limits.block_bucket(self._database, bucket, asked), deadline=STORE_PATIENCE)
        logger.warning("limit.blocked name=%s seconds=%.1f", bucket.name, for_s)

    async def _take(self, permit: Permit) -> None:
        self._asked.append(permit)
        said = False
        while True:
            found = await keep_trying(lambda: limits.take_permit(self._database, permit), deadline=STORE_PATIENCE)
            if found.held:
                self._held.append(permit)
                self.probing = self.probing or found.probe
                return
            if not said:
                said = True
                logger.info("limit.waited name=%s ahead=%d", permit.bucket.name, found.ahead)
            await asyncio.sleep(self._pause(found))

    def _pause(self, found: Asked) -> float:
        """Seconds until it is worth while to ask again: never so long that the place in the queue is lost."""
        pause = max(_SHORTEST_S, _PER_PLACE_S * found.ahead, found.wait_s)
        return min(pause, _LONGEST_S, self._lease_s / 4) * (1 + CHANCE.random() / 4)

    async def _renew(self) -> None:
        """Keep what is held. Who waits keeps its place by asking."""
        while True:
            await asyncio.sleep(self._lease_s / 3)
            for permit in list(self._held):
                await keep_trying(lambda one=permit: limits.renew_permit(self._database, one), deadline=STORE_PATIENCE)

    async def _release(self, renewing: asyncio.Task[None], *, answered: bool) -> None:
        """Give everything back once nothing renews it any more; where the store is away the leases run out."""
        await asyncio.gather(renewing, return_exceptions=True)
        asked, self._asked, self._held, self.probing = self._asked, [], [], False
        try:
            for permit in asked:
                await limits.release_permit(self._database, permit, answered=answered)
        except Exception as error:
            if not is_away(error):
                raise
            logger.warning("limit.release_deferred %s", error)
