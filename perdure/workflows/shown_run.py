"""What queries show of the run that is open, or was the last of its execution."""

from __future__ import annotations

import dataclasses
from typing import Any

from perdure.uap.ids import checkpoint_id
from perdure.workflows.effects import TemporalEffects
from perdure.workflows.parking import Parking


class ShownRun:
    """One execution's run as queries show it."""

    def __init__(self) -> None:
        """There was none yet."""
        self._effects: TemporalEffects | None = None
        self._parking: Parking | None = None
        self._last: dict[str, Any] = {}

    def begun(self, effects: TemporalEffects, parking: Parking) -> None:
        """A run is open."""
        self._effects, self._parking = effects, parking

    def ended(self, status: str) -> None:
        """It has ended."""
        self._last = {**self.now, "status": status}
        self._effects, self._parking = None, None

    @property
    def now(self) -> dict[str, Any]:
        """Run, status, step, the last step boundary's number and the state there; empty if there was no run."""
        if self._effects is None:
            return self._last
        parked = self._parking.reason if self._parking else None
        return {
            "run": self._effects.frame.run,
            "status": "parked" if parked else "running",
            "parked": parked,
            "step": self._effects.state.step,
            "checkpoint": self._effects.boundary.step,
            "state": dataclasses.asdict(self._effects.boundary),
        }

    @property
    def checkpoints(self) -> list[dict[str, Any]]:
        """Its checkpoints by id and step, oldest first."""
        now = self.now
        steps = range(1, int(now.get("checkpoint", 0)) + 1)
        return [{"id": checkpoint_id(now["run"], step), "step": step} for step in steps]
