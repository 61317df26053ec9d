"""UAIP's 48 conformance checks, by number in the reference; they are in the files `test_uaip_*.py` beside this one.

They are made over HTTP against a running server: ours, or the one that `PERDURE_UAIP_URL` names (see `conftest.py`).
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.conformance.uaip_checks import COUNT, read_checks
from tests.conformance.uaip_results import Recorder, Result, Results, read_recorded
from tests.conformance.uaip_table import OURS, PAGE, REFERENCE, render
from tests.mutations import read_mutations


def test_every_number_is_there_once() -> None:
    assert sorted(check.number for check in read_checks()) == list(range(1, COUNT + 1))


def test_every_check_says_what_it_asks_for() -> None:
    """In a sentence."""
    assert [check.test for check in read_checks() if not check.asks.endswith(".")] == []


def test_one_check_in_five_has_a_break() -> None:
    """Which it must notice: `make soak` looks."""
    broken = {mutation.test.removeprefix("tests/conformance/").partition("[")[0] for mutation in read_mutations()}
    assert 5 * len([check for check in read_checks() if check.test in broken]) >= COUNT


def test_the_docs_say_what_came_of_the_checks() -> None:
    """Of both servers, as their last runs wrote it down: `python -m tests.conformance.uaip_reference` makes both anew."""
    assert PAGE.read_text(encoding="utf-8") == render(Results.read(OURS), Results.read(REFERENCE))


@pytest.mark.parametrize("path", [OURS, REFERENCE], ids=["ours", "reference"])
def test_results_are_of_all_checks(path: Path) -> None:
    """And a check that was not made has a reason, one that failed what was seen instead."""
    checks = Results.read(path).checks
    assert list(checks) == list(range(1, COUNT + 1))
    assert [number for number, result in checks.items() if (result.outcome == "pass") == bool(result.seen)] == []


def test_all_checks_pass_here() -> None:
    assert {result.outcome for result in Results.read(OURS).checks.values()} == {"pass"}


def test_a_result_is_the_worst_of_its_cases(tmp_path: Path) -> None:
    """One that failed says what was seen first, without what would be another's in the next run."""
    recorder = Recorder(tmp_path / "results", {3: "no room"})
    said = f"AssertionError: 404 {uuid.uuid4()}\nassert 404 == 200"
    for name, message in [("01_x[1]", None), ("01_x[2]", said), ("01_x[3]", "another"), ("02_x", None), ("y", "")]:
        test = f"tests/x.py::test_check_{name}"
        outcome = "passed" if message is None else "failed"
        recorder.pytest_runtest_logreport(pytest.TestReport(test, ("x", 0, "x"), {}, outcome, message, "call"))
    recorder.pytest_sessionfinish()
    results = read_recorded(tmp_path / "results")
    assert results[1] == Result("fail", "404 <id>")
    assert results[2] == Result("pass")
    assert results[3] == Result("not applicable", "no room")
    assert results[4] == Result("fail", "was not made")
