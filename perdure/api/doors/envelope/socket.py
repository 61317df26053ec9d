"""Envelopes over WebSocket: binary messages with frames, each of four bytes that tell its length and then JSON.

Each envelope is answered by a signed one: `progress` if it was taken, `error` if not. Source: UAMP envelope 1.0, section 7.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from perdure.api.doors.envelope import errors
from perdure.api.doors.envelope.connection import PeerConnection
from perdure.api.doors.envelope.opening import Door
from perdure.api.doors.envelope.signed_answers import SignedAnswers
from perdure.api.doors.envelope.transport import admitted, door_of
from perdure.api.problems import Refused, fault_of
from perdure.api.socket_ending import Closed, ending_of
from perdure.errors import PerdureError
from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.length_prefix import SUBPROTOCOL, WEBSOCKET_PATH, FrameReader, prefixed
from perdure.runtime.envelopes.callers import PeerCaller
from perdure.runtime.envelopes.desk import Receipt
from perdure.upp.json_value import JSONObject

logger = logging.getLogger(__name__)

_NOT_BINARY = 1003

router = APIRouter(tags=["uamp envelopes"])


@router.websocket(WEBSOCKET_PATH)
async def serve(socket: WebSocket) -> None:
    """Hold a peer's connection; see the module."""
    try:
        caller = await admitted(socket)
    except UAMPError as error:
        await socket.send_denial_response(errors.refusal(error))
        return
    except (Refused, PerdureError) as error:
        await socket.send_denial_response(errors.error(fault_of(error)))
        return
    await socket.accept(SUBPROTOCOL if SUBPROTOCOL in socket.scope["subprotocols"] else None)
    await SocketConnection(door_of(socket), socket, caller).serve()


class SocketConnection(PeerConnection):
    """A peer's connection by WebSocket."""

    def __init__(self, door: Door, socket: WebSocket, caller: PeerCaller) -> None:
        """Serve a socket that was accepted."""
        super().__init__(door, caller)
        self._socket = socket
        self._backend = door.backend
        self._max_bytes = door.parts.rules.max_bytes
        self._answers = SignedAnswers(door.parts, caller)
        self._sending = asyncio.Lock()

    async def serve(self) -> None:
        """Hear and tell until the peer leaves, or must."""
        hearing = asyncio.create_task(self._hear(), name="hear a peer")
        leaving = asyncio.create_task(self._backend.leaving.wait(), name="wait for the process's end")
        self.begin()
        try:
            await asyncio.wait([hearing, leaving, self.failure], return_when=asyncio.FIRST_COMPLETED)
        finally:
            code, reason = ending_of("uamp_envelope", hearing, self.failure, is_leaving=leaving.done())
            for task in (hearing, leaving):
                task.cancel()
            await asyncio.gather(hearing, leaving, return_exceptions=True)
            await self.close()
            await self._close_socket(code, reason)

    async def send_delta(self, delta: Delta) -> None:
        await self._send(delta.to_bytes())

    async def send_receipt(self, received: JSONObject, receipt: Receipt) -> None:
        await self._send(await self._answers.taken(received, receipt))

    async def send_refusal(self, received: JSONObject, error: UAMPError) -> None:
        await self._send(await self._answers.refused(received, error))
        if error.carriage.ws_close is not None:
            raise Closed(error.carriage.ws_close, error.message)

    async def _hear(self) -> None:
        reader = FrameReader(self._max_bytes)
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data: bytes | None = message.get("bytes")
            if data is None:
                raise Closed(_NOT_BINARY, "frames come in binary messages")
            try:
                frames = reader.feed(data)
            except UAMPError as error:
                await self.send_refusal({}, error)
                raise
            for frame in frames:
                await self.hear(frame, max_bytes=self._max_bytes)

    async def _send(self, data: bytes) -> None:
        """Send one frame in a message. A peer that takes nothing for too long is let go of."""
        async with self._sending, asyncio.timeout(self._backend.patience.stalled_s):
            await self._socket.send_bytes(prefixed(data))

    async def _close_socket(self, code: int, reason: str) -> None:
        with contextlib.suppress(TimeoutError, OSError, RuntimeError, WebSocketDisconnect):
            async with asyncio.timeout(self._backend.patience.stalled_s):
                await self._socket.close(code, reason.encode()[:120].decode(errors="ignore"))
