"""Which of its checkpoints a durable session shows."""

from __future__ import annotations

import pytest

from perdure.runtime.shown_checkpoints import ShownCheckpoints
from perdure.uap.agent_stream import AgentStreamEvent, UAPEventType, of_step
from perdure.uap.session_checkpoints import Checkpoint
from perdure.uap.session_options import Interval
from perdure.uap.state import ExecutionState


def taken(run: str, step: int) -> Checkpoint:
    return Checkpoint(f"{run}{step}", "s", "2026-01-01T00:00:00.000Z", step, "n", ExecutionState(), {}, {"runId": run})


TAKEN = [taken("a", 1), taken("a", 2), taken("failed", 1), taken("b", 1)]


@pytest.mark.parametrize(
    ("interval", "shown"),
    [("step", ["a1", "a2", "failed1", "b1"]), ("turn", ["a2", "b1"]), (None, [])],
    ids=["step", "turn", "none"],
)
def test_the_interval_chooses(interval: Interval | None, shown: list[str]) -> None:
    """A run that failed has no turn."""
    chosen = ShownCheckpoints(interval).choose(TAKEN, lambda item: item.metadata["runId"] != "failed")
    assert [item.id for item in chosen] == shown


def event(kind: UAPEventType, step: int) -> AgentStreamEvent:
    return of_step(kind, "run", step, "agent", {})


@pytest.mark.parametrize(
    ("interval", "told", "rest"),
    [
        ("step", ["step_end", "checkpoint", "step_end", "checkpoint"], []),
        ("turn", ["step_end", "step_end"], [2]),
        (None, ["step_end", "step_end"], []),
    ],
    ids=["step", "turn", "none"],
)
def test_a_stream_tells_of_what_is_shown(interval: Interval | None, told: list[str], rest: list[int]) -> None:
    choice, given = ShownCheckpoints(interval).of_stream(), list[AgentStreamEvent]()
    for step in (1, 2):
        given += choice.choose([event(UAPEventType.STEP_END, step), event(UAPEventType.CHECKPOINT, step)])
    assert [str(item.uap.type) for item in given if item.uap] == told
    assert [item.uap.step for item in choice.rest() if item.uap] == rest
