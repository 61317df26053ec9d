"""Ratios of paired measurements, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

_RESAMPLES = 10_000
_SEED = 20_261_129
_OUTSIDE = 0.025
"""On each side of the 95 % interval."""


@dataclass(frozen=True)
class Ratio:
    """How many times the one is the other.

    Attributes:
        median: of the pairs' ratios.
        low: of the bootstrap 95 % interval of that median.
        high: likewise.
        pairs: how many there were.
    """

    median: float
    low: float
    high: float
    pairs: int

    def holds(self, at_most: float) -> bool:
        """Whether a limit is kept: the interval's lower bound is within it."""
        return self.low <= at_most


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Our figures as a multiple of theirs.

    Args:
        ours: one per round, above 0.
        theirs: of the same rounds in the same order.

    Raises:
        ValueError: there are no pairs, or one is without a partner, or a figure is not above 0.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError(f"{len(ours)} figures cannot be paired with {len(theirs)}")
    if not all(math.isfinite(figure) and figure > 0 for figure in (*ours, *theirs)):
        raise ValueError("a ratio needs figures above 0")
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    low, high = interval(ratios)
    return Ratio(median(ratios), low, high, len(ratios))


def interval(figures: Sequence[float]) -> tuple[float, float]:
    """The bootstrap 95 % interval of the median (percentile method); always the same for the same figures."""
    chance = Random(_SEED)
    medians = sorted(median(chance.choices(figures, k=len(figures))) for _ in range(_RESAMPLES))
    return medians[int(_OUTSIDE * _RESAMPLES)], medians[int((1 - _OUTSIDE) * _RESAMPLES) - 1]
