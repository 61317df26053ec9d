"""What a large installation needs, calculated from what a step was measured to cost. Arithmetic only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.measure import Measurement

_DAY_S = 86_400
_GB = 1e9
CONNECTIONS_PER_PROCESS = 21


@dataclass(frozen=True)
class StepCost:
    """What one step was measured to cost.

    Attributes:
        cpu_ms: by role: worker, driver, temporal, postgres, and api if an API process took part.
        history_bytes: of Temporal.
        stored_bytes: of rows, with their indexes.
        steps_per_second: that the measured machine did at once, with one shard of Temporal.
        worker_bytes: memory of the worker process.
    """

    cpu_ms: Mapping[str, float]
    history_bytes: float
    stored_bytes: float
    steps_per_second: float
    worker_bytes: float

    @property
    def front_ms(self) -> float:
        """CPU of what hands inputs in and follows runs: an API process, else the benchmark's driver, which does both."""
        return self.cpu_ms.get("api", 0.0) or self.cpu_ms.get("driver", 0.0)


@dataclass(frozen=True)
class Load:
    """What is asked of an installation.

    Attributes:
        sessions: that are kept.
        steps_per_second: of all runs together.
        steps_per_session: that a kept session has had, on average.
        step_s: seconds that a step takes, model and tools included.
        busy: the share of each core that is planned to be used.
        retention_days: for which Temporal keeps closed histories.
    """

    sessions: int = 1_000_000
    steps_per_second: int = 10_000
    steps_per_session: int = 20
    step_s: float = 5.0
    busy: float = 0.6
    retention_days: int = 30


@dataclass(frozen=True)
class Bill:
    """What it needs.

    Attributes:
        worker_processes: one core each.
        worker_gb: of memory, without what an app needs itself.
        api_processes: likewise one core each.
        temporal_cores: of all its services.
        shards: of Temporal's history service, a power of two.
        postgres_cores: for the rows; Temporal's own store is not in it.
        active_runs: in flight at a time.
        rows_gb_per_day: written.
        kept_gb: rows of all kept sessions.
        history_gb_per_day: written.
        history_kept_gb: within the retention.
        connections: to PostgreSQL that processes may open, at most.
    """

    worker_processes: int
    worker_gb: float
    api_processes: int
    temporal_cores: int
    shards: int
    postgres_cores: int
    active_runs: int
    rows_gb_per_day: float
    kept_gb: float
    history_gb_per_day: float
    history_kept_gb: float
    connections: int


def measured_cost(rounds: Sequence[Measurement]) -> StepCost:
    """Medians over the rounds of one contestant and work.

    Raises:
        ValueError: there are no rounds.
    """
    if not rounds:
        raise ValueError("nothing was measured")
    roles = sorted({role for one in rounds for role in one.cpu_ms})
    return StepCost(
        cpu_ms={role: median(one.cpu_ms_per_step.get(role, 0.0) for one in rounds) for role in roles},
        history_bytes=median(one.history_bytes * one.runs / one.steps for one in rounds),
        stored_bytes=median(one.stored_bytes * one.runs / one.steps for one in rounds),
        steps_per_second=median(one.steps_per_second for one in rounds),
        worker_bytes=median(one.memory["worker"].pss_bytes if "worker" in one.memory else 0 for one in rounds),
    )


def bill(cost: StepCost, load: Load) -> Bill:
    """What an installation needs for a load."""

    def cores(ms: float) -> int:
        return math.ceil(ms * load.steps_per_second / 1000 / load.busy)

    workers, fronts = cores(cost.cpu_ms.get("worker", 0.0)), cores(cost.front_ms)
    history_day = cost.history_bytes * load.steps_per_second * _DAY_S / _GB
    return Bill(
        worker_processes=workers,
        worker_gb=workers * cost.worker_bytes / _GB,
        api_processes=fronts,
        temporal_cores=cores(cost.cpu_ms.get("temporal", 0.0)),
        shards=shards(load.steps_per_second / cost.steps_per_second / load.busy),
        postgres_cores=cores(cost.cpu_ms.get("postgres", 0.0)),
        active_runs=round(load.steps_per_second * load.step_s),
        rows_gb_per_day=cost.stored_bytes * load.steps_per_second * _DAY_S / _GB,
        kept_gb=cost.stored_bytes * load.steps_per_session * load.sessions / _GB,
        history_gb_per_day=history_day,
        history_kept_gb=history_day * load.retention_days,
        connections=CONNECTIONS_PER_PROCESS * (workers + fronts),
    )


def shards(least: float) -> int:
    """The power of two that is not below a number."""
    return 1 << max(0, math.ceil(math.log2(least))) if least > 1 else 1
