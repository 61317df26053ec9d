"""What is looked after in vain is looked after less and less often."""

from __future__ import annotations

from perdure.runtime.backoff import Backoff


def turns(backoff: Backoff[str], rounds: int, *names: str) -> list[int]:
    """The rounds, from 1, in which a name's turn came."""
    found: list[int] = []
    for _ in range(rounds):
        backoff.begin_round()
        backoff.only(names)
        found += [backoff.round for name in names if backoff.is_turn(name)]
    return found


def test_the_turns_of_a_name_grow_apart() -> None:
    """Each wait is twice the one before, and none is longer than 30 rounds."""
    assert turns(Backoff(), 130, "a") == [1, 2, 4, 8, 16, 32, 62, 92, 122]


def test_a_name_that_went_and_comes_back_later_is_new() -> None:
    """One that comes back before its next turn has to wait for that."""
    backoff = Backoff[str]()
    assert turns(backoff, 4, "a") == [1, 2, 4]
    assert turns(backoff, 2) == []
    assert turns(backoff, 2, "a") == [8]
    assert turns(backoff, 20) == []
    assert turns(backoff, 2, "a") == [29, 30]
