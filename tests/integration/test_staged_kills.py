"""SIGKILL of the worker while an agent walks a workflow: no action is lost, none is taken into the state twice."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from perdure.store.waits import open_waits
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish
from tests.integration.test_staged import APP, COUNT, DESK, GO, add, script, submit, told

pytestmark = pytest.mark.asyncio(loop_scope="module")

POINTS = [
    "begin_run.stored",
    "generate.stored#2",
    "call_tool.ran#3",
    "stage_bodies.storing#5",
    "stage_bodies.stored#5",
    "call_tool.stored#2",
    "call_tool.reporting#4",
]
"""Before and after what a stage's call keeps, and what it says: in the middle of a batch, and between two."""


@pytest.mark.parametrize("point", POINTS)
async def test_every_action_counts_once(stack: Stack, tmp_path: Path, point: str) -> None:
    """Four additions are four in the state, each with one key, and the walk ends where it was led."""
    name = uuid.uuid4().hex
    mark = str(tmp_path / "crashed")
    first = WorkerProcess(stack, APP, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=mark).wait_ready()
    async with stack.connect() as sessions:
        walk = [[GO, add(name), add(name)], [add(name), add(name), COUNT, DESK], "?"]
        handle = await submit(sessions, *walk, name=name)
        async with first.replaced_when_dead():
            assert await finish(sessions, handle) == "completed"
            turn = await handle.result()
    assert told(turn) == [
        ["Successfully transitioned from 'shelf' to 'cart'.", "cart"],
        *([str(number), "cart"] for number in range(1, 5)),
        [json.dumps({"items": 4}, separators=(",", ":")), "cart"],
        ["Successfully transitioned from 'cart' to 'desk'.", "desk"],
    ]
    assert turn.response.text == "pay ship transition_stage terminate_session look"
    await check_session(stack, handle.session)
    ran = [entry["key"] for entry in stack.entries(name, "add")]
    assert len(set(ran)) == 4
    assert len(ran) <= 5, "an idempotent task is repeated with its key, once"


async def test_an_unknown_outcome_is_asked_for(stack: Stack, tmp_path: Path) -> None:
    """A `once` task that was cut off parks the run; what a person says is the task's result, and the walk goes on."""
    name = uuid.uuid4().hex
    crash = {"PERDURE_CRASH_AT": "call_tool.ran#4", "PERDURE_CRASH_ONCE": str(tmp_path / "crashed")}
    first = WorkerProcess(stack, APP, **crash).wait_ready()
    async with stack.connect() as sessions:
        handle = await sessions.submit(
            "buyer", script([GO, add(), DESK, ["ship", {"name": name}]], [GO], "?", name=name)
        )
        async with first.replaced_when_dead():
            (wait,) = await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
            await sessions.answer(wait.id, {"outcome": "happened", "result": "left at 9"}, by="test")
            turn = await handle.result()
    assert told(turn)[3:] == [
        ['"left at 9"', "desk"],
        ["Successfully transitioned from 'desk' to 'cart'.", "cart"],
    ]
    assert len(stack.entries(name, "ship")) == 1


async def test_a_redeploy_leaves_an_open_run_on_its_graph(stack: Stack) -> None:
    """A run goes on with the definition that it has frozen; the next one walks the graph that is deployed then."""
    name = uuid.uuid4().hex
    first = WorkerProcess(stack, APP).wait_ready()
    async with stack.connect() as sessions:
        walk = [[GO, add(name)], [DESK, ["pay", {"name": name}]], [["ship", {"name": name}], GO, COUNT], "?"]
        handle = await submit(sessions, *walk, name=name)
        (wait,) = await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
        first.kill()
        second = WorkerProcess(stack, APP, PERDURE_TEST_GRAPH="2").wait_ready()
        try:
            await sessions.answer(wait.id, {"decision": "approve"}, by="test")
            turn = await handle.result()
            next_one = await submit(sessions, "?", session=handle.session)
            shown = (await next_one.result()).response.text
        finally:
            second.kill()
    assert told(turn)[3:] == [
        ['"paid"', "desk"],
        ['"shipped"', "desk"],
        ["Successfully transitioned from 'desk' to 'cart'.", "cart"],
        "Error: task 'count' of stage 'cart' is not deployed any more",
    ]
    assert turn.response.text == "add count ask transition_stage terminate_session look"
    assert shown == "search transition_stage terminate_session look", "its stage is no more"
