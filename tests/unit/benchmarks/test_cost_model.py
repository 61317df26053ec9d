"""The model of cost is arithmetic of measured figures."""

from __future__ import annotations

import pytest

from benchmarks import report
from benchmarks.cost_model import Load, StepCost, bill, measured_cost, shards
from tests.unit.benchmarks.measured import cpu, result, rounds

COST = StepCost(
    cpu_ms={"worker": 6.0, "driver": 0.3, "temporal": 12.0, "postgres": 1.5},
    history_bytes=2000.0,
    stored_bytes=5000.0,
    steps_per_second=50.0,
    worker_bytes=100e6,
)


def test_cores_are_time_times_rate() -> None:
    """6 ms of each of 10,000 steps a second are 60 cores, 100 at 60 % each."""
    need = bill(COST, Load())
    assert (need.worker_processes, need.temporal_cores, need.postgres_cores) == (100, 200, 25)
    assert need.worker_gb == pytest.approx(10.0)
    assert need.api_processes == 5
    assert need.connections == 21 * 105


def test_bytes_are_size_times_rate() -> None:
    """5,000 bytes of each of 10,000 steps a second are 4,320 GB a day."""
    need = bill(COST, Load(steps_per_session=20, retention_days=30))
    assert need.rows_gb_per_day == pytest.approx(4320)
    assert need.kept_gb == pytest.approx(100)
    assert need.history_gb_per_day == pytest.approx(1728)
    assert need.history_kept_gb == pytest.approx(51_840)


def test_runs_in_flight_are_rate_times_duration() -> None:
    """Little's law."""
    assert bill(COST, Load(step_s=5.0)).active_runs == 50_000


def test_shards_are_a_power_of_two() -> None:
    """As many as carry the rate, rounded up."""
    assert bill(COST, Load()).shards == 512  # 10,000 / 50 / 0.6 = 333
    assert [shards(least) for least in (0.1, 1, 1.1, 2, 3, 256, 257)] == [1, 1, 2, 2, 4, 256, 512]


def test_twice_the_rate_is_twice_the_cores() -> None:
    one, two = bill(COST, Load(steps_per_second=6000)), bill(COST, Load(steps_per_second=12_000))
    assert (two.worker_processes, two.temporal_cores) == (2 * one.worker_processes, 2 * one.temporal_cores)
    assert two.kept_gb == one.kept_gb


def test_an_api_process_counts_where_one_took_part() -> None:
    """Else what handed the inputs in and followed the runs stands for it."""
    with_api = StepCost({**COST.cpu_ms, "api": 1.2}, 2000.0, 5000.0, 50.0, 0.0)
    assert (with_api.front_ms, COST.front_ms) == (1.2, 0.3)


def test_the_cost_of_a_step_is_what_was_measured() -> None:
    """The median over rounds of what 40 runs of 10 steps took, for one step."""
    measured = [*rounds("perdure", 2, cpu_ms=cpu(4, 2)), *rounds("perdure", 1, cpu_ms=cpu(100, 80))]
    cost = measured_cost(measured)
    assert (cost.cpu_ms["worker"], cost.cpu_ms["temporal"]) == (4.0, 2.0)
    assert (cost.history_bytes, cost.stored_bytes, cost.steps_per_second) == (2000.0, 3000.0, 50.0)
    assert cost.worker_bytes == 100_000_000
    with pytest.raises(ValueError, match="nothing was measured"):
        measured_cost([])


def test_the_page_shows_the_arithmetic() -> None:
    """Each line has what it is the product of."""
    made = report.cost_model([result(rounds("perdure"))])
    assert "| Worker processes, one core each | 5.00 ms x 10,000 steps/s / 60% of a core | 84 |" in made
    assert "| Rows, GB a day | 3,000 B x 10,000 steps/s | 2,592 |" in made
    assert "1,000,000 sessions" in made
    assert "Assumed: 10,000 steps/s over all runs, 5 s a step" in made
    assert made.endswith("Measured: by W1 of 2026-11-29, revision abcdef123456.")
