"""A way from one stage to another, as a Python definition writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from perdure.errors import InvalidInput
from perdure.uaip.definition import Edge


@dataclass(frozen=True, slots=True)
class Way:
    """An edge whose target is not resolved yet. Made by `to`.

    Attributes:
        target: a stage, or its name.
        keep: the keys that stay in the state; None means all.
    """

    target: type | str
    keep: tuple[str, ...] | None

    def edge(self, target: str) -> Edge:
        """The edge to the stage of that name."""
        return Edge(target, self.keep)


def to(target: type | str, *, keep: Literal["all", "none"] | Sequence[str] = "all") -> Way:
    """A transition that keeps only some of the shared state.

    Args:
        target: the stage, or its name.
        keep: "all", "none", or the keys that stay; whatever else is in the state is dropped on this way.

    Raises:
        InvalidInput: `keep` is another text.
    """
    return Way(target, kept(keep, "to(...)"))


def kept(keep: object, what: str) -> tuple[str, ...] | None:
    """What of the state stays: None for all of it. Raises InvalidInput for a text that is neither "all" nor "none"."""
    if keep == "all":
        return None
    if keep == "none":
        return ()
    if isinstance(keep, str) or not isinstance(keep, Sequence):
        raise InvalidInput(f'{what}: keep {keep!r:.80} must be "all", "none" or a list of keys')
    return tuple(cast("Sequence[str]", keep))
