"""The frames of a subscription: each event of a session's log after it, until it is cancelled or the session is deleted.

An event is told as the log has it, long values as previews. One that stands for a range of deltas (`data.folded`) replaces
what there was of them.
"""

from __future__ import annotations

import asyncio

from perdure.protocols.uamp_envelope.delta import DeltaType
from perdure.runtime.envelopes.frames import RowPieces, TakenPieces, WaitingPieces
from perdure.runtime.envelopes.log_reader import LogReader
from perdure.runtime.envelopes.pieces import Piece, plain_object
from perdure.runtime.event_stream import EventStream
from perdure.store.envelopes.rows import ExchangeRow
from perdure.store.events import Event
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject


class SessionEvents:
    """The frames of a subscription.

    Attributes:
        waiting: pieces that are read and not numbered.
    """

    def __init__(self, stream: EventStream, key: SessionKey, after: int) -> None:
        """Read a session's log behind a number."""
        self.waiting = WaitingPieces()
        self._reader = LogReader(stream, key, after)

    async def look(self, row: ExchangeRow, room: int) -> None:
        """See `FrameSource`."""
        self.waiting.told(row.log_seq)
        while self.waiting.wants_more(room) and (event := self._reader.take()) is not None:
            if event.seq > row.log_seq:
                told: JSONObject = {name: value for name, value in event.to_json().items() if name != "session"}
                piece = Piece(DeltaType.PROGRESS, {"event": plain_object(told)})
                self.waiting.add(RowPieces(event.seq, [piece]))

    def wants(self, room: int) -> asyncio.Task[list[Event]] | None:
        """See `FrameSource`."""
        return self._reader.reading() if self.waiting.wants_more(room) else None

    def place(self, taken: TakenPieces) -> JSONObject:
        """See `FrameSource`; rows are told as a whole."""
        assert taken.part == 0, "no row of a subscription ends it"
        return {}

    async def close(self) -> None:
        """See `FrameSource`."""
        await self._reader.close()


def follow_session(stream: EventStream, row: ExchangeRow) -> SessionEvents:
    """The frames of an exchange that follows a session."""
    assert row.session is not None, "begun"
    return SessionEvents(stream, SessionKey(row.tenant, row.session), row.log_seq)
