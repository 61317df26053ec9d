"""One measurement: a contestant does one work, and what that cost whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.processes import Memory

WORKER_AND_TEMPORAL = ("worker", "temporal")
ALL_ROLES = ("worker", "driver", "api", "temporal", "postgres")


@dataclass(frozen=True)
class Measurement:
    """What one contestant used for one work in one round.

    Attributes:
        contestant: its name, with its options as in "floor+rows".
        work: "W1" to "W5".
        round: from 0; figures of one round are pairs.
        runs: that were measured at once; of W5 the sessions, which is 1.
        at_once: how many of them were in flight.
        steps: of all those runs together.
        alone_ms: latency of each run that was done alone, one after another; of W5 of each turn, in order.
        steps_alone: of one such run or turn.
        wall_ms: of all the runs at once.
        cpu_ms: CPU time by role that they used until all that they caused was done, folding included.
        other_cpu: the share of the machine's cores that other processes used meanwhile, 0 to 1.
        history_bytes: of Temporal's events, per run.
        events: of Temporal, per run.
        stored_bytes: by which the contestant's database grew, per run.
        memory: by role, right after the runs.
    """

    contestant: str
    work: str
    round: int
    runs: int
    at_once: int
    steps: int
    alone_ms: tuple[float, ...]
    steps_alone: int
    wall_ms: float
    cpu_ms: Mapping[str, float]
    other_cpu: float
    history_bytes: float
    events: float
    stored_bytes: float
    memory: Mapping[str, Memory] = field(default_factory=dict[str, Memory])

    @property
    def ms_per_step(self) -> float:
        """Median latency of a run alone, per step."""
        return median(self.alone_ms) / self.steps_alone

    @property
    def cpu_ms_per_step(self) -> dict[str, float]:
        """By role."""
        return {role: spent / self.steps for role, spent in self.cpu_ms.items()}

    @property
    def steps_per_second(self) -> float:
        """With `at_once` runs in flight."""
        return self.steps / self.wall_ms * 1000

    @property
    def all_stored_bytes(self) -> float:
        """Per run: Temporal's history and the rows."""
        return self.history_bytes + self.stored_bytes

    def cpu_per_step(self, roles: Sequence[str] = ALL_ROLES) -> float:
        """CPU ms per step of these roles together."""
        return sum(spent for role, spent in self.cpu_ms_per_step.items() if role in roles)

    def last_over_first(self, turns: int = 20) -> float:
        """Of a session: the median of its last turns as a multiple of that of its first."""
        return median(self.alone_ms[-turns:]) / median(self.alone_ms[:turns])
