"""Applying an event of a client's to its session, while the session's row is locked and nobody else can.

A connection keeps what it has read of its sessions, and reads a session again once another process has changed it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from perdure.api.doors.uamp.beginning import PAYMENT
from perdure.api.doors.uamp.replay import IS_PAID, SHOWS_THINKING, replayed
from perdure.api.doors.uamp.services import Services
from perdure.protocols.uamp_events.capabilities import shows_thinking
from perdure.protocols.uamp_events.client_events import (
    ClientCapabilities,
    ClientEvent,
    InputAudio,
    InputFile,
    InputImage,
    InputText,
    InputVideo,
    SessionEnd,
    SessionUpdate,
    ToolResult,
)
from perdure.protocols.uamp_events.commands import (
    AnswerCall,
    CancelResponse,
    CloseSession,
    Command,
    EndVoice,
    Ignored,
    Reaction,
    StartResponse,
    SubmitPayment,
)
from perdure.protocols.uamp_events.connection import Connection
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.live_session import LiveSession
from perdure.protocols.uamp_events.signature_claims import request_hash
from perdure.protocols.uamp_events.stored_session import session_of, state_of
from perdure.store.uamp.client_calls import was_asked_for
from perdure.store.uamp.held import HeldSession, held_session
from perdure.store.uamp.responses import open_responses
from perdure.store.uamp.rows import UampSessionRow
from perdure.upp.json_value import JSONObject

_AT_ONCE = 8
"""Sessions that one process has locked at a time: each has a connection to the database as long."""

_REPEATABLE = (AnswerCall, CancelResponse, CloseSession, SubmitPayment)
"""What may be carried out again, and is if its event comes again: the process that was to do it may have died."""

_INPUTS = (InputText, InputAudio, InputImage, InputVideo, InputFile)


@dataclass(frozen=True, slots=True)
class Given:
    """An event as it may be kept.

    Attributes:
        payment: what stands for the payment token that came with it.
        is_paid: it asks for a response that is paid for.
    """

    event: ClientEvent
    payment: JSONObject | None
    is_paid: bool


class Holding:
    """Applies events, a few sessions' at a time."""

    def __init__(self, services: Services) -> None:
        """Use the process's servers."""
        self._services = services
        self._holds = asyncio.Semaphore(_AT_ONCE)

    async def apply(self, connection: Connection, row: UampSessionRow, given: Given) -> tuple[Reaction, UampSessionRow]:
        """Apply an event under the session's lock, as soon as what is known of the session is what is stored."""
        event = given.event
        if isinstance(event, ToolResult) and not connection.session(row.id).gate.knows(event.call_id):
            await self._read_gate(connection.session(row.id), row, event)  # its call may not have been told here yet
        while True:
            async with self._holds, held_session(self._services.database, row.tenant, row.id) as held:
                if held is None:
                    gone = EventRefused(Code.SESSION_NOT_FOUND, f"session {row.id} is gone", session_id=row.id)
                    gone.event_id = event.event_id
                    return Reaction([connection.fault(gone)]), row
                live = connection.session(row.id)
                if live.version == held.row.version:
                    try:
                        return await self._apply_held(connection, held, live, given), held.row
                    except BaseException:
                        live.version = -1  # memory may be ahead of what is stored
                        raise
                stored = session_of(row.id, held.row.state, await held.inputs(), version=held.row.version)
                if held.row.ended_at is None and isinstance(event, SessionEnd):
                    stored.is_ending = False  # whoever was to end it may have died
                connection.adopt(stored)
                row = held.row
            await self._read_gate(connection.session(row.id), row, event)

    async def note(self, row: UampSessionRow, event: ClientEvent) -> None:
        """What an event asked for is done: it is not done again."""
        async with self._holds, held_session(self._services.database, row.tenant, row.id) as held:
            if held is not None and not await held.saw(event.event_id):
                await held.note(event.event_id)

    async def _apply_held(
        self,
        connection: Connection,
        held: HeldSession,
        live: LiveSession,
        given: Given,
    ) -> Reaction:
        event = given.event
        if await held.saw(event.event_id):
            return Reaction(commands=[Ignored(event.type, "an event of this id was applied before")])
        expires = held.row.token_expires_at
        if expires is not None and expires <= datetime.now(UTC) and not isinstance(event, SessionUpdate | SessionEnd):
            late = EventRefused(
                Code.UNAUTHORIZED, "the session's token has expired; send a new one with session.update"
            )
            late.session_id, late.event_id = live.id, event.event_id
            return Reaction([connection.fault(late)])
        reaction = connection.apply(live.id, event)
        if reaction.commands or not reaction.events:
            await _keep(held, live, given, reaction.commands)
        live.version = held.row.version
        return reaction

    async def _read_gate(self, live: LiveSession, row: UampSessionRow, event: object) -> None:
        """Know the responses that are open, and of a result the calls that they have asked for."""
        own = [item for item in await open_responses(self._services.database, row.key) if item.uamp_session == row.id]
        for item in own:
            live.gate.reserve(item.id)
        if isinstance(event, ToolResult):
            for item in own:
                if item.run is not None:
                    flow = await replayed(self._services, row, item)
                    for call, is_answered in flow.asked_calls.items():
                        live.gate.recall(call, item.id, is_answered=is_answered)
            if not live.gate.knows(event.call_id) and await was_asked_for(
                self._services.database, row.key, event.call_id
            ):
                live.gate.recall(event.call_id, "", is_answered=True)


async def _keep(held: HeldSession, live: LiveSession, given: Given, commands: list[Command]) -> None:
    """Store what an event has changed."""
    event = given.event
    start = next((command for command in commands if isinstance(command, StartResponse)), None)
    if isinstance(event, _INPUTS):
        body = event.to_json()
        await held.add_input(event.event_id, body if given.payment is None else {**body, PAYMENT: given.payment})
    elif start is not None:
        asked: JSONObject = {
            "options": start.options.to_json(),
            PAYMENT: held.row.payment,
            IS_PAID: given.is_paid,
            SHOWS_THINKING: shows_thinking(live.client),
        }
        hashed = request_hash([*(start.given.history or ()), *start.given.messages])
        await held.ask_response(start.response_id, event.event_id, asked, hashed)
        await held.change(state=state_of(live))
    elif any(isinstance(command, _REPEATABLE) for command in commands):
        await held.change(state=state_of(live))
    else:
        await held.note(event.event_id)
        changes = isinstance(event, SessionUpdate | ClientCapabilities) or any(
            isinstance(command, EndVoice) for command in commands
        )
        if changes:
            await held.change(state=state_of(live))
