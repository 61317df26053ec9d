"""The service of `protos/uamp.proto`: each call is a way to the desk, as a request over HTTP is.

Source: UAMP envelope 1.0, section 7.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any, cast
from weakref import WeakSet

from fastapi import FastAPI
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.server import Stream

from perdure.api.doors.envelope.caller import peer_by
from perdure.api.doors.envelope.grpc_connection import GrpcConnection, leaving
from perdure.api.doors.envelope.grpc_wire import certificate_of, delta_frame, status_of, transport_of
from perdure.api.doors.envelope.http import until
from perdure.api.doors.envelope.opening import Door
from perdure.api.doors.envelope.transport import check_rate
from perdure.errors import PerdureError
from perdure.protocols.uamp_envelope.envelope import MAX_WINDOW
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.protocols.uamp_envelope.grpc.uamp_grpc import AgentBase
from perdure.protocols.uamp_envelope.grpc.uamp_pb2 import (
    EnvelopeFrame,
    Frame,
    ManifestRequest,
    SendReply,
    SignedManifest,
    StreamRequest,
)
from perdure.protocols.uamp_envelope.identifier import check_stream_id
from perdure.protocols.uamp_envelope.media_type import check_content_type
from perdure.protocols.uamp_envelope.strict_json import MAX_SAFE_INTEGER
from perdure.runtime.envelopes.callers import PeerCaller
from perdure.runtime.envelopes.faults import uamp_error
from perdure.runtime.envelopes.grpc_messages import received
from perdure.store.database import is_away

logger = logging.getLogger(__name__)

_SMALL_BYTES = 4096
_COME_AGAIN = timedelta(seconds=1)


class AgentService(AgentBase):
    """The calls. What they need is in the app's state once it has begun.

    Attributes:
        connections: from which a call has come, open or not.
    """

    def __init__(self, app: FastAPI) -> None:
        """Serve what the lifespan of `app` opens."""
        self.connections: WeakSet[Any] = WeakSet()
        self._calls: set[asyncio.Task[Any]] = set()
        self._app = app

    async def finish(self) -> None:
        """Return once every open call has told how it ends; when the process is to end, all do soon."""
        while self._calls:
            await asyncio.wait(self._calls)

    async def Send(self, stream: Stream[EnvelopeFrame, SendReply]) -> None:  # noqa: N802
        """Take an envelope in."""
        async with self._told(stream):
            door = self._door
            caller = await self._admitted(stream)
            frame = await self._request(stream, EnvelopeFrame, door.parts.rules.max_bytes)
            check_content_type(frame.media_type)
            receipt = await door.desk.receive(frame.json, caller)
            reply = SendReply(
                accepted=True,
                stream_id=receipt.stream_id or "",
                location=receipt.location or "",
                envelope_id=receipt.envelope_id,
            )
            await stream.send_message(reply)

    async def Stream(self, stream: Stream[StreamRequest, Frame]) -> None:  # noqa: N802
        """Send the deltas of a stream; nothing if the caller has all of them."""
        async with self._told(stream):
            door = self._door
            caller = await self._admitted(stream)
            request = await self._request(stream, StreamRequest, _SMALL_BYTES)
            opened = await door.desk.open_stream(
                check_stream_id(request.stream_id), caller, last_seq=_last_seq(request), window=_window(request)
            )
            has_ended = opened.is_past_end
            if not has_ended:
                async with aclosing(opened.frames()) as coming, aclosing(until(door.backend.leaving, coming)) as frames:
                    async for delta in frames:
                        if delta is not None:
                            async with asyncio.timeout(door.backend.patience.stalled_s):
                                await stream.send_message(delta_frame(delta))
                            has_ended = delta.type.is_terminal
            if not has_ended:
                raise leaving()

    async def Connect(self, stream: Stream[Frame, Frame]) -> None:  # noqa: N802
        """Envelopes and ACKs in, receipts and deltas out, until either side ends the call."""
        async with self._told(stream):
            door = self._door
            caller = await self._admitted(stream)
            await stream.send_initial_metadata()
            await GrpcConnection(door, stream, caller).serve()

    async def GetManifest(self, stream: Stream[ManifestRequest, SignedManifest]) -> None:  # noqa: N802
        """The default agent's manifest, which anybody may have."""
        async with self._told(stream):
            await self._request(stream, ManifestRequest, _SMALL_BYTES)
            documents = self._door.identity.documents
            agent = await documents.own.find(documents.own.host_did)
            if agent is None:
                raise UAMPError(Code.BUSY, "there is no agent here yet", retry_after=_COME_AGAIN)
            await stream.send_message(SignedManifest(jws=await documents.manifest(agent)))

    @asynccontextmanager
    async def _told(self, stream: Stream[Any, Any]) -> AsyncGenerator[None]:
        """A call whose errors are told in the protocol's words."""
        self.connections.add(transport_of(stream))
        call = asyncio.current_task()
        if call is not None:
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        try:
            if self._door.backend.leaving.is_set():
                raise leaving()
            yield
        except (GRPCError, StreamTerminatedError, TimeoutError):  # grpclib's own; the last is a caller's deadline
            raise
        except PerdureError as error:
            raise status_of(uamp_error(error)) from error
        except Exception as error:
            if is_away(error):
                raise status_of(UAMPError(Code.BUSY, "the server is busy", retry_after=_COME_AGAIN)) from error
            logger.exception("uamp_envelope.grpc_call_failed")
            raise status_of(uamp_error(error)) from error

    async def _request(self, stream: Stream[Any, Any], kind: type[Any], max_bytes: int) -> Any:
        found = await received(stream, kind, max_bytes)
        if found is None:
            raise malformed(f"the call needs a {kind.__name__}")
        return found

    async def _admitted(self, stream: Stream[Any, Any]) -> PeerCaller:
        """Who calls.

        Raises:
            UAMPError: 4.01 it does not show who it is; 4.03 it may not send; 4.29 it sends too much.
        """
        door = self._door
        shown = [] if stream.metadata is None else stream.metadata.getall("authorization", [])
        if len(shown) > 1:
            raise UAMPError(Code.UNAUTHENTICATED, "show one credential; there are several of authorization")
        caller = await peer_by(
            self._app.state.authenticator,
            door.parts.tenant,
            authorization=str(shown[0]) if shown else None,
            certificate=certificate_of(stream),
        )
        check_rate(door, caller)
        return caller

    @property
    def _door(self) -> Door:
        return cast(Door, self._app.state.envelope_door)


def _last_seq(request: StreamRequest) -> int | None:
    if not request.HasField("last_delta_seq"):
        return None
    if request.last_delta_seq > MAX_SAFE_INTEGER:
        raise malformed("last_delta_seq is too great")
    return request.last_delta_seq


def _window(request: StreamRequest) -> int | None:
    if not request.HasField("delta_window"):
        return None
    if request.delta_window < 1:
        raise malformed("delta_window must be at least 1")
    return min(request.delta_window, MAX_WINDOW)
