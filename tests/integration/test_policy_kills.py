"""Input policies when workers die in between: every input takes effect once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.runtime.run_handle import RunHandle
from perdure.runtime.session_document import session_json_bytes
from perdure.runtime.sessions import Sessions
from perdure.store.tables import checkpoints, runs, tool_calls
from tests.integration.agents import HELD
from tests.integration.facts import check_session
from tests.integration.rebuilt_sessions import rebuild, wipe
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_kills import finish, spec, submit
from tests.integration.test_policies import busy, check_rolled_back, roll_back, until, users

ENDLESS = 4000
"""Steps of a run that goes on until the next input joins it, however late that comes."""


@pytest.mark.parametrize("point", ["roll_back.storing", "roll_back.stored"])
async def test_a_worker_dies_while_it_rolls_back(stack: Stack, tmp_path: Path, point: str) -> None:
    """There is one branch all the same."""
    first = WorkerProcess(stack, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")).wait_ready()
    async with stack.connect() as sessions:
        before = await submit(sessions, spec(steps=0))
        await before.result()
        values = spec(steps=2, tool="none", seconds=HELD)
        active = await submit(sessions, values, session=before.session)
        await until(stack, values, "tool")
        pending = asyncio.create_task(roll_back(sessions, active))
        await asyncio.to_thread(first.wait_dead)
        second = WorkerProcess(stack).wait_ready()
        try:
            await check_rolled_back(sessions, before, active, await pending)
        finally:
            second.kill()


@pytest.mark.parametrize("point", ["take_steers.storing", "take_steers.stored", "generate.stored#2"])
async def test_a_worker_dies_while_an_input_joins(stack: Stack, tmp_path: Path, point: str) -> None:
    """It has joined once all the same, and the model is asked over it."""
    first = WorkerProcess(stack, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")).wait_ready()
    async with stack.connect() as sessions:
        active, values = await busy(stack, sessions, steps=5)
        handle = await submit(sessions, spec(steps=0, text="steered"), session=active.session, policy="steer")
        stack.release(values)
        await asyncio.to_thread(first.wait_dead)
        second = WorkerProcess(stack).wait_ready()
        try:
            assert await finish(sessions, active) == "completed"
        finally:
            second.kill()
        assert (await handle.result()).response.text == "steered"
    facts = await check_session(stack, active.session, values["name"], storing_s=0.5)
    assert users(facts) == [active.id, active.id]


async def test_a_steered_run_continues_as_new_and_can_be_rebuilt(stack: Stack) -> None:
    """Over several executions each input joins once; a rebuild from histories changes nothing."""
    process = WorkerProcess(stack, PERDURE_CONTINUE_AS_NEW_EVENTS="100").wait_ready()
    try:
        async with stack.connect() as sessions:
            active, _ = await busy(stack, sessions, steps=ENDLESS, calls=2, seconds=0.2)
            for steps in (ENDLESS, ENDLESS, ENDLESS, 8):
                steered = spec(steps=steps, tool="none", calls=2, seconds=0.05)
                handle = await submit(sessions, steered, session=active.session, policy="steer")
                await until(stack, steered, "model", 4)
                assert (await handle.status()).id == active.id
            assert await finish(sessions, active) == "completed"
            await check_rebuilt(sessions, active)
    finally:
        process.kill()
    facts = await check_session(stack, active.session)
    assert users(facts) == [active.id] * 5


async def check_rebuilt(sessions: Sessions, active: RunHandle) -> None:
    """The session's document is made again from the histories, to the byte."""
    key = active.accepted.key
    await sessions.client.get_workflow_handle(key.workflow_id).result()
    before = await session_json_bytes(sessions.database, key)
    await wipe(sessions.database, key, checkpoints, runs, tool_calls)
    await rebuild(sessions, key)
    assert await session_json_bytes(sessions.database, key) == before
