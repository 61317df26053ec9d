"""Where the messages of a strategy's own turn go among the rows of its run."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.activities.contracts import KeepTurnInput
from perdure.activities.keep_turn import PlacedTurn, place_turn
from perdure.store.messages import StoredMessage
from perdure.upp.messages import UserMessage

OWN = {"message": UserMessage("own").to_json()}


def row(position: int, run: str | None = "run") -> StoredMessage:
    return StoredMessage(position, f"row {position}", run, 1, "", 0, UserMessage(f"text {position}"))


def placed(positions: list[int], *items: dict[str, Any] | int) -> PlacedTurn:
    """A turn of these items, a number standing for the row there, over rows at these positions."""
    named = [{"id": f"row {item}"} if isinstance(item, int) else item for item in items]
    call = KeepTurnInput("t", "s", "run", "n", 10, 1, "", items=named)
    return place_turn(call, [row(position) for position in positions])


@pytest.mark.parametrize(
    ("positions", "items", "kept", "new"),
    [
        ([10, 11], [10, 11], [10, 11], []),
        ([10, 12], [10, OWN, 12], [10, 12], [11]),
        ([10, 13], [10, OWN, 13], [10, 13], [12]),
        ([10, 12, 15], [10, OWN, 15], [10, 15], [14]),
        ([10, 11], [OWN, 11], [11], [10]),
        ([10, 11], [10, 11, OWN], [10, 11], [12]),
        ([10, 11], [OWN], [], [12]),
        ([10, 11], [10, OWN, 11], [10], [12, 13]),
        ([10, 11, 12], [10, 12, 11], [10, 12], [13]),
        ([10, 11], [{"before": [0, 2]}, 10, 11], [10, 11], []),
    ],
    ids=["all", "in its place", "nearest", "some", "first", "last", "alone", "no room", "other order", "history"],
)
def test_a_turns_order_is_kept(positions: list[int], items: list[Any], kept: list[int], new: list[int]) -> None:
    """Rows stay where they are as far as their order allows; what is new goes into free places before them."""
    if kept == [11]:
        positions = [11]  # the input's row is another's
    found = placed(positions, *items)
    assert found.kept == [f"row {position}" for position in kept]
    assert [item.position for item in found.new] == new


def test_it_is_the_same_once_more() -> None:
    """An attempt that finds what one before it stored places all as that one did."""
    call = KeepTurnInput("t", "s", "run", "n", 10, 1, "", items=[{"id": "row 10"}, OWN, {"id": "row 12"}, OWN])
    first = place_turn(call, [row(10), row(12)])
    made = [StoredMessage(item.position, item.id, "run", 1, "", 0, item.message) for item in first.new]
    again = place_turn(call, sorted([row(10), row(12), *made], key=lambda item: item.position))
    assert (again.kept, [(item.id, item.position) for item in again.new]) == (
        first.kept, [(item.id, item.position) for item in first.new],
    )  # fmt: skip
