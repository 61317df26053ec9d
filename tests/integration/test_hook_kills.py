"""Workers that die while an agent with hooks reasons and acts."""

from __future__ import annotations

import itertools
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from perdure.runtime.session_document import session_document
from perdure.uap.session_key import SessionKey
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_hooks import LAST, STEP

APP = "tests.integration.hooked_agents:app"
POINTS = [
    "generate.stored#1",  # reasoning, stored with its prompt
    "generate.storing#2",  # an action
    "call_user.called#5",  # on_step_end
    "end_run.storing",
]


def in_order(seen: list[tuple[str, int]]) -> list[str]:
    """The hooks without the repetitions that a death makes."""
    return [hook for (hook, _), _ in itertools.groupby(seen)]


@pytest.mark.parametrize("point", POINTS)
async def test_a_death_changes_nothing_but_that_a_hook_may_come_twice(stack: Stack, tmp_path: Path, point: str) -> None:
    """The turn, the thread, the reasoning and the metadata are those of an undisturbed run."""
    name = uuid.uuid4().hex
    first = WorkerProcess(stack, APP, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "crashed")).wait_ready()
    async with stack.connect() as sessions:
        handle = await sessions.submit("thinker", json.dumps({"name": name, "rounds": 1}))
        async with first.replaced_when_dead():
            turn = await handle.result()
        document: Any = await session_document(sessions.database, SessionKey(sessions.tenant, handle.session))
    assert [message.type for message in turn.messages] == ["user", "assistant", "tool_result", "assistant"]
    seen = [(entry["hook"], entry["step"]) for entry in stack.entries(name, "hook")]
    assert in_order(seen) == [*STEP, *LAST, "on_complete"]
    assert len(seen) <= len([*STEP, *LAST, "on_complete"]) + 1
    bought = [entry["number"] for entry in stack.entries(name, "model")]
    assert sorted(set(bought)) == [0, 1, 2, 3]
    assert len(bought) <= 5
    states = [checkpoint["state"] for checkpoint in document["checkpoints"]]
    assert [(len(state["reasoning"]), state["metadata"]["last"]) for state in states] == [(1, 1), (2, 2)]
    assert states[-1]["metadata"]["seen"] == ["start 1", "start 2"]
    await check_session(stack, handle.session)


async def test_a_long_reasoning_run_goes_on_over_executions(stack: Stack) -> None:
    """Continued as new between steps, with its reasoning, its metadata and its stop condition."""
    name = uuid.uuid4().hex
    worker = WorkerProcess(stack, APP, PERDURE_CONTINUE_AS_NEW_EVENTS="150").wait_ready()
    try:
        async with stack.connect() as sessions:
            handle = await sessions.submit("thinker", json.dumps({"name": name, "rounds": 19, "stop": 9}))
            turn = await handle.result()
            document: Any = await session_document(sessions.database, SessionKey(sessions.tenant, handle.session))
    finally:
        worker.kill()
    assert len(turn.messages) == 1 + 2 * 9
    assert [len(item["state"]["reasoning"]) for item in document["checkpoints"]] == list(range(1, 10))
    lengths = [entry["metadata"]["seen"] for entry in stack.entries(name, "hook") if entry["hook"] == "on_step_start"]
    assert lengths[-1] == [f"start {step}" for step in range(1, 10)]
    await check_session(stack, handle.session)
