"""The binding to gRPC: envelopes by Send, streams by Stream; the exact JSON bytes travel in both.

Source: UAMP envelope 1.0, section 7, and `protos/uamp.proto`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import httpx
from grpclib.client import Channel, Stream
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from perdure.protocols.uamp_envelope.delta import Delta, read_delta
from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed, read_error
from perdure.protocols.uamp_envelope.grpc.uamp_grpc import AgentStub
from perdure.protocols.uamp_envelope.grpc.uamp_pb2 import EnvelopeFrame, Error, Frame, SendReply, StreamRequest
from perdure.protocols.uamp_envelope.media_type import ENVELOPE_MEDIA_TYPE
from perdure.protocols.uamp_envelope.signature import envelope_bytes
from perdure.protocols.uamp_envelope.strict_json import MAX_ENVELOPE_BYTES
from perdure.runtime.envelopes.client.connection import Delivered, Sent
from perdure.runtime.envelopes.client.errors import ConnectionBroken, UnsignedError, connection_error
from perdure.runtime.envelopes.client.patience import Patience
from perdure.runtime.envelopes.client.tls import Trust
from perdure.runtime.envelopes.grpc_messages import Readable, received
from perdure.upp.json_value import JSONObject

_HTTPS_PORT = 443

M = TypeVar("M", bound=Readable)

_CODES = {
    Status.INVALID_ARGUMENT: Code.MALFORMED,
    Status.UNAUTHENTICATED: Code.UNAUTHENTICATED,
    Status.PERMISSION_DENIED: Code.UNAUTHORIZED,
    Status.NOT_FOUND: Code.UNKNOWN_STREAM,
    Status.ABORTED: Code.SEQUENCE_GAP,
    Status.FAILED_PRECONDITION: Code.EXPIRED,
    Status.RESOURCE_EXHAUSTED: Code.TOO_LARGE,
    Status.UNIMPLEMENTED: Code.UNSUPPORTED,
    Status.ALREADY_EXISTS: Code.CONFLICT,
    Status.INTERNAL: Code.INTERNAL,
}
"""What a status means where no error object came with it; all others mean that the call was cut off."""


@dataclass(slots=True, eq=False)
class _Line:
    """A channel, and the calls that are on it.

    Attributes:
        is_retired: no more calls are made on it; it is closed after the last.
    """

    channel: Channel
    calls: int = 0
    is_retired: bool = False


class GrpcConnection:
    """Calls to one server, all on one channel unless that has been silent.

    Attributes:
        carries_acks: no: ACKs go by Send as envelopes do, because Stream goes one way.
    """

    carries_acks = False

    def __init__(self, url: httpx.URL, *, trust: Trust, bearer: str | None, patience: Patience) -> None:
        self._url = url
        self._context = trust.context(["h2"])
        self._metadata = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
        self._answer_seconds = patience.answer.total_seconds()
        self._silence_seconds = patience.silence.total_seconds()
        self._lines: list[_Line] = []

    async def deliver(self, envelope: Envelope) -> Delivered:
        """Call Send; see `EnvelopeConnection`."""
        frame = EnvelopeFrame(json=envelope_bytes(envelope), media_type=ENVELOPE_MEDIA_TYPE)
        with self._line() as line, self._told():
            stub = AgentStub(line.channel)
            async with stub.Send.open(timeout=self._answer_seconds, metadata=self._metadata) as call:
                await call.send_message(frame, end=True)
                reply = await _received(call, SendReply)
        if reply is None or not reply.accepted:
            raise malformed("the other side neither accepted nor refused the envelope")
        if not envelope.intent.opens:
            return Delivered()
        return Delivered(reply.stream_id or envelope.stream_id, reply.location or None)

    async def stream(self, sent: Sent, *, after: int | None) -> AsyncGenerator[Delta, None]:
        """Call Stream; see `EnvelopeConnection`. It has no heartbeats: after a long silence it is called anew."""
        while True:
            request = StreamRequest(stream_id=sent.stream_id, delta_window=sent.envelope.window)
            if after is not None:
                request.last_delta_seq = after
            with self._line() as line:
                try:
                    with self._told():
                        async with AgentStub(line.channel).Stream.open(metadata=self._metadata) as call:
                            await call.send_message(request, end=True)
                            while (frame := await self._next(call)) is not None:
                                delta = _delta(frame)
                                after = delta.seq
                                yield delta
                    return
                except _Silence:
                    line.is_retired = True  # it may be dead: the other calls on it see for themselves

    async def acknowledge(self, stream_id: str, seq: int) -> None:
        """Not on a channel of its own."""
        raise NotImplementedError("an ACK by gRPC is an envelope here")

    async def close(self) -> None:
        """Close the channels."""
        for line in self._lines:
            line.channel.close()
        self._lines.clear()

    @contextmanager
    def _line(self) -> Generator[_Line]:
        """A channel for one call."""
        line = next((line for line in self._lines if not line.is_retired), None)
        if line is None:
            line = _Line(Channel(self._url.host, self._url.port or _HTTPS_PORT, ssl=self._context))
            self._lines.append(line)
        line.calls += 1
        try:
            yield line
        finally:
            line.calls -= 1
            if line.is_retired and not line.calls and line in self._lines:
                self._lines.remove(line)
                line.channel.close()

    async def _next(self, call: Stream[StreamRequest, Frame]) -> Frame | None:
        try:
            async with asyncio.timeout(self._silence_seconds):
                return await _received(call, Frame)
        except TimeoutError as error:
            raise _Silence from error

    @contextmanager
    def _told(self) -> Generator[None]:
        """Tell what a call fails with in the client's words."""
        try:
            yield
        except GRPCError as error:
            raise _refusal(error) from error
        except StreamTerminatedError as error:
            raise ConnectionBroken(f"the call to {self._url} was cut off: {error}") from error
        except (OSError, TimeoutError) as error:
            raise connection_error(error, str(self._url)) from error


class _Silence(Exception):
    """Nothing came for longer than a stream may be silent."""


async def _received(call: Any, kind: type[M]) -> M | None:
    """The next message of a call; its end as the library tells it."""
    if call.initial_metadata is None:
        await call.recv_initial_metadata()
    with call._wrapper:
        return await received(call, kind, MAX_ENVELOPE_BYTES)


def _refusal(error: GRPCError) -> UnsignedError | ConnectionBroken:
    details = cast("list[object]", error.details or [])
    with suppress(UAMPError):
        for detail in details:
            if isinstance(detail, Error):
                return _error(detail)
    code = _CODES.get(error.status)
    if code is None:
        return ConnectionBroken(f"the call ended with {error.status.name}: {error.message or 'no reason was given'}")
    return UnsignedError(code, error.message or error.status.name)


def _delta(frame: Frame) -> Delta:
    """The delta of a frame.

    Raises:
        UAMPError: 4.00 if it is none, or its hints are not what its JSON says; an `UnsignedError` if it is an error.
    """
    if frame.HasField("error"):
        raise _error(frame.error)
    if not frame.HasField("delta"):
        raise malformed("a frame of a stream must be a delta")
    delta = read_delta(frame.delta.json)
    if (frame.delta.delta_seq, frame.delta.stream_id) != (delta.seq, delta.stream_id):
        raise malformed(f"the hints of delta {delta.seq} are not what its JSON says")
    return delta


def _error(told: Error) -> UnsignedError:
    value: JSONObject = {"code": told.code, "message": told.message, "retryable": told.retryable}
    if told.retry_after_ms:
        value["retry_after"] = told.retry_after_ms / 1000
    if told.ref:
        value["ref"] = told.ref
    return UnsignedError.of(read_error(value))
