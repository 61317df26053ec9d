"""The order of a comparison's rounds, what its windows hold, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.compare import rotated, window
from benchmarks.driver import Contestant
from benchmarks.processes import Sample, cores
from benchmarks.w1_w5 import ratios
from tests.unit.benchmarks.test_results import measurement

THREE = [Contestant(name, "a.module", Path("python"), {}) for name in ("a", "b", "c")]


def test_each_contestant_begins_in_turn_and_all_are_measured_in_each_round() -> None:
    orders = ["".join(one.name for one in rotated(THREE, number)) for number in range(4)]
    assert orders == ["abc", "bca", "cab", "abc"]


def test_a_window_holds_what_each_role_used_and_the_share_of_others() -> None:
    before = Sample({"worker": 100.0, "temporal": 50.0}, 1000.0)
    after = Sample({"worker": 400.0, "temporal": 150.0}, 1000.0 + 400.0 + 500.0 * cores())
    found = window(before, after, 2.0)
    assert found.cpu_ms == {"worker": 300.0, "temporal": 100.0}
    assert found.other_cpu == pytest.approx(0.25)


def test_the_ticks_of_a_quiet_machine_make_no_negative_share() -> None:
    assert window(Sample({"worker": 0.0}, 0.0), Sample({"worker": 20.0}, 10.0), 1.0).other_cpu == 0.0


def test_each_contestant_is_held_against_the_first_by_rounds() -> None:
    """Measurements come in turning orders; a round's are the pairs."""
    ours = [replace(measurement(), round=number, wall_ms=1.0) for number in range(3)]
    slow = [
        replace(one, contestant="floor", alone_ms=tuple(2 * ms for ms in one.alone_ms), cpu_ms={"worker": 16_400.0 / 4})
        for one in reversed(ours)
    ]
    said = ratios([ours[0], *slow, *ours[1:]])
    assert said[0] == "perdure: median 42.0 ms/step"
    assert said[1] == "perdure / floor: ms/step 0.50 [0.50, 0.50]  CPU/step 4.00 [4.00, 4.00]  3 pairs"
