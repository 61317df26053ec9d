"""What waits to become frames of a stream, in the order of the log, bounded by what a consumer takes.

Each piece is kept with its row of the log, so that whoever numbers frames can say up to where the log is told then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.runtime.envelopes.pieces import JoinedPieces, Piece

_MOST_CHARS = 256 * 1024


@dataclass(frozen=True, slots=True)
class RowPieces:
    """What one row of the log became: at least one piece. Only the last one of a stream is terminal."""

    seq: int
    pieces: Sequence[Piece]

    @property
    def is_last(self) -> bool:
        """Whether the stream ends with it."""
        return self.pieces[-1].type.is_terminal


@dataclass(frozen=True, slots=True)
class TakenPieces:
    """What is numbered next.

    Attributes:
        pieces: one for each frame, none terminal; perhaps none.
        log_seq: the row of the log up to which all is told with them.
        part: how many pieces of the row behind that are told with them.
    """

    pieces: list[Piece]
    log_seq: int
    part: int = 0


class WaitingPieces:
    """The pieces that are not numbered yet: as many as are wanted, and the rest of their last row.

    The row that ends a stream may be told in parts: it can be long, and nothing folds it. Any other is told as a whole.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._rows: deque[RowPieces] = deque()
        self._joined = JoinedPieces()
        self._chars = 0

    def add(self, row: RowPieces) -> None:
        """What the next row became."""
        self._rows.append(row)
        self._joined.add(row.pieces)
        self._chars += _chars(row)

    def told(self, log_seq: int) -> None:
        """Rows up to this one are numbered, by whomever."""
        if not self._rows or self._rows[0].seq > log_seq:
            return
        while self._rows and self._rows[0].seq <= log_seq:
            self._chars -= _chars(self._rows.popleft())
        self._joined = JoinedPieces(piece for row in self._rows for piece in row.pieces)

    def wants_more(self, room: int) -> bool:
        """Whether more rows must be read to make as many frames as there is room for, each as full as it can be."""
        return self._chars < _MOST_CHARS and len(self._joined) <= max(room, 0)

    def is_blocked(self, room: int, part: int) -> bool:
        """Whether there is a piece, but no room for it."""
        return room <= 0 and bool(self._rows) and self.terminal(room, part) is None

    def terminal(self, room: int, part: int) -> Piece | None:
        """The terminal piece, if no other stands before it, and no frame that there was no room for.

        Args:
            room: how many frames may be made; less than nothing if a row had more pieces than there was room for.
            part: how many pieces of the first row are told.
        """
        if not self._rows or room < 0:
            return None
        piece = self._rows[0].pieces[part]
        return piece if piece.type.is_terminal else None

    def take(self, room: int, log_seq: int, part: int) -> TakenPieces:
        """The next pieces that there is room for, and at least one row if there is any; they stay here until they are told.

        Args:
            room: how many frames may be made.
            log_seq: up to which row all is told.
            part: how many pieces of the row behind are told.
        """
        if room <= 0:
            return TakenPieces([], log_seq, part)
        joined = JoinedPieces()
        for row in self._rows:
            if row.is_last:
                told = part
                while joined.fits(row.pieces[told : told + 1], room) and not row.pieces[told].type.is_terminal:
                    joined.add(row.pieces[told : told + 1])
                    told += 1
                return TakenPieces(joined.made(), log_seq, told)
            if len(joined) and not joined.fits(row.pieces, room):
                break
            joined.add(row.pieces)
            log_seq = row.seq
        return TakenPieces(joined.made(), log_seq)


def _chars(row: RowPieces) -> int:
    return sum(len(piece.text) for piece in row.pieces)
