"""Payments of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perdure.uap.spec import PaidSpec


@dataclass(frozen=True, slots=True)
class PayInput:
    """See that a run is paid for as far as it goes on. `spent` is what it has cost so far, a decimal as text."""

    tenant: str
    session: str
    run: str
    spent: str
    paid: PaidSpec


@dataclass(frozen=True, slots=True)
class PayResult:
    """Whether it is.

    Attributes:
        kind: "held"; "open" (it waits for a payment); "expired" (it waited too long); "refused" (for good); "late" (the run
            has ended); "gone".
        covers: of "held": the run may go on until it has cost as much; a decimal as text.
        wait: id of the wait, and
        place: its place among the run's.
        expires_s: seconds that it has left.
        asked: what it asks for.
        code: of "refused": why, and
        message: the same for people.
    """

    kind: str
    covers: str = ""
    wait: str = ""
    place: int = 0
    expires_s: float | None = None
    asked: dict[str, Any] = field(default_factory=dict[str, Any])
    code: str = ""
    message: str = ""
