"""A peer's two-way connection, whatever carries it: envelopes and ACKs come in, answers and the deltas of its streams go out.

An envelope that opens a stream has its deltas come on the same connection, from the first. A `progress` delta with an `ack`
is an ACK of such a stream; about another stream of the peer's it has that stream's deltas come here, behind the one that it
names, or all of them if it has no `ack`: so a peer whose connection broke goes on. ACKs are heard at once, whatever else the connection waits for.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from typing import Any

from perdure.api.doors.envelope.opening import Door
from perdure.api.doors.envelope.transport import check_rate
from perdure.errors import PerdureError
from perdure.protocols.uamp_envelope.ack import read_ack_delta
from perdure.protocols.uamp_envelope.delta import Delta, DeltaType, delta_of
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.runtime.envelopes.callers import PeerCaller
from perdure.runtime.envelopes.delta_stream import DeltaStream
from perdure.runtime.envelopes.desk import Receipt
from perdure.runtime.envelopes.faults import uamp_error
from perdure.runtime.envelopes.receiving import LONG_BYTES
from perdure.store.database import is_away
from perdure.upp.json_value import JSONObject

logger = logging.getLogger(__name__)

MOST_STREAMS = 64
"""That one connection is told at once."""

_WAITING_ENVELOPES = 4
"""That are read but not taken yet; while there are more nothing else is read."""

_REMEMBERED = 1024
_COME_AGAIN = timedelta(seconds=2)
_OPENING = [intent.value for intent in Intent if intent.opens]


class PeerConnection(ABC):
    """The connection of one caller. A binding sends what this has to tell, and hands over what it reads."""

    def __init__(self, door: Door, caller: PeerCaller) -> None:
        """Bring a caller's envelopes to the door's desk."""
        self._door = door
        self._desk = door.desk
        self._caller = caller
        self._envelopes = asyncio.Queue[tuple[JSONObject, bytes]](_WAITING_ENVELOPES)
        self._told: set[str] = set()
        self._over: dict[str, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Is set to what the connection cannot go on after."""

    @abstractmethod
    async def send_delta(self, delta: Delta) -> None:
        """Send a delta; returns once the peer's side takes more."""

    @abstractmethod
    async def send_receipt(self, received: JSONObject, receipt: Receipt) -> None:
        """Tell that an envelope was taken."""

    @abstractmethod
    async def send_refusal(self, received: JSONObject, error: UAMPError) -> None:
        """Tell that an envelope or a delta was refused.

        Args:
            received: it, as far as it could be read.
            error: why.

        Raises:
            Exception: the connection ends with this error.
        """

    def begin(self) -> None:
        """Begin to take envelopes."""
        self._spawn(self._take_envelopes())

    async def hear(self, data: bytes, *, max_bytes: int) -> None:
        """Take a frame. Envelopes are handled one after the other, ACKs before this returns.

        Args:
            data: an envelope's JSON or a delta's.
            max_bytes: the greatest one.
        """
        received: JSONObject = {}
        try:
            reading = partial(parse_object, data, max_bytes=max_bytes)
            received = await asyncio.to_thread(reading) if len(data) > LONG_BYTES else reading()
            if "delta_seq" in received:
                await self._hear_delta(delta_of(received))
            elif "intent" in received:
                await self._envelopes.put((received, data))
            else:
                raise malformed("a frame is an envelope, which has an intent, or a delta, which has a delta_seq")
        except Exception as error:  # noqa: BLE001 - what is not the protocol's business is raised again
            await self.send_refusal(received, _told(error))

    async def close(self) -> None:
        """Stop; streams that were told here can be read elsewhere."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _hear_delta(self, delta: Delta) -> None:
        seq = read_ack_delta(delta)
        if seq is None and delta.type is DeltaType.PROGRESS and not delta.payload:
            await self._attach(delta.stream_id, last_seq=None)
        elif seq is None:
            raise malformed(
                'a consumer sends deltas of type progress only, with the payload {"ack": delta_seq}, or {} for all of a stream'
            )
        elif delta.stream_id in self._told or delta.stream_id in self._over:
            await self._desk.acknowledge(delta.stream_id, self._caller, seq)
        else:
            await self._attach(delta.stream_id, last_seq=seq)

    async def _take_envelopes(self) -> None:
        about: JSONObject
        while True:
            about, data = await self._envelopes.get()
            try:
                check_rate(self._door, self._caller)
                if about["intent"] in _OPENING:
                    self._check_room()
                receipt = await self._desk.receive(data, self._caller)
                await self.send_receipt(about, receipt)
                if receipt.stream_id is not None:
                    about = {"stream_id": receipt.stream_id}  # the envelope is taken, whatever becomes of this
                    await self._attach(receipt.stream_id, last_seq=None)
            except Exception as error:  # noqa: BLE001 - likewise
                await self.send_refusal(about, _told(error))

    async def _attach(self, stream_id: str, *, last_seq: int | None) -> None:
        """Have a stream's deltas come here, unless they do."""
        if stream_id in self._told:
            return
        self._check_room()
        self._told.add(stream_id)
        try:
            stream = await self._desk.open_stream(stream_id, self._caller, last_seq=last_seq)
        except BaseException:
            self._told.discard(stream_id)
            raise
        if stream.is_past_end:
            self._ended(stream_id)
        else:
            self._spawn(self._tell(stream_id, stream))

    def _check_room(self) -> None:
        if len(self._told) >= MOST_STREAMS:
            raise UAMPError(
                Code.BUSY,
                f"a connection has {MOST_STREAMS} streams at most; let one of them end first",
                retry_after=_COME_AGAIN,
            )

    async def _tell(self, stream_id: str, stream: DeltaStream) -> None:
        is_over = False
        cut = UAMPError(Code.BUSY, "the stream is told here no longer; an ACK of its last delta has it told again")
        try:
            async with aclosing(stream.frames()) as frames:
                async for delta in frames:
                    if delta is not None:  # the connection itself shows that it lives
                        await self.send_delta(delta)
                        is_over = delta.type.is_terminal
        except PerdureError as error:
            cut = uamp_error(error)
        if is_over:
            self._ended(stream_id)
        else:
            self._told.discard(stream_id)
            await self.send_refusal({"stream_id": stream_id}, cut)

    def _ended(self, stream_id: str) -> None:
        """A late ACK of a stream that is over is no wish to have it told again."""
        self._told.discard(stream_id)
        self._over[stream_id] = None
        if len(self._over) > _REMEMBERED:
            del self._over[next(iter(self._over))]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="serve a peer's connection")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self.failure.done():
            self.failure.set_exception(error)


def _told(error: Exception) -> UAMPError:
    """What a peer is told of an error of ours.

    Raises:
        Exception: the error itself: it ends the connection.
    """
    if isinstance(error, PerdureError):
        return uamp_error(error)
    if is_away(error):
        return UAMPError(Code.BUSY, "the server is busy")
    raise error
