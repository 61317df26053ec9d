"""Result files are read back as they were written, and what is no result is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measure import WORKER_AND_TEMPORAL, Measurement
from benchmarks.processes import Memory
from benchmarks.results import FOLDER, Machine, Result, Stamp, append, read, read_file

MACHINE = Machine("a processor", 2, 24 * 2**30, "Linux 6.1", "3.12.1")
STAMP = Stamp("2026-11-29T12:00:00+00:00", "0123456789ab", MACHINE)
LATER = Stamp("2026-11-30T12:00:00+00:00", "0123456789ab", MACHINE)
VERSIONS = {"perdure": {"temporalio": "1.35.0"}}


def measurement(
    *, alone_ms: tuple[float, ...] = (400.0, 420.0, 500.0), work: str = "W1", steps_alone: int = 10
) -> Measurement:
    return Measurement(
        contestant="perdure", work=work, round=0, runs=40, at_once=20, steps=400, alone_ms=alone_ms,
        steps_alone=steps_alone, wall_ms=8000.0,
        cpu_ms={"worker": 6000.0, "driver": 400.0, "temporal": 8000.0, "postgres": 2000.0}, other_cpu=0.1,
        history_bytes=26_000.0, events=131.0, stored_bytes=14_000.0, memory={"worker": Memory(90, 120)},
    )  # fmt: skip


def result(stamp: Stamp = STAMP, kind: str = "pairs", *, smoke: bool = False) -> Result:
    return stamp.result(
        kind, versions=VERSIONS, settings={"rounds": 1}, measurements=[measurement()], rows=[{"value": 1}], smoke=smoke
    )


def test_results_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    file = append(result(), tmp_path)
    append(result(LATER), tmp_path)
    assert file == tmp_path / "pairs.jsonl"
    assert read_file(file) == read(tmp_path) == read(tmp_path, "pairs") == [result(), result(LATER)]


def test_results_of_all_files_come_in_the_order_of_their_dates(tmp_path: Path) -> None:
    append(result(LATER, "w6"), tmp_path)
    append(result(STAMP, "w7"), tmp_path)
    assert [one.kind for one in read(tmp_path)] == ["w7", "w6"]
    assert [one.kind for one in read(tmp_path, "w6")] == ["w6"]


def test_smoke_runs_are_kept_apart(tmp_path: Path) -> None:
    file = append(result(smoke=True), tmp_path)
    assert read(tmp_path) == []
    assert read_file(file) == [result(smoke=True)]


@pytest.mark.parametrize("line", ["{", "{}", '{"kind": "pairs"}', "[]"])
def test_a_line_that_is_no_result_is_named(tmp_path: Path, line: str) -> None:
    file = append(result(), tmp_path)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(line + "\n")
    with pytest.raises(ValueError, match=r"pairs\.jsonl:2 is no result"):
        read(tmp_path)


def test_the_results_of_the_repository_can_be_read() -> None:
    for one in read(FOLDER):
        assert one.machine.cores > 0


def test_figures_per_step_are_made_of_what_was_measured() -> None:
    one = measurement()
    assert one.ms_per_step == 42.0
    assert one.cpu_ms_per_step == {"worker": 15.0, "driver": 1.0, "temporal": 20.0, "postgres": 5.0}
    assert one.cpu_per_step() == 41.0
    assert one.cpu_per_step(WORKER_AND_TEMPORAL) == 35.0
    assert one.steps_per_second == 50.0
    assert one.all_stored_bytes == 40_000.0


def test_a_sessions_last_turns_are_held_against_its_first() -> None:
    turns = tuple([80.0] * 20 + [500.0] * 160 + [88.0] * 20)
    one = measurement(alone_ms=turns, work="W5", steps_alone=1)
    assert one.last_over_first() == pytest.approx(1.1)
