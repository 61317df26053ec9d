"""Positions of rows and places in a thread."""

from __future__ import annotations

import pytest

from perdure.store.tree import NodeSlots, Slot


def slots(*hidden: bool) -> NodeSlots:
    return NodeSlots([Slot(f"m{place}", place + 2, None, "user", gone, False) for place, gone in enumerate(hidden)])


def test_messages_of_failed_runs_have_positions_and_no_place() -> None:
    node = slots(False, True, False)
    assert [node.count_before(position) for position in (2, 3, 4, 5)] == [0, 1, 1, 2]
    assert [slot.id for slot in node.between(3, 5)] == ["m1", "m2"]
    assert node.end == 5


@pytest.mark.parametrize(("count", "position"), [(0, 0), (1, 3), (2, 5), (9, 5)])
def test_a_branch_leaves_behind_the_messages_that_it_goes_on_from(count: int, position: int) -> None:
    """A count beyond the thread, as another system may write it, is all of it."""
    assert slots(False, True, False).position_after(count) == position


def test_an_empty_node_ends_where_it_begins() -> None:
    assert NodeSlots().end == NodeSlots().position_after(3) == 0
