"""Inputs that join a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TakeSteersInput:
    """Ask for the inputs that join a run before the first model call of a step.

    `position` is where the first of them stands: messages of the node so far.
    """

    tenant: str
    session: str
    run: str
    node: str
    position: int
    step: int


@dataclass(frozen=True, slots=True)
class TakeSteersResult:
    """The inputs that joined.

    Attributes:
        kind: "taken"; "late" (the run had ended); "gone".
        messages: as MessageJSON, long parts cut, oldest first.
        rows: id and sha256 of the row of each.
    """

    kind: str = "taken"
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
