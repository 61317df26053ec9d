"""A peer's two-way connection by gRPC: the call Connect. Source: UAMP envelope 1.0, section 7; `protos/uamp.proto`."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from grpclib.server import Stream

from perdure.api.doors.envelope.connection import PeerConnection
from perdure.api.doors.envelope.grpc_wire import checked_delta, checked_envelope, delta_frame, error_of
from perdure.api.doors.envelope.opening import Door
from perdure.api.doors.envelope.signed_answers import SignedAnswers, id_of
from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.protocols.uamp_envelope.grpc.uamp_pb2 import EnvelopeFrame, Frame
from perdure.protocols.uamp_envelope.media_type import ENVELOPE_MEDIA_TYPE
from perdure.runtime.envelopes.callers import PeerCaller
from perdure.runtime.envelopes.desk import Receipt
from perdure.runtime.envelopes.grpc_messages import received
from perdure.runtime.envelopes.receiving import LONG_BYTES
from perdure.upp.json_value import JSONObject

_COME_AGAIN = timedelta(seconds=1)


class GrpcConnection(PeerConnection):
    """A call of Connect: taken envelopes are answered by signed ones, refused ones by an error frame."""

    def __init__(self, door: Door, stream: Stream[Frame, Frame], caller: PeerCaller) -> None:
        """Serve a call whose caller is known."""
        super().__init__(door, caller)
        self._stream = stream
        self._patience = door.backend.patience
        self._leaving = door.backend.leaving
        self._max_bytes = door.parts.rules.max_bytes
        self._answers = SignedAnswers(door.parts, caller)
        self._sending = asyncio.Lock()

    async def serve(self) -> None:
        """Hear and tell until the peer ends its half, or the process ends.

        Raises:
            UAMPError: what the call ends with: the peer is not who it says, a frame was too large, or the process ends.
        """
        hearing = asyncio.create_task(self._hear(), name="hear a peer")
        ending = asyncio.create_task(self._leaving.wait(), name="wait for the process's end")
        self.begin()
        try:
            await asyncio.wait([hearing, ending, self.failure], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (hearing, ending):
                task.cancel()
            await asyncio.gather(hearing, ending, return_exceptions=True)
            await self.close()
        if self._leaving.is_set():
            raise leaving()
        for ended in (hearing, self.failure):
            if ended.done() and not ended.cancelled():
                ended.result()

    async def send_delta(self, delta: Delta) -> None:
        await self._send(delta_frame(delta))

    async def send_receipt(self, received: JSONObject, receipt: Receipt) -> None:
        signed = await self._answers.taken(received, receipt)
        await self._send(Frame(envelope=EnvelopeFrame(json=signed, media_type=ENVELOPE_MEDIA_TYPE)))

    async def send_refusal(self, received: JSONObject, error: UAMPError) -> None:
        if error.carriage.ws_close is not None:
            raise error
        named = id_of(received)
        about = error if named is None or error.ref is not None else error.about(named)
        await self._send(Frame(error=error_of(about)))

    async def _hear(self) -> None:
        while (frame := await received(self._stream, Frame, self._max_bytes)) is not None:
            try:
                is_long = frame.ByteSize() > LONG_BYTES
                data = await asyncio.to_thread(self._json_of, frame) if is_long else self._json_of(frame)
            except UAMPError as error:
                await self.send_refusal({}, error)
            else:
                await self.hear(data, max_bytes=self._max_bytes)

    def _json_of(self, frame: Frame) -> bytes:
        match frame.WhichOneof("frame"):
            case "envelope":
                return checked_envelope(frame.envelope, self._max_bytes)
            case "delta":
                return checked_delta(frame.delta, self._max_bytes)
            case _:
                raise malformed("a frame that is sent here holds an envelope or a delta")

    async def _send(self, frame: Frame) -> None:
        """Send one frame. A peer that takes nothing for too long is let go of."""
        async with self._sending, asyncio.timeout(self._patience.stalled_s):
            await self._stream.send_message(frame)


def leaving() -> UAMPError:
    """An error to raise: the process ends."""
    return UAMPError(Code.BUSY, "this server ends; come again, and take your streams up", retry_after=_COME_AGAIN)
