"""Workers that die while they call middleware, and runs with middleware that go on over executions."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from perdure.errors import LimitExceeded
from tests.integration.facts import check_session, history_sizes
from tests.integration.stack import Stack, WorkerProcess, eventually

APP = "tests.integration.middleware_agents:app"


@pytest.mark.parametrize(
    ("point", "calls"),
    [("around.entered", 2), ("around.entry_storing", 2), ("around.entry_stored", 1), ("around.reporting", 1)],
)
async def test_a_view_is_made_once_if_it_was_stored(stack: Stack, tmp_path: Path, point: str, calls: int) -> None:
    """Who dies before it is stored calls `before` again; after that nobody does."""
    name = uuid.uuid4().hex
    first = WorkerProcess(stack, APP, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "crashed")).wait_ready()
    async with stack.connect() as sessions:
        handle = await sessions.submit("shelved", json.dumps({"name": name, "rounds": 1}))
        async with first.replaced_when_dead():
            turn = await handle.result()
    assert turn.response.text == "done after 1"
    assert len(stack.entries(name, "retrieved")) == calls
    views = [entry["before"] for entry in stack.entries(name, "model")]
    assert len(views) == 2
    assert all("found on the shelf" in view[0] for view in views)
    await check_session(stack, handle.session)


@pytest.mark.parametrize("point", ["around.left", "around.outcome_stored", "end_run.storing"])
async def test_what_came_of_a_run_is_stored_once(stack: Stack, tmp_path: Path, point: str) -> None:
    """The checked answer is told once, whoever died on the way."""
    name = uuid.uuid4().hex
    first = WorkerProcess(stack, APP, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "crashed")).wait_ready()
    async with stack.connect() as sessions:
        handle = await sessions.submit("sheltered", json.dumps({"name": name, "text": "Bob"}))
        async with first.replaced_when_dead():
            turn = await handle.result()
        rows = [event async for event in handle.events()]
    assert turn.response.text == "B."
    assert [row.data["delta"] for row in rows if row.type == "text_delta"] == [{"text": "B."}]
    await check_session(stack, handle.session)


@pytest.mark.parametrize("point", ["generate.bought#2", "generate.stored#2", "around.told#2"])
async def test_a_budget_counts_no_step_twice(stack: Stack, tmp_path: Path, point: str) -> None:
    name = uuid.uuid4().hex
    first = WorkerProcess(stack, APP, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "crashed")).wait_ready()
    async with stack.connect() as sessions:
        handle = await sessions.submit("by_tokens", json.dumps({"name": name, "rounds": 9}))
        async with first.replaced_when_dead():
            with pytest.raises(LimitExceeded, match="took 45 tokens, its budget is 40"):
                await handle.result()
    assert {entry["number"] for entry in stack.entries(name, "model")} == {0, 1, 2}
    await check_session(stack, handle.session)


async def test_a_run_with_middleware_goes_on_over_executions(stack: Stack) -> None:
    """What was spent, the metadata, another input and the order of hooks are those of one execution."""
    name = uuid.uuid4().hex
    worker = WorkerProcess(stack, APP, PERDURE_CONTINUE_AS_NEW_EVENTS="100").wait_ready()
    try:
        async with stack.connect() as sessions:
            said = json.dumps({"name": name, "rounds": 9, "who": "Alice", "text": "Bob"})
            handle = await sessions.submit("guarded", said)
            turn = await handle.result()

            async def listed() -> bool:
                return len(await history_sizes(sessions, handle.session)) >= 3

            await eventually(listed, what="three executions listed")
    finally:
        worker.kill()
    assert turn.response.text == "B."
    assert len(turn.messages) == 2 + 2 * 9
    assert {entry["input"] for entry in stack.entries(name, "model")} == {said.replace("Alice", "A.")}
    told = stack.entries(name, "around")
    kinds = ["step_start", "action", "observation", "step_end"]
    expected = [f"z.{kind}" for kind in kinds] * 9 + ["z.step_start", "z.step_end"]
    assert [entry["hook"] for entry in told] == ["z.before", *expected, "z.after"]
    assert [entry["spent"] for entry in told if entry["hook"] == "z.step_end"] == [
        [15 * step, step] for step in range(1, 11)
    ]
    assert len(told[-1]["metadata"]["z_seen"]) == len(expected)
    await check_session(stack, handle.session)
