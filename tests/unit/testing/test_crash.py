"""Crash points: named after where they are, and counted."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.testing.crash import CRASH_POINTS, crash_point

ROOT = Path(__file__).parents[3]


def passings(points: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """A process that passes these points and says so after each."""
    code = "import sys; from perdure.testing.crash import crash_point\n" + "".join(
        f"crash_point({point!r}); print({point!r}, flush=True)\n" for point in points
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_without_the_variable_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a production worker passes."""
    monkeypatch.delenv("PERDURE_CRASH_AT", raising=False)
    for point in CRASH_POINTS:
        crash_point(point)


@pytest.mark.parametrize(("wanted", "passed"), [("a", 0), ("a#1", 0), ("a#2", 2), ("a#3", 3), ("b", 1)])
def test_a_process_dies_at_the_passing_that_was_asked_for(wanted: str, passed: int) -> None:
    """By SIGKILL: nothing is flushed, nothing is said to the server."""
    ended = passings(["a", "b", "a", "a"], PERDURE_CRASH_AT=wanted)
    assert ended.returncode == -signal.SIGKILL
    assert len(ended.stdout.splitlines()) == passed


@pytest.mark.parametrize("wanted", ["c", "a#4", "", "A", "aa"])
def test_other_points_are_passed(wanted: str) -> None:
    """A name that is not passed, or not so often, kills nobody."""
    ended = passings(["a", "b", "a", "a"], PERDURE_CRASH_AT=wanted)
    assert ended.returncode == 0
    assert ended.stdout.split() == ["a", "b", "a", "a"]


def test_one_of_all_processes_dies(tmp_path: Path) -> None:
    """Who creates the mark dies; the next passes."""
    mark = tmp_path / "mark"
    first, second = (passings(["a"], PERDURE_CRASH_AT="a", PERDURE_CRASH_ONCE=str(mark)) for _ in range(2))
    assert (first.returncode, second.returncode) == (-signal.SIGKILL, 0)
    assert mark.exists()


def test_every_point_of_the_code_is_listed_and_passed_once_there() -> None:
    """A test kills at each that is listed; a name that is nowhere would prove nothing."""
    named: list[str] = []
    for path in (ROOT / "perdure").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "crash_point":
                (argument,) = node.args
                assert isinstance(argument, ast.Constant), f"{path}: a name that is computed cannot be listed"
                named.append(str(argument.value))
    assert sorted(named) == sorted(CRASH_POINTS)
