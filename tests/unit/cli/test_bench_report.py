"""The figures of `perdure bench` are arithmetic of its runs, and CPU time is that of a process and what it started."""

from __future__ import annotations

import os
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest

from perdure.cli.bench_report import Bench, show, spread
from perdure.cli.process_times import ProcessTime, read_times
from perdure.errors import InvalidInput
from perdure.runtime.bench import BenchPlan, BenchRun
from perdure.runtime.bench_costs import BenchCosts

PLAN = BenchPlan("coder", "Fix it.", runs=3, at_once=2, session=None, limit_s=600)
COSTS = BenchCosts(
    steps=10, model_calls=11, tool_calls=7, input_tokens=3000, output_tokens=90, cost=Decimal("0.06"),
    history_events=120, history_bytes=24_000, stored_bytes=35_000,
)  # fmt: skip
RUNS = [
    BenchRun("r1", "s1", "completed", steps=4, latency_ms=400.0, first_step_ms=20.0),
    BenchRun("r2", "s2", "completed", steps=4, latency_ms=800.0, first_step_ms=40.0),
    BenchRun("r3", "s3", "failed", 2, 99.0, None, {"type": "ModelError", "message": "no"}),
]


def figures(**values: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"plan": PLAN, "runs": RUNS, "wall_s": 2.0, "costs": COSTS}
    return dict(Bench(**(given | values)).to_json())


def test_times_are_of_runs_that_completed() -> None:
    """Latency by steps, and runs by the whole time; what failed is named and does not count."""
    found = figures()
    assert found["ms_per_step"] == {"median": 150.0, "p95": 200.0}
    assert found["ms_to_first_step"] == {"median": 30.0, "p95": 40.0}
    assert (found["runs"], found["completed"], found["runs_per_second"]) == (3, 2, 1.0)
    error = {"type": "ModelError", "message": "no"}
    assert found["failed"] == [{"run": "r3", "session": "s3", "status": "failed", "error": error}]


def test_counts_are_means_over_all_runs() -> None:
    """What was used is shared among all runs and all steps, also of those that failed."""
    found = figures(cpu=[ProcessTime(7, "perdure", 55.0)])
    assert found["per_run"] == {
        "steps": 3.33, "model_calls": 3.67, "tool_calls": 2.33, "input_tokens": 1000.0, "output_tokens": 30.0,
        "cost": "0.020000",
    }  # fmt: skip
    assert found["per_step"] == {"history_events": 12.0, "history_bytes": 2400.0, "stored_bytes": 3500.0}
    assert found["cpu_ms_per_step"] == [{"pid": 7, "name": "perdure", "ms": 5.5}]


def test_nothing_is_made_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no run completed, no step was taken and no price is known there are no figures, and the table shows dashes."""
    nothing = BenchCosts(0, 0, 0, 0, 0, None, 0, 0, 0)
    found = figures(runs=RUNS[2:], costs=nothing)
    assert (found["ms_per_step"], found["ms_to_first_step"], found["per_step"]["history_bytes"]) == (None, None, None)
    assert found["per_run"]["cost"] is None
    show(Bench(PLAN, RUNS[2:], 1.0, nothing))
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("ms per step")).split()[-2:] == ["-", "-"]
    assert not any("cost" in line for line in lines)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], None),
        ([3.0], {"median": 3.0, "p95": 3.0}),
        ([float(n) for n in range(1, 101)], {"median": 50.5, "p95": 95.0}),
        ([float(n) for n in range(20, 0, -1)], {"median": 10.5, "p95": 19.0}),
    ],
)
def test_p95_is_a_value_that_was_measured(values: list[float], found: object) -> None:
    assert spread(values) == found


BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
child = subprocess.Popen([sys.executable, "-c", {BURN + "print(flush=True); input()"!r}], stdin=subprocess.PIPE)
input()
child.communicate(b"\\n")
"""


def test_cpu_time_is_also_of_what_a_process_has_started() -> None:
    """A child that has ended and one that runs count for their parent."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()  # the second child has used its time
        [used] = read_times([parent.pid])
        parent.communicate(b"\n")
    assert used.pid == parent.pid
    assert used.name.startswith("python")
    assert used.cpu_ms >= 500, "600, of which the system counts whole hundredths of a second"


def test_a_process_that_is_not_there_is_refused() -> None:
    """None of the others are shown in its place."""
    assert [used.pid for used in read_times([os.getpid(), 1])] == [os.getpid(), 1]
    with pytest.raises(InvalidInput, match="--pid 999999999: there is no such process"):
        read_times([os.getpid(), 999_999_999])
    assert read_times([]) == []
