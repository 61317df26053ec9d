"""Telling one UAMP session's client: what becomes of its chat's log and what lies in its mail, in order, from any place on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias, cast

from perdure.api.doors.uamp.chat_log import ChatLog, Placed
from perdure.api.doors.uamp.cursor import WHOLE, Cursor
from perdure.api.doors.uamp.services import Services, now_ms
from perdure.protocols.uamp_events.client_events import SessionEnd
from perdure.protocols.uamp_events.delegated import forwarded_thinking
from perdure.protocols.uamp_events.event_place import Place
from perdure.protocols.uamp_events.log_row import Head
from perdure.protocols.uamp_events.parsing import SERVER_EVENTS
from perdure.protocols.uamp_events.server_events import ResponseDelta
from perdure.protocols.uamp_events.surrounding_events import ServerEvent
from perdure.runtime.delegated_thinking import follow_thinking
from perdure.store.events import Event, read_events
from perdure.store.uamp.mail import read_mail
from perdure.store.uamp.rows import UampSessionRow
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey

_PAGES_AHEAD = 2

Passed: TypeAlias = Callable[[ServerEvent], None]


@dataclass(frozen=True, slots=True)
class Told:
    """An event, and where its reader stands once it has it."""

    event: ServerEvent
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class _Page:
    """What one of the sources gave: rows of the log or of the mail, a sub-agent's thought, or the error with which it ended."""

    rows: list[Event] = field(default_factory=list[Event])
    is_mail: bool = False
    thought: ResponseDelta | None = None
    error: Exception | None = None


class Teller:
    """Tells one session's client. Reading again from a cursor gives the same events, with the same ids."""

    def __init__(
        self, services: Services, session: UampSessionRow, start: Cursor, *, passed: Passed | None = None
    ) -> None:
        """Tell what comes behind a place.

        Args:
            services: of the process.
            session: whose client is told.
            start: where it stands.
            passed: told of what it has had of the responses that are open at the start. Then it is also told once more
                what it still has to answer.
        """
        self._services = services
        self._session = session
        self._start = start
        self._passed = passed
        self._log = ChatLog(services, session, start)
        self._pages: asyncio.Queue[_Page] = asyncio.Queue(_PAGES_AHEAD)
        self._pumps: list[asyncio.Task[None]] = []
        self._caught_up_at: datetime | None = None
        self.cursor = start
        self._ended = False

    async def follow(self) -> AsyncGenerator[list[Told], None]:
        """The events as they come, several at once where they are there, up to and with session.end.

        Raises:
            SessionGone: the chat was deleted.
            ServerError: the process is leaving.
        """
        for page in (await self._catch_up(), await self._waiting_mail()):
            if page:
                yield page
        if self._ended or (self._session.ended_at is not None and self._start.mail >= self._session.last_mail):
            return
        self._pump(self._rows(is_mail=False))
        self._pump(self._rows(is_mail=True))
        try:
            while not self._ended:
                self._follow_children()
                told = await self._tell(await self._pages.get())
                if told:
                    yield told
        finally:
            for pump in self._pumps:
                pump.cancel()
            await asyncio.gather(*self._pumps, return_exceptions=True)

    def _pump(self, source: AsyncGenerator[_Page, None]) -> None:
        """Have a source's pages come."""

        async def pump() -> None:
            try:
                async with aclosing(source) as pages:
                    async for page in pages:
                        await self._pages.put(page)
            except Exception as error:
                await self._pages.put(_Page(error=error))
                raise

        self._pumps = [task for task in self._pumps if not task.done()]
        self._pumps.append(asyncio.create_task(pump(), name="follow a UAMP session"))

    async def _rows(self, *, is_mail: bool) -> AsyncGenerator[_Page, None]:
        backend = self._services.backend
        if is_mail:
            key = SessionKey(self._session.tenant, self._session.id)
            source = backend.mail.follow_pages(key, after=self.cursor.mail)
        else:
            source = backend.stream.follow_pages(self._session.key, after=self._start.log)
        async with aclosing(source) as followed:
            async for rows in followed:
                yield _Page(rows, is_mail=is_mail)

    def _follow_children(self) -> None:
        """Have what new sub-agents think come."""
        for response_id, started in self._log.new_children():
            if self._services.forwards_thinking:
                self._pump(self._thoughts(response_id, started))

    async def _thoughts(self, response_id: str, started: Event) -> AsyncGenerator[_Page, None]:
        since = self._caught_up_at if started.seq <= self._start.log else None
        stream = self._services.backend.stream
        thoughts = follow_thinking(stream, self._session.tenant, started, since=since)
        async with aclosing(thoughts):
            async for thought in thoughts:
                told = forwarded_thinking(
                    thought.row, session_id=self._session.id, response_id=response_id, call_id=thought.call
                )
                if told is not None:
                    yield _Page(thought=told)

    async def _catch_up(self) -> list[Told]:
        """Read what is open at the start from its beginning; of the start's own row what was not told yet."""
        told: list[Told] = []
        after = (
            await self._log.first() if self._start.part >= WHOLE else min(await self._log.first(), self._start.log - 1)
        )
        while after < self._start.log:
            page = await read_events(self._services.database, self._session.key, after=after)
            for row in page:
                if row.seq > self._start.log:
                    after = self._start.log
                    break
                told += self._of_row(await self._log.read(row))
                after, self._caught_up_at = row.seq, row.at
            if not page:
                break
        if self._passed is not None:
            told += [Told(event, self.cursor) for event in self._log.reminders()]
        return told

    async def _waiting_mail(self) -> list[Told]:
        """What lies in the mail at the start stands before what comes."""
        told: list[Told] = []
        for row in await read_mail(
            self._services.database, self._session.tenant, self._session.id, after=self.cursor.mail
        ):
            told += await self._of_mail(row)
        return told

    async def _tell(self, page: _Page) -> list[Told]:
        if page.error is not None:
            raise page.error
        if page.thought is not None:
            return [Told(page.thought, self.cursor)] if self._log.is_open(page.thought.response_id) else []
        told: list[Told] = []
        for row in page.rows:
            told += await self._of_mail(row) if page.is_mail else await self._of_log(row)
            if self._ended:
                break
        return told

    async def _of_log(self, row: Event) -> list[Told]:
        if row.seq <= self.cursor.log and self.cursor.part >= WHOLE:
            return []
        told = self._of_row(await self._log.read(row))
        self.cursor = Cursor(row.seq, WHOLE, self.cursor.mail)
        return told

    def _of_row(self, events: list[Placed]) -> list[Told]:
        told: list[Told] = []
        for place, event in events:
            if _is_had(place, self._start):
                if self._passed is not None:
                    self._passed(event)
                continue
            self.cursor = Cursor(place.seq, place.part, self.cursor.mail)
            told.append(Told(event, self.cursor))
        return told

    async def _of_mail(self, row: Event) -> list[Told]:
        if row.seq <= self.cursor.mail:
            return []
        here = self.cursor
        event = cast(ServerEvent, SERVER_EVENTS[row.type].model_validate(row.data))
        told: list[Told] = []
        if isinstance(event, SessionEnd):
            told, self._ended = await self._last_of_log(), True
            here = self.cursor
        self.cursor = Cursor(here.log, here.part, row.seq)
        return [*told, Told(event, self.cursor)]

    async def _last_of_log(self) -> list[Told]:
        """Before session.end: what there is of the log, and the ends of responses that no worker has come to end."""
        told: list[Told] = []
        while page := await read_events(self._services.database, self._session.key, after=self.cursor.log):
            for row in page:
                told += await self._of_log(row)
        told += [Told(event, self.cursor) for event in self._log.cut_off(self._head)]
        return told

    def _head(self) -> Head:
        return Head(event_id=new_id(), timestamp=now_ms(), session_id=self._session.id)


def _is_had(place: Place, start: Cursor) -> bool:
    return (place.seq, place.part) <= (start.log, start.part)
