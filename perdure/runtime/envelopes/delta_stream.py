"""A stream of deltas to one consumer: frames are given out while the window lets, again from any frame on, and end once.

Any number of consumers may read one exchange, from any process; all are given the same frames. What is told waits for the
slowest only in that it is not numbered before there is room: the run goes on, and nothing of it is held in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from typing import Any

from perdure.errors import ServerError
from perdure.protocols.uamp_envelope.delta import Delta, DeltaType
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.protocols.uamp_envelope.lifecycle import Step
from perdure.protocols.uamp_envelope.stall import stall
from perdure.runtime.envelopes.ending import end_stream
from perdure.runtime.envelopes.numbering import Numbering, room_of
from perdure.runtime.envelopes.signals import Watch
from perdure.runtime.envelopes.stream_parts import StreamParts
from perdure.store.envelopes.flow import acknowledge
from perdure.store.envelopes.frames import take_frames
from perdure.store.envelopes.neglected import note_read
from perdure.store.envelopes.rows import ExchangeRow

_AT_ONCE = 16
_LOOK_SECONDS = 5.0
"""After so long a stream looks on its own: news may have been lost."""

_NOTED_EACH = timedelta(minutes=10)
_BLOCKED_SECONDS = 0.25
"""How often the clock is looked at while a window is full."""


class DeltaStream:
    """One consumer's reading of an exchange.

    Attributes:
        exchange: as it was when the stream was opened.
        is_past_end: the consumer has had the terminal frame: nothing comes.
    """

    def __init__(self, parts: StreamParts, exchange: ExchangeRow, *, last_seq: int | None, window: int) -> None:
        """Read behind a frame; `open_delta_stream` checks that it can be.

        Args:
            parts: of the process.
            exchange: what is read.
            last_seq: the last frame that the consumer has; None to begin with the first.
            window: how many frames may be out without an ACK.
        """
        self.exchange = exchange
        self._parts = parts
        self._last = -1 if last_seq is None else last_seq
        self._window = window
        self._numbering = Numbering(parts)
        self._blocked_at: int | None = None
        self._blocked_since: datetime | None = None
        self._noted_at: datetime | None = None
        self.is_past_end = exchange.is_over and self._last >= exchange.next_seq - 1

    async def frames(self) -> AsyncGenerator[Delta | None]:
        """The frames as they come, up to and with the terminal one; None whenever the stream was silent for a while.

        It ends without a terminal frame if the process is leaving, or if the consumer does not ACK what a stream says that
        is over: then it comes back, which is an ACK. To be closed with `contextlib.aclosing`.
        """
        loop = asyncio.get_running_loop()
        quiet_since = loop.time()
        row: ExchangeRow | None = self.exchange
        with self._parts.signals.watch(self.exchange.id) as watch:
            heard = asyncio.create_task(watch.heard(), name="wait for news of an exchange")
            try:
                while not self.is_past_end:
                    await self._note_read()
                    row, frames = await self._next(row)
                    if row is None:
                        yield self._gone()
                        return
                    for frame in frames:
                        self._last = frame.seq
                        yield frame
                        quiet_since = loop.time()
                        self.is_past_end = frame.type.is_terminal
                    if frames:
                        continue
                    if await self._is_stalled(row):
                        if row.is_over:
                            return
                        continue
                    left = self._parts.silence.total_seconds() - (loop.time() - quiet_since)
                    if left <= 0:
                        yield None
                        quiet_since = loop.time()
                        continue
                    heard = await self._wait(row, watch, heard, left)
            except ServerError:
                if not self._parts.stream.is_closed:
                    raise
            finally:
                heard.cancel()
                await asyncio.gather(heard, return_exceptions=True)
                await self._numbering.close()

    async def _note_read(self) -> None:
        """Say now and then that somebody reads."""
        now = self._parts.clock()
        if self._noted_at is None or now - self._noted_at >= _NOTED_EACH:
            self._noted_at = now

            async def note() -> None:
                await note_read(self._parts.database, self._parts.tenant, self.exchange.id, now=now)

            await self._parts.stream.until_there(note)

    async def _next(self, row: ExchangeRow) -> tuple[ExchangeRow | None, list[Delta]]:
        """The next frames that may go out, noted as given out; none if there are none, or the window is full."""

        async def read() -> tuple[ExchangeRow | None, list[Delta]]:
            numbered = await self._numbering.advance(row)
            if numbered is None:
                return None, []
            taken = await take_frames(
                self._parts.database,
                self._parts.tenant,
                row.id,
                after=self._last,
                window=self._window,
                limit=_AT_ONCE,
            )
            return (None, []) if taken is None else taken

        return await self._parts.stream.until_there(read)

    async def _is_stalled(self, row: ExchangeRow) -> bool:
        """Whether the consumer has left the window full for too long; then the stream has its terminal frame."""
        if not self._is_blocked(row):
            self._blocked_since = None
            return False
        now = self._parts.clock()
        if self._blocked_since is None or self._blocked_at != row.acked:
            self._blocked_since, self._blocked_at = now, row.acked
        error = self._stall()
        if error is None:
            return False
        if not row.is_over:
            payload = error.about(row.envelope).to_json()
            await end_stream(self._parts, row.id, DeltaType.ERROR, payload, step=Step.STALL)
        return True

    def _stall(self) -> UAMPError | None:
        """What ends the stream if the window has been full for too long by now."""
        since = self._blocked_since
        return None if since is None else stall(since, self._parts.clock(), self._parts.stall)

    def _is_blocked(self, row: ExchangeRow) -> bool:
        """Whether there is a frame that only the window holds back."""
        return self._last < row.next_seq - 1 or self._numbering.is_blocked(row)

    async def _wait(self, row: ExchangeRow, watch: Watch, heard: asyncio.Task[None], left: float) -> asyncio.Task[None]:
        """Wait until there may be more; returns what waits for news from then on."""
        source = self._numbering.source
        more = None if source is None else source.wants(room_of(row))
        waited: set[asyncio.Task[Any]] = {heard} if more is None else {heard, more}
        loop = asyncio.get_running_loop()
        end = loop.time() + min(left, _LOOK_SECONDS)
        done: set[asyncio.Task[Any]] = set()
        while not done and (rest := end - loop.time()) > 0 and self._stall() is None:
            pause = rest if self._blocked_since is None else min(rest, _BLOCKED_SECONDS)
            done, _ = await asyncio.wait(waited, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        if not heard.done():
            return heard
        return asyncio.create_task(watch.heard(), name="wait for news of an exchange")

    def _gone(self) -> Delta:
        """The end of a stream whose session is deleted; it is kept nowhere."""
        error = UAMPError(Code.EXPIRED, "what this stream tells was deleted", ref=self.exchange.envelope)
        return Delta(self._last + 1, self.exchange.stream_id, self._parts.clock(), DeltaType.ERROR, error.to_json())


async def open_delta_stream(
    parts: StreamParts, exchange: ExchangeRow, *, last_seq: int | None, window: int | None = None
) -> DeltaStream:
    """A consumer's reading of an exchange; whether it may read is known.

    Args:
        parts: of the process.
        exchange: as it was found.
        last_seq: the last frame that the consumer has, which ACKs it; None to begin with the first.
        window: how many frames it takes without an ACK, if that is fewer than its ask has said.

    Raises:
        UAMPError: 4.00 if no consumer was given that frame; 4.04 if the exchange is not there any more.
    """
    if window is not None and window < 1:
        raise malformed("a window is 1 or more")
    if last_seq is not None:
        exchange = await acknowledge_frames(parts, exchange.id, last_seq)
    size = exchange.window if window is None else min(window, exchange.window)
    return DeltaStream(parts, exchange, last_seq=last_seq, window=size)


async def acknowledge_frames(parts: StreamParts, exchange_id: str, seq: int) -> ExchangeRow:
    """A consumer has read all frames up to one; returns the exchange as it is then.

    Raises:
        UAMPError: 4.00 if no consumer was given that frame; 4.04 if the exchange is not there.
    """
    row = await acknowledge(parts.database, parts.tenant, exchange_id, seq)
    parts.signals.announce(exchange_id)
    return row
