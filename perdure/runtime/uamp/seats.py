"""The open connections of this process: each holds a seat in its chat, so that its others know who is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from perdure.runtime.uamp.chats import chat_name, presence
from perdure.store.database import Database, is_away
from perdure.store.events import Announcer
from perdure.store.uamp.rows import Seat, UampSessionRow
from perdure.store.uamp.seats import LIVES_S, leave_seat, renew_seats, take_seat
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey

logger = logging.getLogger(__name__)


class Seats:
    """The seats that this process holds; all of them are renewed at once, three times in their life."""

    def __init__(self, database: Database, announcer: Announcer) -> None:
        """Hold seats in `database`; who is told through an announcer of mail."""
        self._database = database
        self._announcer = announcer
        self._held: dict[str, Seat] = {}
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def seated(self, row: UampSessionRow) -> AsyncGenerator[Seat]:
        """A seat for as long as the block lasts."""
        seat = await self.take(row)
        try:
            yield seat
        finally:
            await self.leave(seat)

    async def take(self, row: UampSessionRow) -> Seat:
        """A connection of a session is open; the chat's others are told if it is its user's first."""
        seat = Seat(new_id(), row)
        await self._sit(seat)
        self._held[seat.id] = seat
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._renew(), name="renew seats")
        return seat

    async def leave(self, seat: Seat) -> None:
        """It is closed; they are told if it was its user's last.

        Where the database is away the seat goes when its time is over.
        """
        if self._held.pop(seat.id, None) is None:
            return
        row = seat.session
        told = presence(row.user, row.username, chat_name(row), online=False)
        try:
            self._announce(row.tenant, await leave_seat(self._database, seat, told))
        except Exception as error:
            if not is_away(error):
                raise

    async def close(self) -> None:
        """Leave all of them."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for seat in list(self._held.values()):
            await self.leave(seat)

    async def _sit(self, seat: Seat) -> None:
        row = seat.session
        told = presence(row.user, row.username, chat_name(row), online=True)
        self._announce(row.tenant, await take_seat(self._database, seat, told))

    async def _renew(self) -> None:
        while self._held:
            await asyncio.sleep(LIVES_S / 3)
            try:
                held = list(self._held.values())
                there = await renew_seats(self._database, held)
                for seat in held:  # one that went while the database was away is taken again
                    if seat.id not in there and seat.id in self._held:
                        await self._sit(seat)
            except Exception as error:
                if not is_away(error):
                    logger.exception("uamp.seats_not_renewed")

    def _announce(self, tenant: str, posted: Sequence[str]) -> None:
        for ident in posted:
            self._announcer.changed(SessionKey(tenant, ident))
