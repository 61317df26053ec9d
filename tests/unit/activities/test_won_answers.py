"""Which calls are known to be begun by nobody else."""

from __future__ import annotations

import dataclasses
import time

import pytest

from perdure.activities.contracts import GenerateInput
from perdure.activities.won_answers import WonAnswers

CALL = GenerateInput(
    tenant="t",
    session="s",
    run="r",
    agent="a",
    node="n",
    start=0,
    position=3,
    epoch=0,
    step=2,
    message="m",
    results="x",
)


@pytest.mark.parametrize(("position", "known"), [(0, True), (1, True), (2, True), (3, False), (4, False), (-1, False)])
def test_what_comes_right_after_an_answer(position: int, known: bool) -> None:
    """Results and a prompt may stand between; the same answer again, or one further on, is another's."""
    won = WonAnswers()
    won.add("r", position)
    assert won.takes_up(CALL) is known
    assert not won.takes_up(CALL), "asked once"


def test_another_run_is_not_known() -> None:
    """Of a run whose last answer somebody else stored nothing is known."""
    won = WonAnswers()
    won.add("other", 1)
    assert not won.takes_up(CALL)
    assert won.takes_up(dataclasses.replace(CALL, run="other"))


def test_a_moment_later_somebody_else_may_have_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before a workflow task times out the store is asked again."""
    won = WonAnswers()
    won.add("r", 1)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3)
    assert not won.takes_up(CALL)


def test_only_so_many_runs_are_remembered() -> None:
    """The oldest is forgotten, and asked for."""
    won = WonAnswers()
    for number in range(2000):
        won.add(f"run-{number}", 1)
    assert not won.takes_up(dataclasses.replace(CALL, run="run-0"))
    assert won.takes_up(dataclasses.replace(CALL, run="run-1999"))
