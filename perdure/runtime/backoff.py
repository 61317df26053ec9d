"""Whose turn it is in a round: what stays as it is although it was looked after is looked after less and less often."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_LONGEST = 30


class Backoff(Generic[K]):
    """The tries of one process, by name.

    Attributes:
        round: how many rounds were begun.
    """

    def __init__(self) -> None:
        """Nothing has been tried."""
        self.round = 0
        self._tries: dict[K, tuple[int, int]] = {}

    def begin_round(self) -> None:
        """Count another round."""
        self.round += 1

    def only(self, names: Collection[K]) -> None:
        """Forget what is not among these names, unless its next turn is still to come."""
        self._tries = {name: tried for name, tried in self._tries.items() if name in names or tried[1] > self.round}

    def is_turn(self, name: K) -> bool:
        """Whether a name's turn has come; if so it counts as tried. At the latest every 30th round is."""
        tries, next_round = self._tries.get(name, (0, 0))
        if self.round < next_round:
            return False
        self._tries[name] = (tries + 1, self.round + min(2**tries, _LONGEST))
        return True
