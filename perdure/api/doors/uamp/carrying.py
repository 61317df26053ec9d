"""Carrying out what a session's client asked for, once its event is stored. Each command may be carried out again."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from datetime import datetime

from perdure.api.doors.uamp.beginning import begin, refused_response
from perdure.api.doors.uamp.calls import Calls
from perdure.api.doors.uamp.paying import Paying
from perdure.api.doors.uamp.replay import replayed
from perdure.api.doors.uamp.services import Services
from perdure.errors import PerdureError, ServerError, UserError, WaitAnswered, WaitStale
from perdure.protocols.uamp_events.commands import (
    AnswerCall,
    CancelResponse,
    CloseSession,
    Command,
    EndVoice,
    Ignored,
    InviteVoice,
    MarkRead,
    QueryCapabilities,
    RefreshTokens,
    ShowTyping,
    StartResponse,
    SubmitPayment,
)
from perdure.protocols.uamp_events.connection import Connection
from perdure.protocols.uamp_events.conversation import read_json
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.server_events import ResponseError, WireError
from perdure.protocols.uamp_events.surrounding_events import RateLimit as RateLimitEvent
from perdure.protocols.uamp_events.surrounding_events import ServerEvent
from perdure.store.uamp.held import held_session
from perdure.store.uamp.responses import end_response, find_response
from perdure.store.uamp.rows import ResponseRow, UampSessionRow
from perdure.testing.crash import crash_point
from perdure.upp.json_value import JSONObject

logger = logging.getLogger(__name__)

_CANCEL_S = 5.0
"""How long a session's end waits for the ends of its responses."""


class Carrying:
    """What one session's client has asked for."""

    def __init__(self, services: Services, connection: Connection, row: UampSessionRow) -> None:
        """Carry out commands of a session that a connection holds."""
        self._services = services
        self._connection = connection
        self._row = row
        self._sessions = services.sessions(row.tenant)
        self._chats = services.backend.chats(row.tenant)

    async def carry_out(self, command: Command) -> list[ServerEvent]:
        """Carry out a command; returns what the client is answered.

        Raises:
            ServerError: a server is away. What was asked for is stored where it must not be lost.
        """
        match command:
            case StartResponse():
                return await self._start(command)
            case CancelResponse():
                return await self._cancel(command.response_id)
            case AnswerCall():
                return await self._answer(command)
            case CloseSession():
                return await self._close(command)
            case SubmitPayment():
                return await self._paying().submit(command, by=self._row.principal)
            case RefreshTokens():
                return await self._refresh(command)
            case _:
                return await self._around(command)

    async def _around(self, command: Command) -> list[ServerEvent]:
        match command:
            case QueryCapabilities():
                return await self._told_capabilities()
            case ShowTyping():
                await self._chats.typing(self._row, is_typing=command.is_typing)
            case MarkRead():
                await self._chats.read(self._row, command.message_id)
            case InviteVoice():
                return await self._calls().answer(command)
            case EndVoice():
                await self._calls().end(command.call_id)
            case Ignored():
                logger.info("uamp.event_ignored type=%s %s", command.type, command.reason)
            case _:
                raise AssertionError(f"{type(command).__name__} is carried out by who holds the connection")
        return []

    async def _start(self, command: StartResponse) -> list[ServerEvent]:
        crash_point("uamp.asked")
        limit, is_refused = self._limited(command.response_id)
        if is_refused:
            await end_response(self._services.database, self._row.tenant, command.response_id)
            return limit
        row = await self._response(command.response_id)
        changed = await self._changed_capabilities()
        try:
            await begin(self._services, row)
        except (EventRefused, UserError) as error:
            return [*limit, *changed, await refused_response(self._services, row, error)]
        except ServerError as error:  # it is stored, and begun as soon as the server is there
            logger.warning("uamp.begin_deferred response=%s %s", command.response_id, error)
        return [*limit, *changed]

    def _limited(self, response_id: str) -> tuple[list[ServerEvent], bool]:
        """What a client is told of the limit of its requests, and whether it has no more."""
        rate = self._services.rate
        if rate is None:
            return [], False
        caller = (self._row.tenant, self._row.principal)
        wait = rate.take(caller)
        left, full_in = rate.left(caller)
        reset_at = int(time.time()) + math.ceil(full_in)
        head = self._connection.head(self._row.id)
        told: list[ServerEvent] = [RateLimitEvent(**head, limit=rate.burst, remaining=left, reset_at=reset_at)]
        if not wait:
            return told, False
        error = WireError(
            code=Code.RATE_LIMIT_EXCEEDED,
            message=f"too many responses were asked for; try again in {wait} s",
            details={"retry_after": wait},
        )
        return [*told, ResponseError(**self._connection.head(self._row.id), response_id=response_id, error=error)], True

    async def _cancel(self, response_id: str) -> list[ServerEvent]:
        row = await self._response(response_id)
        if row.run is None:  # whoever begins it may be about to
            await begin(self._services, row)
            row = await self._response(response_id)
        assert row.run is not None
        await self._sessions.cancel(row.session, run=row.run, wait_s=_CANCEL_S)
        return []

    async def _close(self, command: CloseSession) -> list[ServerEvent]:
        cancels = [self._cancel(response) for response in command.responses]
        for failed in await asyncio.gather(*cancels, return_exceptions=True):
            if isinstance(failed, PerdureError):
                logger.warning("uamp.cancel_failed session=%s %s", self._row.id, failed)
            elif isinstance(failed, BaseException):
                raise failed
        await self._chats.end(self._row.id, command.reason or "user_left")
        return []

    async def _answer(self, command: AnswerCall) -> list[ServerEvent]:
        row = await self._response(command.response_id)
        flow = await replayed(self._services, self._row, row)
        wait = flow.open_calls.get(command.call_id)
        if wait is None:  # its result came another way
            return []
        answer: JSONObject = {"result": read_json(command.result), "isError": command.is_error}
        try:
            await self._sessions.answer(wait, answer, by=self._row.principal)
        except (WaitAnswered, WaitStale) as error:
            logger.info("uamp.result_ignored call=%s %s", command.call_id, error)
        except UserError as error:
            self._connection.session(self._row.id).gate.reopen(command.call_id)
            refused = EventRefused(Code.INVALID_EVENT, str(error), event_id=command.event_id, session_id=self._row.id)
            return [self._connection.fault(refused)]
        return []

    async def _refresh(self, command: RefreshTokens) -> list[ServerEvent]:
        expires: datetime | None = None
        if command.token is not None:
            try:
                caller = await self._services.caller_of(command.token, None)
                if (caller.tenant, caller.name) != (self._row.tenant, self._row.principal):
                    raise EventRefused(
                        Code.UNAUTHORIZED, "the token is somebody else's; open a session of its own with it"
                    )
            except EventRefused as fault:
                fault.session_id, fault.event_id = self._row.id, command.event_id
                return [self._connection.fault(fault)]
            expires = caller.expires_at
        source, replies = await self._paying().preload(command.payment_token)
        async with held_session(self._services.database, self._row.tenant, self._row.id) as held:
            if held is not None and command.token is not None:
                await held.change(token_expires_at=expires)
            if held is not None and source is not None:
                await held.change(payment=source)
        return [*self._connection.updated(command), *replies]

    async def _told_capabilities(self) -> list[ServerEvent]:
        found = await self._services.capabilities(self._row.tenant, self._row.agent)
        return [*self._connection.capabilities(self._row.id, found)]

    async def _changed_capabilities(self) -> list[ServerEvent]:
        """The agent's capabilities, where a deploy has changed them since they were told."""
        found = await self._services.capabilities(self._row.tenant, self._row.agent)
        if found == self._connection.session(self._row.id).server:
            return []
        return [*self._connection.capabilities(self._row.id, found)]

    async def _response(self, response_id: str) -> ResponseRow:
        row = await find_response(self._services.database, self._row.tenant, response_id)
        assert row is not None, "it was stored before it was known here"
        return row

    def _paying(self) -> Paying:
        return Paying(self._services, self._row.tenant, self._row.agent, self._row.id)

    def _calls(self) -> Calls:
        return Calls(self._services, self._connection, self._row)
