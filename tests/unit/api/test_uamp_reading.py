"""Where a reader of a UAMP session stands, how a folded block is taken up in its middle, and how many frames are too many."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.api.doors.uamp.block_lengths import BlockLengths
from perdure.api.doors.uamp.cursor import Cursor
from perdure.api.doors.uamp.flood import MOST_AT_ONCE, MOST_PER_SECOND, Flood
from perdure.errors import InvalidInput
from perdure.protocols.uamp_events.event_place import Place
from perdure.store.events import Event
from perdure.upp.json_value import JSONObject

AT = datetime(2026, 1, 1, tzinfo=UTC)
numbers = st.integers(0, 10**12)


def delta(seq: int, text: str, **folded: int) -> Event:
    data: JSONObject = {"message": "m", "index": 0, "delta": {"text": text}}
    told: JSONObject = {**data, "folded": {"from": folded["since"], "to": seq}} if folded else data
    return Event("s", seq, "r", 1, 1, "upp", "text_delta", told, AT)


def texts(rows: list[Event]) -> list[tuple[int, object]]:
    return [(row.seq, row.data["delta"]) for row in rows]


@given(st.builds(Cursor, numbers, numbers, numbers, numbers))
def test_a_cursor_is_read_as_it_was_written(cursor: Cursor) -> None:
    assert Cursor.read(str(cursor)) == cursor


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.3.4.5", "a.b.c", "-1.2.3", "1" * 16 + ".1.1"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="Last-Event-ID"):
        Cursor.read(text)


def test_the_length_of_a_block_is_what_its_rows_told() -> None:
    lengths = BlockLengths()
    assert [lengths.count(delta(5, "one ")), lengths.count(delta(6, "two"))] == [4, 7]
    assert lengths.count(Event("s", 7, "r", 1, None, "run", "run.completed", {}, AT)) == 0


def test_a_folded_block_is_split_where_its_reader_stood() -> None:
    row = delta(9, "one two three", since=3)
    assert texts(BlockLengths().split(row, Place(5, 1, 8))) == [(5, {"text": "one two "}), (9, {"text": "three"})]
    assert BlockLengths().split(row, Place(9, 1, 13)) == [row], "it has had all of it"
    assert BlockLengths().split(row, Place(2, 1, 0)) == [row], "it has had nothing of it"


def test_of_a_block_that_was_folded_in_parts_only_the_part_under_way_is_split() -> None:
    lengths = BlockLengths()
    assert lengths.count(delta(6, "one two ", since=3)) == 8
    assert texts(lengths.split(delta(9, "three", since=7), Place(7, 1, 10))) == [
        (7, {"text": "th"}),
        (9, {"text": "ree"}),
    ]


def test_many_frames_at_once_pass_and_more_do_not_until_time_has_gone_by() -> None:
    now = 0.0
    flood = Flood(clock=lambda: now)
    assert not any(flood.is_too_much() for _ in range(MOST_AT_ONCE))
    assert flood.is_too_much()
    now = 1.0
    assert [flood.is_too_much() for _ in range(int(MOST_PER_SECOND) + 1)].count(True) == 1
