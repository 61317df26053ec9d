"""Pieces that wait to be numbered: joined where they can be, told whole, in order, as far as there is room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.protocols.uamp_envelope.delta import DeltaType
from perdure.runtime.envelopes.frames import RowPieces, WaitingPieces
from perdure.runtime.envelopes.pieces import (
    CHUNK_CHARS,
    JoinedPieces,
    Piece,
    plain,
    progress,
    text_pieces,
    thinking_pieces,
)

DONE = Piece(DeltaType.DONE)
PIECES = st.one_of(
    st.text(min_size=1, max_size=5).map(lambda text: text_pieces(text)[0]),
    st.text(min_size=1, max_size=5).map(lambda text: thinking_pieces(text)[0]),
    st.just(progress("step", step=1)),
)
ROWS = st.lists(st.lists(PIECES, min_size=1, max_size=3), max_size=12)


def said(pieces: list[Piece]) -> list[tuple[str | None, str]]:
    """What pieces say, whatever was joined."""
    told: list[tuple[str | None, str]] = []
    for piece in pieces:
        if told and piece.joins is not None and told[-1][0] == piece.joins:
            told[-1] = (piece.joins, told[-1][1] + piece.text)
        else:
            told.append((piece.joins, piece.text))
    return told


@given(ROWS, st.lists(st.integers(1, 4), min_size=40, max_size=40), st.integers(0, 3))
def test_everything_is_taken_once_and_in_order(rows: list[list[Piece]], rooms: list[int], last: int) -> None:
    """Whatever the room is each time; a row is never torn, but the last, and the terminal piece comes alone at the end."""
    waiting = WaitingPieces()
    end = [*(progress("media", n=n) for n in range(last)), DONE]
    for seq, pieces in enumerate([*rows, end], 1):
        waiting.add(RowPieces(seq, pieces))
    taken: list[Piece] = []
    log_seq = part = 0
    for room in rooms:
        if waiting.terminal(room, part) is not None:
            break
        new = waiting.take(room, log_seq, part)
        assert new.pieces
        assert (new.log_seq, new.part) > (log_seq, part)
        assert len(new.pieces) <= max(room, len(rows[log_seq]) if log_seq < len(rows) else 1)
        taken, log_seq, part = [*taken, *new.pieces], new.log_seq, new.part
        waiting.told(log_seq)
    assert waiting.terminal(0, part) is DONE
    assert (log_seq, part) == (len(rows), last)
    assert said(taken) == said([*(piece for row in rows for piece in row), *end[:-1]])


@given(st.lists(PIECES, max_size=10), st.lists(PIECES, max_size=6), st.integers(0, 12))
def test_whether_more_fits_is_known_before(pieces: list[Piece], more: list[Piece], room: int) -> None:
    """As adding it says."""
    joined = JoinedPieces(pieces)
    fits = joined.fits(more, room)
    joined.add(more)
    assert fits == (len(joined) <= room)
    assert len(joined.made()) == len(joined)


def test_a_chunk_is_not_joined_beyond_its_size() -> None:
    """Text of any length is cut; what is short is joined up to the size."""
    long = text_pieces("x" * (2 * CHUNK_CHARS + 1))
    assert [len(piece.text) for piece in long] == [CHUNK_CHARS, CHUNK_CHARS, 1]
    joined = JoinedPieces(text_pieces("y" * (CHUNK_CHARS - 1)) + text_pieces("zz") + text_pieces("a"))
    assert [len(piece.text) for piece in joined.made()] == [CHUNK_CHARS - 1, 3]


def test_without_room_only_the_end_may_follow() -> None:
    """A piece that waits is blocked; the end is not, unless a frame before it has no room."""
    waiting = WaitingPieces()
    assert waiting.wants_more(0)
    assert not waiting.is_blocked(0, 0)
    waiting.add(RowPieces(1, text_pieces("word")))
    assert waiting.is_blocked(0, 0)
    assert not waiting.wants_more(0)
    assert waiting.wants_more(1)
    assert waiting.take(0, 0, 0).pieces == []
    waiting.told(1)
    waiting.add(RowPieces(2, [DONE]))
    assert not waiting.is_blocked(0, 0)
    assert waiting.terminal(0, 0) is DONE
    assert waiting.terminal(-1, 0) is None
    assert waiting.is_blocked(-1, 0)


def test_little_is_read_ahead() -> None:
    """Not more frames than there is room for and one, and not more text than a few chunks."""
    waiting = WaitingPieces()
    read = 0
    while waiting.wants_more(1000):
        read += 1
        waiting.add(RowPieces(read, text_pieces("x" * CHUNK_CHARS)))
    assert read == 8


def test_what_a_frame_cannot_hold_is_said_in_text() -> None:
    """A lone surrogate, a number that readers would round, what is nested too deeply."""
    assert plain({"a\ud800": ["\udfff", 2**53, -(2**53), 5, True, None, 1e300, float("nan"), 0.5]}) == {
        "a\ufffd": ["\ufffd", "9007199254740992", "-9007199254740992", 5, True, None, "1e+300", "nan", 0.5]
    }
    assert plain([[["deep"]]], levels=2) == [['["deep"]']]
