"""Taking the events of UAMP's clients, whichever transport they came by, at any process.

An event of a session is applied while the session's row is locked, and what it asks for is carried out after that, so that
neither a second process nor a second telling of the same event applies it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from perdure.api.authentication import Authenticator
from perdure.api.backend import Backend
from perdure.api.doors.uamp import beginning
from perdure.api.doors.uamp.carrying import Carrying
from perdure.api.doors.uamp.cursor import WHOLE, Cursor
from perdure.api.doors.uamp.holding import Given, Holding
from perdure.api.doors.uamp.opening import Opening, opening
from perdure.api.doors.uamp.paying import Paying
from perdure.api.doors.uamp.services import Services
from perdure.api.doors.uamp.teller import Teller
from perdure.api.principal import Principal
from perdure.api.rate_limit import RateLimit
from perdure.config import Settings
from perdure.protocols.uamp_events.capabilities import Capabilities
from perdure.protocols.uamp_events.client_events import (
    ClientEvent,
    ResponseCreate,
    SessionCreate,
    SessionEnd,
    SessionUpdate,
)
from perdure.protocols.uamp_events.commands import (
    ApplyEvent,
    OpenSession,
    Reaction,
    RefreshTokens,
    SubmitPayment,
)
from perdure.protocols.uamp_events.connection import Connection
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.parsing import UnknownEvent, client_event
from perdure.protocols.uamp_events.server_events import ResponseError, SessionError
from perdure.protocols.uamp_events.stored_session import session_of
from perdure.protocols.uamp_events.surrounding_events import ServerEvent
from perdure.store.uamp.held import held_session
from perdure.store.uamp.opening import find_session
from perdure.store.uamp.rows import UampSessionRow
from perdure.store.uamp.told_runs import seq_at_opening
from perdure.uap.ids import new_id
from perdure.upp.json_value import JSONObject

_OPENED_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Posted:
    """An event that was taken over HTTP.

    Attributes:
        session_id: whose it was, or that it opened; None of an event of no session.
        event_id: its id.
        opened: it opened the session.
    """

    session_id: str | None
    event_id: str
    opened: bool


class Desk:
    """The desk of one process."""

    def __init__(self, services: Services) -> None:
        """Serve with the process's servers."""
        self.services = services
        self._holding = Holding(services)
        self._openings = asyncio.Semaphore(_OPENED_AT_ONCE)

    async def capabilities(self, tenant: str, agent: str | None) -> Capabilities:
        """What an agent can do; the default one without a name. Raises UnknownAgent."""
        return await self.services.capabilities(tenant, agent)

    async def find(self, principal: Principal | None, session_id: str) -> UampSessionRow:
        """A session of the caller's, one that has ended too.

        Raises:
            EventRefused: the caller is not known, or has no such session.
        """
        caller = await self.services.caller_of(None, principal)
        row = await find_session(self.services.database, caller.tenant, session_id)
        if row is None or row.principal != caller.name:
            raise EventRefused(
                Code.SESSION_NOT_FOUND, f"you have no session {session_id[:200]!r}", session_id=session_id
            )
        return row

    async def teller(self, row: UampSessionRow, cursor: Cursor | None = None) -> Teller:
        """What tells a session's events from a place on, by default all, whoever else has been told them."""
        if cursor is None:
            cursor = Cursor(await seq_at_opening(self.services.database, row), WHOLE, 0)
        return Teller(self.services, row, cursor)

    async def post(self, principal: Principal | None, session_id: str | None, given: JSONObject) -> Posted:
        """Take one event over HTTP. What its client is answered goes into the session's mail.

        Args:
            principal: who sent it; None if nobody knows.
            session_id: the session that the request named, if it did.
            given: the event.

        Raises:
            EventRefused: it was not taken.
            PerdureError: a server failed; the same event may be sent again.
        """
        event = client_event(given, draw_id=new_id)
        connection = self.services.connection()
        row = None
        if session_id is not None:
            row = await self.find(principal, session_id)
            if row.ended_at is not None and not isinstance(event, SessionEnd):
                raise EventRefused(Code.SESSION_NOT_FOUND, f"session {session_id} has ended", session_id=session_id)
            connection.adopt(session_of(row.id, row.state, ()))
            event = event if isinstance(event, UnknownEvent) else event.model_copy(update={"session_id": row.id})
        reaction = connection.take(event)
        refused = next((told for told in reaction.events if isinstance(told, SessionError | ResponseError)), None)
        if refused is not None:
            raise EventRefused(
                refused.error.code, refused.error.message, details=refused.error.details, event_id=event.event_id
            )
        for command in reaction.commands:
            if isinstance(command, OpenSession):
                return await self._open_by_post(connection, principal, command)
            if isinstance(command, ApplyEvent) and row is not None:
                reaction = Reaction(await self.apply(connection, row, command.event))
        if row is not None and reaction.events:
            await self._mail(row, reaction.events)
        return Posted(session_id, event.event_id, opened=False)

    async def open(self, principal: Principal | None, session_id: str, event: SessionCreate) -> Opening:
        """Open a session, or go on with one. Raises EventRefused."""
        async with self._openings:
            return await opening(self.services, principal, session_id, event)

    async def apply(self, connection: Connection, row: UampSessionRow, event: ClientEvent) -> list[ServerEvent]:
        """Apply an event of an open session, carry out what it asks for, and return what its client is answered.

        Args:
            connection: holds the session.
            row: the session's.
            event: its client's.
        """
        paying = Paying(self.services, row.tenant, row.agent, row.id)
        event, payment, replies = await paying.taken_out(event)
        is_paid = isinstance(event, ResponseCreate) and await paying.is_asked_for()
        reaction, row = await self._holding.apply(connection, row, Given(event, payment, is_paid))
        carrying = Carrying(self.services, connection, row)
        events = [*replies, *reaction.events]
        try:
            for command in reaction.commands:
                events += await carrying.carry_out(command)
                if isinstance(command, SubmitPayment):
                    await self._holding.note(row, event)
        except BaseException:
            connection.forget(row.id, event.event_id)  # it may be sent again
            raise
        return events

    async def refresh(
        self, connection: Connection, rows: list[UampSessionRow], command: RefreshTokens
    ) -> list[ServerEvent]:
        """Give new tokens of a connection to its sessions.

        Args:
            connection: whose.
            rows: of the sessions that the command names.
            command: the tokens.
        """
        events: list[ServerEvent] = []
        for row in rows:
            update = SessionUpdate(
                event_id=command.event_id, session_id=row.id, token=command.token, payment_token=command.payment_token
            )
            events += [told for told in await self.apply(connection, row, update) if isinstance(told, SessionError)]
        return events or connection.updated(command)

    async def _open_by_post(self, connection: Connection, principal: Principal | None, asked: OpenSession) -> Posted:
        opened = await self.open(principal, asked.session_id, asked.event)
        connection.adopt(opened.live)
        told = connection.opened(
            opened.row.id,
            opened.capabilities,
            created_at=int(opened.row.created_at.timestamp()),
            agent=opened.row.agent,
        )
        await self._mail(opened.row, [*told.events, *opened.replies])
        return Posted(opened.row.id, asked.event.event_id, opened=not opened.is_resumed)

    async def _mail(self, row: UampSessionRow, events: list[ServerEvent]) -> None:
        chats = self.services.backend.chats(row.tenant)
        async with held_session(self.services.database, row.tenant, row.id) as held:
            if held is not None:
                await held.post([event.to_json() for event in events])
        chats.announce(row.id)


@asynccontextmanager
async def open_desk(
    backend: Backend, authenticator: Authenticator, rate: RateLimit | None, settings: Settings
) -> AsyncGenerator[Desk]:
    """The desk of a process, which inside the block also begins what processes that have died were to begin.

    Args:
        backend: open.
        authenticator: of the process's callers.
        rate: how many requests each of them may send.
        settings: of the process.
    """
    services = Services(backend, authenticator, rate, settings.delegate_forward_thinking)
    beginner = asyncio.create_task(beginning.keep_beginning(services), name="begin responses of UAMP")
    try:
        yield Desk(services)
    finally:
        beginner.cancel()
        await asyncio.gather(beginner, return_exceptions=True)
