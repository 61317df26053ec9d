"""Workers that die in the middle of a strategy of a user's own; executions that are lost."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from perdure.activities.contracts import SANDBOXED_SESSION, WAKE, SessionInput
from perdure.uap.session_key import SessionKey
from tests.integration.custom_strategies import LONG
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_custom_strategies import APP, texts

POINTS = ["generate.stored#3", "call_tool.stored#2", "call_user.called#2", "keep_turn.begun", "keep_turn.stored"]


@pytest.mark.parametrize("point", POINTS)
async def test_a_death_changes_nothing(stack: Stack, tmp_path: Path, point: str) -> None:
    """Nothing is bought twice; the turn is that of an undisturbed run."""
    name = uuid.uuid4().hex
    first = WorkerProcess(stack, APP, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "crashed")).wait_ready()
    async with stack.connect() as sessions:
        agent = "debate" if point.startswith("keep") else "steps"
        handle = await sessions.submit(agent, json.dumps({"name": name}))
        async with first.replaced_when_dead():
            turn = await handle.result()
    said = [text for _, text in texts(turn)]
    if agent == "debate":
        assert said == [json.dumps({"name": name}), "judge", f"answer to 'judge' {LONG}"]
        assert len(stack.entries(name, "model")) == 5
    else:
        assert [text for text in said if text.startswith("go on")] == ["go on 2", "go on 3"]
        assert len(stack.entries(name, "model")) == 6
        assert sorted({entry["key"] for entry in stack.entries(name, "tool")}) == [
            f"{step}.{place}" for step in (1, 2, 3) for place in (0, 1)
        ]
    await check_session(stack, handle.session, gaps=True)


async def test_a_lost_execution_is_begun_again_and_buys_nothing_twice(stack: Stack, tmp_path: Path) -> None:
    """The next one carries the strategy out from the beginning and finds what was stored."""
    name = uuid.uuid4().hex
    crash = {"PERDURE_CRASH_AT": "generate.stored#3", "PERDURE_CRASH_ONCE": str(tmp_path / "crashed")}
    first = WorkerProcess(stack, APP, **crash).wait_ready()
    async with stack.connect() as sessions:
        handle = await sessions.submit("debate", json.dumps({"name": name}))
        async with first.replaced_when_dead():
            workflow = sessions.client.get_workflow_handle(SessionKey(sessions.tenant, handle.session).workflow_id)
            await workflow.terminate("a test")
            await sessions.client.start_workflow(
                SANDBOXED_SESSION,
                SessionInput(sessions.tenant, handle.session, "debate"),
                id=workflow.id,
                task_queue="perdure",
                start_signal=WAKE,
            )
            turn = await handle.result()
    assert [text for _, text in texts(turn)] == [json.dumps({"name": name}), "judge", f"answer to 'judge' {LONG}"]
    bought = [entry["last"] for entry in stack.entries(name, "model")]
    assert len(bought) - len(set(bought)) <= 2  # what was being asked when the execution was ended
    assert {"argue for 1", "argue against 1"} <= set(bought)
    await check_session(stack, handle.session, gaps=True)
