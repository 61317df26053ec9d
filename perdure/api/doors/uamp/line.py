"""One client's WebSocket: what it sends is heard, and its sessions' events are told, until either side leaves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any, cast

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect

from perdure.api.answers import Answer
from perdure.api.doors.uamp.desk import Desk
from perdure.api.doors.uamp.flood import MOST_AT_ONCE, Flood
from perdure.api.doors.uamp.member import Member
from perdure.api.doors.uamp.opening import Opening
from perdure.api.principal import Principal
from perdure.api.socket_ending import Closed, ending_of
from perdure.errors import PerdureError
from perdure.protocols.uamp_events.commands import ApplyEvent, Command, Ignored, OpenSession, Reaction, RefreshTokens
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.server_events import SessionCreated
from perdure.protocols.uamp_events.surrounding_events import ServerEvent

logger = logging.getLogger(__name__)

LARGEST_FRAME = 8 * 1024 * 1024
"""Bytes; larger media goes through /api/content."""

_ABUSE, _TOO_BIG = 1008, 1009
_MOST_WAITING_BYTES = 2 * LARGEST_FRAME
_TOLD_EACH_S = 1.0


class Line:
    """A client's connection."""

    def __init__(self, desk: Desk, socket: WebSocket, principal: Principal | None) -> None:
        """Serve a socket that was accepted; `principal` is who opened it, if that is known."""
        self._desk = desk
        self._socket = socket
        self._principal = principal
        self._backend = desk.services.backend
        self._connection = desk.services.connection()
        self._opened: dict[str, Opening] = {}
        self._members: dict[str, Member] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending = asyncio.Lock()
        self._waiting = 0
        self._waiting_bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    async def serve(self) -> None:
        """Hear and tell until the client leaves, or must."""
        hearing = asyncio.create_task(self._hear(), name="hear a UAMP client")
        leaving = asyncio.create_task(self._backend.leaving.wait(), name="wait for the process's end")
        noting = asyncio.create_task(self._note_told(), name="note what a UAMP client was told")
        try:
            await asyncio.wait([hearing, leaving, self._failure], return_when=asyncio.FIRST_COMPLETED)
        finally:
            code, reason = ending_of("uamp", hearing, self._failure, is_leaving=leaving.done())
            for task in (hearing, leaving, noting, *self._tasks):
                task.cancel()
            await asyncio.gather(hearing, leaving, noting, *self._tasks, return_exceptions=True)
            await self._close(code, reason)
            await asyncio.gather(*(member.leave() for member in self._members.values()))

    async def send(self, events: list[ServerEvent]) -> None:
        """Send events, one in a frame; a client that takes nothing for too long is let go of."""
        async with self._sending:
            for event in events:
                async with asyncio.timeout(self._backend.patience.stalled_s):
                    await self._socket.send_text(bytes(Answer(event.to_json()).body).decode())

    async def _hear(self) -> None:
        flood = Flood()
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            frame = cast("str | bytes", message.get("text") or message.get("bytes") or "")
            if len(frame) > LARGEST_FRAME:
                raise Closed(_TOO_BIG, f"a frame may have {LARGEST_FRAME} bytes; send larger media to /api/content")
            if flood.is_too_much() or self._waiting > MOST_AT_ONCE:
                raise Closed(_ABUSE, "too many events; wait for answers")
            await self._react(self._connection.receive(frame), len(frame))
            await self._room.wait()

    async def _react(self, reaction: Reaction, size: int = 0) -> None:
        if reaction.events:
            await self.send(reaction.events)
            for event in reaction.events:
                if isinstance(event, SessionCreated):
                    await self._begin(event.session.id)
        for command in reaction.commands:
            self._take(command, size)

    def _take(self, command: Command, size: int) -> None:
        match command:
            case OpenSession():
                self.spawn(self._open(command))
            case ApplyEvent() if command.session_id in self._members:
                self._wait_for(1, size)
                self._members[command.session_id].take(command.event, size)
            case RefreshTokens():
                self.spawn(self._refresh(command))
            case Ignored():
                logger.info("uamp.event_ignored type=%s %s", command.type, command.reason)
            case _:
                pass  # of a session that has just ended

    def applied(self, size: int) -> None:
        """An event that waited is applied."""
        self._wait_for(-1, -size)

    def _wait_for(self, count: int, size: int) -> None:
        self._waiting += count
        self._waiting_bytes += size
        if self._waiting_bytes > _MOST_WAITING_BYTES:
            self._room.clear()
        else:
            self._room.set()

    async def _open(self, asked: OpenSession) -> None:
        ident = asked.session_id
        try:
            opened = await self._desk.open(self._principal, ident, asked.event)
        except EventRefused as fault:
            await self._react(self._connection.refused(ident, fault.code, str(fault), fault.details))
        except PerdureError as error:
            await self._react(self._connection.refused(ident, Code.INTERNAL_ERROR, str(error)))
        else:
            self._opened[ident] = opened
            self._connection.adopt(opened.live)
            for response in opened.responses:
                self._connection.session(ident).gate.reserve(response)
            await self._react(
                self._connection.opened(
                    ident,
                    opened.capabilities,
                    created_at=int(opened.row.created_at.timestamp()),
                    agent=opened.row.agent,
                )
            )

    async def _begin(self, ident: str) -> None:
        """A session's opening is told: from now on it is told what comes."""
        opened = self._opened.pop(ident)
        member = self._members[ident] = Member(self, self._desk, self._connection, opened)
        if opened.replies:
            await self.send(opened.replies)
        self.spawn(member.sit())
        self.spawn(member.tell())
        self.spawn(member.work())

    async def _refresh(self, command: RefreshTokens) -> None:
        rows = [self._members[ident].row for ident in command.session_ids if ident in self._members]
        await self.send(await self._desk.refresh(self._connection, rows, command))

    async def _note_told(self) -> None:
        while True:
            await asyncio.sleep(_TOLD_EACH_S)
            for member in list(self._members.values()):
                await member.note_told()

    def ended(self, member: Member) -> None:
        """A session's end is told."""
        self._members.pop(member.row.id, None)
        self.spawn(member.leave())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside hearing; if it fails, the socket is closed."""
        task = asyncio.create_task(work, name="serve a UAMP session")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _close(self, code: int, reason: str) -> None:
        with contextlib.suppress(TimeoutError, OSError, RuntimeError, WebSocketDisconnect):
            async with asyncio.timeout(self._backend.patience.stalled_s):
                await self._socket.close(code, reason[:120])
