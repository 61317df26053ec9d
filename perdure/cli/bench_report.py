"""The figures of a benchmark: made of its runs, and shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, cast

from perdure.cli.output import put_fields, put_table
from perdure.cli.process_times import ProcessTime
from perdure.runtime.bench import BenchPlan, BenchRun
from perdure.runtime.bench_costs import BenchCosts
from perdure.upp.json_value import JSONObject

_TIMES = (("ms_per_step", "ms per step"), ("ms_to_first_step", "ms to the first step"), ("ms_per_run", "ms per run"))
_PER_RUN = (
    ("steps", "steps"), ("model_calls", "model calls"), ("tool_calls", "tool calls"), ("input_tokens", "input tokens"),
    ("output_tokens", "output tokens"), ("cost", "cost"),
)  # fmt: skip
_PER_STEP = (("history_events", "history events"), ("history_bytes", "history bytes"), ("stored_bytes", "stored bytes"))


@dataclass(frozen=True, slots=True)
class Bench:
    """A benchmark that is over.

    Attributes:
        plan: what was asked for.
        runs: in the order of their ends.
        wall_s: seconds from the first input to the last end.
        costs: of all runs.
        cpu: of the processes that were named, what they used meanwhile.
    """

    plan: BenchPlan
    runs: Sequence[BenchRun]
    wall_s: float
    costs: BenchCosts
    cpu: Sequence[ProcessTime] = ()

    @property
    def failed(self) -> list[BenchRun]:
        """Runs that did not complete."""
        return [run for run in self.runs if run.status != "completed"]

    def to_json(self) -> JSONObject:
        """All figures. Times are of runs that completed; counts are means over all runs; None where there was nothing."""
        done = [run for run in self.runs if run.status == "completed"]
        costs, steps = self.costs, self.costs.steps
        totals = {"steps": steps, "model_calls": costs.model_calls, "tool_calls": costs.tool_calls}
        totals |= {"input_tokens": costs.input_tokens, "output_tokens": costs.output_tokens}
        cost = None if costs.cost is None else format(costs.cost / len(self.runs), ".6f")
        kept = {"history_events": costs.history_events, "history_bytes": costs.history_bytes}
        kept |= {"stored_bytes": costs.stored_bytes}
        return {
            "agent": self.plan.agent,
            "runs": len(self.runs),
            "at_once": self.plan.at_once,
            "completed": len(done),
            "failed": [_failed_json(run) for run in self.failed],
            "wall_ms": round(self.wall_s * 1000, 1),
            "runs_per_second": round(len(done) / self.wall_s, 3),
            "ms_per_step": spread([run.latency_ms / run.steps for run in done if run.steps]),
            "ms_to_first_step": spread([run.first_step_ms for run in done if run.first_step_ms is not None]),
            "ms_per_run": spread([run.latency_ms for run in done]),
            "per_run": {**{name: _mean(total, len(self.runs)) for name, total in totals.items()}, "cost": cost},
            "per_step": {name: _mean(total, steps) for name, total in kept.items()},
            "cpu_ms_per_step": [
                {"pid": used.pid, "name": used.name, "ms": _mean(used.cpu_ms, steps)} for used in self.cpu
            ],
        }


def spread(values: Sequence[float]) -> JSONObject | None:
    """Median and the value that 95 of 100 do not exceed, which is one of them; None of none."""
    if not values:
        return None
    high = sorted(values)[math.ceil(0.95 * len(values)) - 1]
    return {"median": round(median(values), 2), "p95": round(high, 2)}


def show(bench: Bench) -> None:
    """Write the figures as tables."""
    figures = cast("dict[str, Any]", bench.to_json())
    put_table(
        ("", "median", "p95"),
        [(label, *figures[name].values()) if figures[name] else (label, "-", "-") for name, label in _TIMES],
    )
    rows: list[tuple[str, object]] = [("runs per second", figures["runs_per_second"])]
    rows += [(f"{label} per run", figures["per_run"][name]) for name, label in _PER_RUN]
    rows += [(f"{label} per step", figures["per_step"][name]) for name, label in _PER_STEP]
    rows += [(f"CPU ms per step, {used['name']} ({used['pid']})", used["ms"]) for used in figures["cpu_ms_per_step"]]
    put_fields(rows)


def _failed_json(run: BenchRun) -> JSONObject:
    return {"run": run.id, "session": run.session, "status": run.status, "error": run.error}


def _mean(total: float, count: int) -> float | None:
    return round(total / count, 2) if count else None
