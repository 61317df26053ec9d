"""What comes on a WebSocket, sorted: what is said of envelopes by the envelope, deltas by their stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from uuid import UUID

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from perdure.errors import ServerUnavailable
from perdure.protocols.uamp_envelope.ack import ack_payload
from perdure.protocols.uamp_envelope.body import decode_body
from perdure.protocols.uamp_envelope.delta import Delta, DeltaType, delta_error, delta_of
from perdure.protocols.uamp_envelope.envelope import Envelope, envelope_of
from perdure.protocols.uamp_envelope.error import CARRIAGE, Code, UAMPError, malformed, read_error
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.length_prefix import FrameReader, prefixed
from perdure.protocols.uamp_envelope.signature import envelope_bytes
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.runtime.envelopes.client.connection import MAX_WAITING_BYTES, Delivered
from perdure.runtime.envelopes.client.errors import ConnectionBroken, UnsignedError
from perdure.upp.json_value import JSONObject
from perdure.upp.timestamp import now

Failure = ServerUnavailable | UAMPError


class SocketFrames:
    """A WebSocket that stands, and who waits for what on it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._failure: Failure | None = None
        self._receipts: dict[UUID, asyncio.Future[Delivered]] = {}
        self._streams: dict[str, asyncio.Queue[tuple[Delta | Failure, int]]] = {}
        self._waiting_bytes = 0
        self._next_seq: dict[str, int] = {}
        self._over: set[str] = set()
        self._reader = asyncio.create_task(self._read(), name="uamp-socket-reader")

    @property
    def is_broken(self) -> bool:
        """Whether nothing more comes."""
        return self._failure is not None

    def is_coming(self, stream_id: str) -> bool:
        """Whether the server sends the frames of a stream here."""
        return stream_id in self._streams

    def is_over(self, stream_id: str) -> bool:
        """Whether a stream has ended here, so that the server does not send it here again."""
        return stream_id in self._over

    async def deliver(self, envelope: Envelope) -> Delivered:
        """Send an envelope and wait for what the server says of it."""
        if self._failure is not None:
            raise self._failure
        receipt: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        self._receipts[envelope.id] = receipt
        try:
            await self._send(envelope_bytes(envelope))
            return await receipt
        finally:
            self._receipts.pop(envelope.id, None)

    async def attach(self, stream_id: str, after: int | None) -> None:
        """Have a stream come from after a frame; from its beginning if that is None."""
        self._streams[stream_id] = asyncio.Queue()
        await self._progress(stream_id, {} if after is None else ack_payload(after))

    async def incoming(self, stream_id: str) -> AsyncGenerator[Delta, None]:
        """The frames of a stream as they come, until the connection breaks."""
        queue = self._streams.setdefault(stream_id, asyncio.Queue())
        try:
            while True:
                item, size = await queue.get()
                self._waiting_bytes -= size
                if not isinstance(item, Delta):
                    raise item
                yield item
        finally:
            while not queue.empty():
                self._waiting_bytes -= queue.get_nowait()[1]
            self._streams.pop(stream_id, None)
            self._over.add(stream_id)

    async def acknowledge(self, stream_id: str, seq: int) -> None:
        """Send an ACK."""
        await self._progress(stream_id, ack_payload(seq))

    async def close(self) -> None:
        """Close the connection."""
        self._fail(ConnectionBroken("the WebSocket was closed here"))
        await self._socket.close()
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader

    async def _progress(self, stream_id: str, payload: JSONObject) -> None:
        """Send a delta; those of a consumer have numbers of their own."""
        number = self._next_seq.get(stream_id, 0)
        self._next_seq[stream_id] = number + 1
        await self._send(Delta(number, stream_id, now(), DeltaType.PROGRESS, payload).to_bytes())

    async def _send(self, data: bytes) -> None:
        try:
            await self._socket.send(prefixed(data))
        except ConnectionClosed as error:
            raise _closed(error) from error

    async def _read(self) -> None:
        reader = FrameReader()
        try:
            async for message in self._socket:
                if isinstance(message, str):
                    raise malformed("a text message came on a WebSocket of UAMP")
                for frame in reader.feed(message):
                    self._sort(frame)
            self._fail(ConnectionBroken("the WebSocket was closed"))
        except ConnectionClosed as error:
            self._fail(_closed(error))
        except UAMPError as error:
            self._fail(error)
            await self._socket.close()

    def _sort(self, frame: bytes) -> None:
        value = parse_object(frame)
        if "intent" in value:
            self._note(envelope_of(value))
            return
        delta = delta_of(value)
        if (queue := self._streams.get(delta.stream_id)) is not None:
            self._waiting_bytes += len(frame)
            if self._waiting_bytes > MAX_WAITING_BYTES:
                raise UAMPError(Code.TOO_LARGE, "more frames have come than any window of ours lets out")
            queue.put_nowait((delta, len(frame)))
        elif delta.type is DeltaType.ERROR:  # of no stream: the server speaks of the connection, and closes it next
            self._fail(UnsignedError.of(delta_error(delta)))

    def _note(self, envelope: Envelope) -> None:
        """Take what the server says of an envelope of ours, or of a stream."""
        receipt = self._receipts.get(envelope.reply_to) if envelope.reply_to is not None else None
        is_waited_for = receipt is not None and not receipt.done()
        if envelope.intent is Intent.ERROR:
            error = UnsignedError.of(read_error(parse_object(decode_body(envelope.body).data)))
            if receipt is not None and is_waited_for:
                receipt.set_exception(error)
            elif envelope.stream_id in self._streams:
                self._streams[envelope.stream_id].put_nowait((error, 0))
            if error.carriage.ws_close is not None:
                self._fail(ConnectionBroken(f"the server closes the WebSocket after {error.code}"))
        elif envelope.intent is Intent.PROGRESS and receipt is not None and is_waited_for:
            if envelope.stream_id is not None:
                self._streams.setdefault(envelope.stream_id, asyncio.Queue())
            receipt.set_result(Delivered(envelope.stream_id))

    def _fail(self, failure: Failure) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        for receipt in self._receipts.values():
            if not receipt.done():
                receipt.set_exception(failure)
        for queue in self._streams.values():
            queue.put_nowait((failure, 0))


def _closed(error: ConnectionClosed) -> Failure:
    """What a closed connection means; a few close codes are errors of UAMP."""
    received = error.rcvd
    code = next((code for code, carried in CARRIAGE.items() if received and carried.ws_close == received.code), None)
    if code is None or received is None:
        return ConnectionBroken(f"the WebSocket broke: {error}")
    return UnsignedError(code, received.reason or f"the WebSocket was closed with {received.code}")
