"""One session on a client's WebSocket: its client's events are applied one after the other, and it is told what comes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Protocol

from perdure.api.doors.uamp.cursor import WHOLE, Cursor
from perdure.api.doors.uamp.desk import Desk
from perdure.api.doors.uamp.opening import Opening
from perdure.api.doors.uamp.teller import Teller
from perdure.errors import PerdureError, SessionGone
from perdure.protocols.uamp_events.client_events import ClientEvent, SessionEnd
from perdure.protocols.uamp_events.connection import Connection
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.surrounding_events import ServerEvent
from perdure.store.database import is_away
from perdure.store.uamp.mail import set_told
from perdure.store.uamp.rows import Seat

logger = logging.getLogger(__name__)


class Holder(Protocol):
    """The line that a session is on."""

    async def send(self, events: list[ServerEvent]) -> None:
        """Send events."""
        ...

    def applied(self, size: int) -> None:
        """An event of so many bytes is applied."""
        ...

    def ended(self, member: Member) -> None:
        """The session's end is told."""
        ...


class Member:
    """A session that is open on a line.

    Attributes:
        row: as it was when it was opened here.
    """

    def __init__(self, line: Holder, desk: Desk, connection: Connection, opened: Opening) -> None:
        """Of a line whose connection holds the session."""
        self.row = opened.row
        self._line = line
        self._desk = desk
        self._connection = connection
        self._events: asyncio.Queue[tuple[ClientEvent, int]] = asyncio.Queue()
        self._start = opened.start or Cursor(opened.row.told_log, WHOLE, opened.row.told_mail)
        self._is_resumed = opened.is_resumed
        self._had = self._noted = self._start
        self._seat: Seat | None = None

    def take(self, event: ClientEvent, size: int) -> None:
        """Apply an event of the client's when its turn comes."""
        self._events.put_nowait((event, size))

    async def sit(self) -> None:
        """Let the chat's others know that somebody is there."""
        self._seat = await self._desk.services.backend.seats.take(self.row)

    async def work(self) -> None:
        """Apply events, until cancelled."""
        while True:
            event, size = await self._events.get()
            try:
                await self._told(await self._desk.apply(self._connection, self.row, event))
            except PerdureError as error:
                failed = EventRefused(Code.INTERNAL_ERROR, str(error), event_id=event.event_id, session_id=self.row.id)
                await self._line.send([self._connection.fault(failed)])
            finally:
                self._line.applied(size)

    async def tell(self) -> None:
        """Tell what comes, up to the session's end."""
        teller = Teller(self._desk.services, self.row, self._start, passed=self._passed if self._is_resumed else None)
        try:
            async with contextlib.aclosing(teller.follow()) as pages:
                async for page in pages:
                    await self._told([told.event for told in page])
                    self._had = page[-1].cursor
        except SessionGone:
            await self._told([SessionEnd(**self._connection.head(self.row.id), reason="error")])
        self._line.ended(self)

    async def note_told(self) -> None:
        """Store where the client stands, if it has come further; where the database is away, the next time."""
        had = self._had
        if had == self._noted:
            return
        try:
            await set_told(self._desk.services.database, self.row.tenant, self.row.id, log=had.log, mail=had.mail)
        except Exception as error:
            if not is_away(error):
                raise
        else:
            self._noted = had

    async def leave(self) -> None:
        """The line is closed, or the session has ended."""
        await self.note_told()
        if self._seat is not None:
            await self._desk.services.backend.seats.leave(self._seat)

    async def _told(self, events: list[ServerEvent]) -> None:
        is_here = self.row.id in self._connection.sessions
        await self._line.send(self._connection.admit(self.row.id, events) if is_here else events)

    def _passed(self, event: ServerEvent) -> None:
        self._connection.admit(self.row.id, [event])
