"""Numbering the frames of a stream: on from where whoever numbered last has stopped, as far as the window lets.

Two who stream one exchange map the same rows to the same pieces. The exchange's row is held while its next frames are
saved, and says up to where the log is told, so that one of them numbers a piece and the other finds it numbered.
"""

from __future__ import annotations

from perdure.errors import DamagedSession, SessionGone, UnknownRun, UnknownSession
from perdure.protocols.uamp_envelope.delta import Delta, DeltaType
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.lifecycle import State, Step
from perdure.runtime.envelopes.frame_source import FrameSource, follow_run, told_part
from perdure.runtime.envelopes.frames import TakenPieces
from perdure.runtime.envelopes.media import filled
from perdure.runtime.envelopes.session_events import follow_session
from perdure.runtime.envelopes.stream_parts import StreamParts
from perdure.runtime.envelopes.terminal import End, end_exchange, end_of, step_of
from perdure.store.envelopes.frames import save_frames
from perdure.store.envelopes.rows import ExchangeRow
from perdure.store.envelopes.settling import hold_exchange

_BROKEN_OFF = (State.CANCELLED, State.ERROR)


class Numbering:
    """Numbers the frames of one exchange. To be closed."""

    def __init__(self, parts: StreamParts) -> None:
        """Number with a process's parts; nothing is read yet."""
        self._parts = parts
        self._source: FrameSource | None = None

    async def advance(self, row: ExchangeRow) -> ExchangeRow | None:
        """Number what is at hand; returns the exchange as it is then, None if it is not there any more.

        Args:
            row: the exchange, as it was last seen.

        Raises:
            ServerError: the process is leaving.
        """
        found: ExchangeRow | None = row
        while found is not None and not found.is_over:
            before, found = found, await self._step(found)
            if found is before:
                break
        return found

    def is_blocked(self, row: ExchangeRow) -> bool:
        """Whether there is a frame to be numbered, but no room for it."""
        return self._source is not None and self._source.waiting.is_blocked(room_of(row), told_part(row))

    @property
    def source(self) -> FrameSource | None:
        """Where pieces come from; None if there are none, or none yet."""
        return self._source

    async def close(self) -> None:
        """Stop reading."""
        if self._source is not None:
            await self._source.close()

    async def _step(self, row: ExchangeRow) -> ExchangeRow | None:
        """The next thing to be done; gives the same row back if there is none."""
        if row.state in _BROKEN_OFF:
            return (await end_exchange(self._parts, row, end_of(row))).row
        try:
            return await self._told(row) if await self._is_begun(row) else row
        except (SessionGone, UnknownSession, UnknownRun):
            return None
        except DamagedSession as error:
            damaged = UAMPError(Code.INTERNAL, str(error), ref=row.envelope)
            end = End(DeltaType.ERROR, damaged.to_json(), Step.ERROR)
            return (await end_exchange(self._parts, row, end)).row

    async def _told(self, row: ExchangeRow) -> ExchangeRow | None:
        """The exchange with the next frames, if there are any."""
        assert self._source is not None, "begun"
        room, part = room_of(row), told_part(row)
        await self._source.look(row, room)
        terminal = self._source.waiting.terminal(room, part)
        if terminal is not None:
            end = End(terminal.type, terminal.payload, step_of(terminal.type), after=(row.log_seq, part))
            return (await end_exchange(self._parts, row, end)).row
        taken = self._source.waiting.take(room, row.log_seq, part)
        return await self._save(row, taken) if taken.pieces else row

    async def _is_begun(self, row: ExchangeRow) -> bool:
        if self._source is None and row.session is not None:
            if row.intent is Intent.SUBSCRIBE:
                self._source = follow_session(self._parts.stream, row)
            elif row.intent is Intent.ASK and row.run is not None:
                self._source = await follow_run(self._parts.database, self._parts.stream, row)
        return self._source is not None

    async def _save(self, row: ExchangeRow, taken: TakenPieces) -> ExchangeRow | None:
        assert self._source is not None, "there are pieces"
        pieces = await filled(self._parts.database, self._parts.tenant, taken.pieces)
        async with self._parts.database.transaction(row.key) as connection:
            held = await hold_exchange(connection, self._parts.tenant, row.id)
            if held is None or held.is_over or held.state in _BROKEN_OFF or _place(held) != _place(row):
                return held
            now = self._parts.clock()
            frames = [
                Delta(held.next_seq + place, held.stream_id, now, piece.type, piece.payload)
                for place, piece in enumerate(pieces)
            ]
            log_place = self._source.place(taken)
            return await save_frames(connection, held, frames, log_seq=taken.log_seq, log_place=log_place)


def room_of(row: ExchangeRow) -> int:
    """How many frames may be numbered before there is an ACK; less than nothing if more were, of one row."""
    return row.window - (row.next_seq - 1 - row.acked)


def _place(row: ExchangeRow) -> tuple[int, int, int]:
    return row.next_seq, row.log_seq, told_part(row)
