"""Where a reader of a UAMP session stands, and how many frames are too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.api.doors.uamp.cursor import Cursor
from perdure.api.doors.uamp.flood import MOST_AT_ONCE, MOST_PER_SECOND, Flood
from perdure.errors import InvalidInput

numbers = st.integers(0, 10**12)


@given(st.builds(Cursor, numbers, numbers, numbers))
def test_a_cursor_is_read_as_it_was_written(cursor: Cursor) -> None:
    assert Cursor.read(str(cursor)) == cursor


def test_a_cursor_of_before_with_a_fourth_number_is_read() -> None:
    assert Cursor.read("5.1.3.8") == Cursor(5, 1, 3)


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.3.4.5", "a.b.c", "-1.2.3", "1" * 16 + ".1.1"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="Last-Event-ID"):
        Cursor.read(text)


def test_many_frames_at_once_pass_and_more_do_not_until_time_has_gone_by() -> None:
    now = 0.0
    flood = Flood(clock=lambda: now)
    assert not any(flood.is_too_much() for _ in range(MOST_AT_ONCE))
    assert flood.is_too_much()
    now = 1.0
    assert [flood.is_too_much() for _ in range(int(MOST_PER_SECOND) + 1)].count(True) == 1
