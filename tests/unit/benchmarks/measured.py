"""Results as the benchmark writes them, with figures that can be reckoned in the head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measure import Measurement
from benchmarks.processes import Memory
from benchmarks.results import Machine, Result

MACHINE = Machine("A processor", 2, 16 * 2**30, "Linux 6.1", "3.11.7")


def measurement(contestant: str, number: int = 0, *, work: str = "W1", **values: Any) -> Measurement:
    """40 runs of 10 steps: 100 ms a step alone; 5 CPU ms a step of the worker, 4 of Temporal, 2 of PostgreSQL, 1 of the driver."""
    given: dict[str, Any] = {
        "runs": 40, "at_once": 20, "steps": 400, "alone_ms": (1000.0, 900.0, 1100.0), "steps_alone": 10,
        "wall_ms": 8000.0,
        "cpu_ms": {"worker": 2000.0, "temporal": 1600.0, "postgres": 800.0, "driver": 400.0}, "other_cpu": 0.0,
        "history_bytes": 20_000.0, "events": 120.0, "stored_bytes": 30_000.0,
        "memory": {"worker": Memory(100_000_000, 120_000_000)},
    }  # fmt: skip
    return Measurement(contestant=contestant, work=work, round=number, **(given | values))


def rounds(contestant: str, count: int = 9, *, work: str = "W1", **values: Any) -> list[Measurement]:
    """The same in each round."""
    return [measurement(contestant, number, work=work, **values) for number in range(count)]


def result(
    measurements: Sequence[Measurement] = (), *, kind: str = "pairs", date: str = "2026-11-29T10:00:00+00:00",
    rows: Sequence[Mapping[str, Any]] = (),
) -> Result:  # fmt: skip
    """A run of the benchmark."""
    versions = {"perdure": {"temporalio": "1.35.0"}, "servers": {"postgresql": "18.0"}}
    return Result(kind, date, "abcdef123456", MACHINE, versions, {"rounds": 9}, tuple(measurements), tuple(rows))


def cpu(worker: float, temporal: float, postgres: float = 0.0, **more: float) -> dict[str, float]:
    """CPU of 400 steps, given in ms per step."""
    return {
        role: ms * 400 for role, ms in {"worker": worker, "temporal": temporal, "postgres": postgres, **more}.items()
    }
