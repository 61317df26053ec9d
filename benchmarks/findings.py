"""What W6 to W10 found: a figure, its unit, and the limit that it is held against, as a row of a result file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One figure.

    Attributes:
        measure: what it is of, in words.
        value: None if it could not be measured; `why` says then why.
        unit: of the value and its limits.
        at_most: the limit; None if there is none.
        at_least: likewise.
        why: what else there is to say of it.
        low: of the 95 % interval of a ratio's median; it is what is held against `at_most`.
        high: likewise.
    """

    measure: str
    value: float | None
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    why: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the value is within its limits; None without any."""
        if self.at_most is None and self.at_least is None:
            return None
        if self.value is None:
            return False
        above = self.at_least is None or self.value >= self.at_least
        least = self.value if self.low is None else self.low
        return above and (self.at_most is None or least <= self.at_most)

    def to_row(self, work: str, counts: Mapping[str, Any]) -> dict[str, Any]:
        """The figure as JSON.

        Args:
            work: "W6" to "W10".
            counts: how much was done, by name.
        """
        return {
            "work": work,
            "measure": self.measure,
            "value": self.value,
            "unit": self.unit,
            "at_most": self.at_most,
            "at_least": self.at_least,
            "low": self.low,
            "high": self.high,
            "holds": self.holds,
            "why": self.why,
            "counts": dict(counts),
        }


def scaled(options: Mapping[str, Any], count: int) -> int:
    """The share of `count` that the option "scale" asks for, 1 by default; at least 1."""
    return max(1, round(count * float(options.get("scale", 1))))


def percentile(values: list[float], share: float) -> float:
    """The value that a share of the others, 0 to 1, does not exceed: the nearest rank.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values to take a percentile of")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
