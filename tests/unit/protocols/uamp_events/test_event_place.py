"""Ids that say where their events stand, and sessions as they are stored."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from perdure.protocols.uamp_events.event_place import Place, placed_id, read_place


@given(st.integers(0, (1 << 36) - 1), st.integers(0, (1 << 12) - 1))
def test_an_id_is_a_uuid4_that_says_its_place(seq: int, part: int) -> None:
    place = Place(seq, part)
    ident = placed_id(place, "session", "response")
    assert (str(uuid.UUID(ident)), uuid.UUID(ident).version) == (ident, 4)
    assert read_place(ident) == place


def test_the_same_place_of_another_response_has_another_id() -> None:
    assert placed_id(Place(7, 1), "s", "a") != placed_id(Place(7, 1), "s", "b")
    assert placed_id(Place(7, 1), "s", "a") == placed_id(Place(7, 1), "s", "a")


def test_a_number_that_does_not_fit_is_the_largest_and_the_ids_still_differ() -> None:
    one, two = placed_id(Place(1, 5000), "s"), placed_id(Place(1, 5001), "s")
    assert one != two
    assert read_place(one) == read_place(two) == Place(1, 4095)


def test_what_is_no_id_of_ours_has_no_place() -> None:
    assert [read_place(text) for text in ("evt_1", "", str(uuid.uuid1()))] == [None, None, None]
