"""Where the frames of a stream come from: what a run's log says, mapped from the run's first row on.

Rows up to the exchange's `log_seq` were told before; they are mapped again, because what follows depends on them, and what
they become is passed over. So any process can go on where another has stopped.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from perdure.errors import DamagedSession
from perdure.protocols.uamp_events.response_flow import ResponseFlow
from perdure.protocols.uamp_events.server_events import ResponseCancelled, ResponseDone, ResponseError
from perdure.protocols.uamp_events.surrounding_events import ResponseEvent
from perdure.runtime.envelopes.frames import RowPieces, TakenPieces, WaitingPieces
from perdure.runtime.envelopes.log_reader import LogReader
from perdure.runtime.envelopes.media import find_media
from perdure.runtime.envelopes.pieces import Piece
from perdure.runtime.envelopes.run_pieces import RunPieces
from perdure.runtime.event_stream import EventStream
from perdure.runtime.response_rows import ResponseRows
from perdure.runtime.unfolding import split_at
from perdure.store.database import Database
from perdure.store.envelopes.rows import ExchangeRow
from perdure.store.events import Event
from perdure.store.run_spans import RunSpan, read_run_span
from perdure.upp.json_value import JSONObject

_PART, _OF = "part", "of"
"""Of `log_place`: how many pieces of the run's last row are told, and of how many."""


class FrameSource(Protocol):
    """What gives an exchange's pieces, in order.

    Attributes:
        waiting: those that are read and not numbered.
    """

    waiting: WaitingPieces

    async def look(self, row: ExchangeRow, room: int) -> None:
        """Map the rows that are at hand, as far as there is room.

        Args:
            row: the exchange, as it was last seen.
            room: how many frames may be made.

        Raises:
            SessionGone: the session was deleted, or is not there (UnknownSession).
            DamagedSession: what a row refers to is not there.
            ServerError: the process is leaving.
        """
        ...

    def wants(self, room: int) -> asyncio.Task[list[Event]] | None:
        """What is done as soon as there are more rows; None if no more are wanted now."""
        ...

    def place(self, taken: TakenPieces) -> JSONObject:
        """What the exchange's `log_place` is once these are numbered."""
        ...

    async def close(self) -> None:
        """Stop reading."""
        ...


def told_part(row: ExchangeRow) -> int:
    """How many pieces of the log's next row an exchange's frames have told."""
    return cast(int, row.log_place.get(_PART, 0))


class RunFrames:
    """The frames of an ask: what its run's response is made of.

    Attributes:
        waiting: pieces that are read and not numbered.
    """

    def __init__(self, database: Database, stream: EventStream, span: RunSpan) -> None:
        """Read a run from its beginning on."""
        self.waiting = WaitingPieces()
        self._database = database
        self._key = span.key
        self._reader = LogReader(stream, span.key, span.before)
        self._rows = ResponseRows(database, span.key, span.run)
        self._flow = ResponseFlow(span.run, span.run, span.key.session)
        self._map = RunPieces(span.key.session, span.run)
        self._last = 0

    async def look(self, row: ExchangeRow, room: int) -> None:
        """See `FrameSource`."""
        self.waiting.told(row.log_seq)
        while self._wants_more(room) and (event := self._reader.take()) is not None:
            if event.run != self._flow.run:
                continue
            for part in split_at(event, row.log_seq):
                await self._read(part, row)

    def wants(self, room: int) -> asyncio.Task[list[Event]] | None:
        """See `FrameSource`."""
        return self._reader.reading() if self._wants_more(room) else None

    def place(self, taken: TakenPieces) -> JSONObject:
        """See `FrameSource`."""
        return {_PART: taken.part, _OF: self._last} if taken.part else {}

    async def close(self) -> None:
        """See `FrameSource`."""
        await self._reader.close()

    def _wants_more(self, room: int) -> bool:
        return not self._flow.is_over and self.waiting.wants_more(room)

    async def _read(self, event: Event, row: ExchangeRow) -> None:
        for whole in await self._rows.read(event):
            answer = None if whole.answer is None else whole.answer.message
            pieces: list[Piece] = []
            for told in self._flow.take(whole.row, answer=answer):
                pieces += await self._pieces(told)
            if self._flow.is_over:
                self._last = len(pieces)
                if row.log_place.get(_OF, self._last) != self._last:
                    raise DamagedSession("media was deleted while it was told", run_id=self._flow.run)
            if pieces and whole.row.seq > row.log_seq:
                self.waiting.add(RowPieces(whole.row.seq, pieces))

    async def _pieces(self, event: ResponseEvent) -> list[Piece]:
        match event:
            case ResponseDone():
                media = await find_media(self._database, self._key.tenant, event.response.output)
                return self._map.done(event, self._flow.text, media)
            case ResponseError():
                return self._map.failed(event)
            case ResponseCancelled():
                return self._map.cancelled()
            case _:
                return self._map.of(event)


async def follow_run(database: Database, stream: EventStream, row: ExchangeRow) -> RunFrames:
    """The frames of an exchange that has a run.

    Raises:
        UnknownRun: its session was deleted.
    """
    assert row.run is not None, "begun"
    return RunFrames(database, stream, await read_run_span(database, row.tenant, row.run))
