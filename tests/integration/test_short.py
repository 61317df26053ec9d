"""Tools and models declared `short`: local activities of the run, cheap, and cancelled and limited as regular ones are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from perdure.runtime.temporal import is_open
from perdure.uap.session_key import SessionKey
from perdure.upp.messages import ToolResultMessage
from tests.integration.agents import HELD
from tests.integration.facts import check_session, count_activities
from tests.integration.rebuilt_sessions import INDEX, rebuild, take_snapshot, wipe
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit
from tests.scale import scaled

APP = "tests.integration.short_agents:app"


@pytest.fixture(scope="module")
def short_worker(stack: Stack) -> Iterator[WorkerProcess]:
    """One that no test kills."""
    process = WorkerProcess(stack, APP).wait_ready()
    yield process
    process.kill()


async def test_short_calls_are_no_regular_activities(stack: Stack, short_worker: WorkerProcess) -> None:
    """A run of short calls schedules nothing at the server; a model that is not short is a regular activity beside them."""
    async with stack.connect() as sessions:
        values = spec(steps=3, calls=2, tool="none")
        handle = await submit(sessions, values)
        assert await finish(sessions, handle) == "completed"
        assert await count_activities(sessions, handle.session) == {}
        mixed = spec(steps=3, calls=2, tool="none")
        other = await sessions.submit("halfway", json.dumps(mixed))
        assert await finish(sessions, other) == "completed"
        assert await count_activities(sessions, other.session) == {"perdure.generate": 4}
    for one, given in ((handle, values), (other, mixed)):
        facts = await check_session(stack, one.session, given["name"])
        assert len(facts.messages) == 8
        assert len(stack.entries(given["name"], "tool")) == 6


@pytest.mark.parametrize("agent", ["worker", "halfway"])
@pytest.mark.parametrize("kind", ["model", "tool"])
async def test_a_short_call_is_cancelled(stack: Stack, short_worker: WorkerProcess, kind: str, agent: str) -> None:
    """A cancel reaches it although the run waits for it; what came of it is stored."""
    values = spec(steps=1, tool="none", **{"latency" if kind == "model" else "seconds": HELD})
    async with stack.connect() as sessions:
        handle = await sessions.submit(agent, json.dumps(values))
        await stack.until_entries(values["name"], kind)
        await sessions.cancel(handle.session)
        assert await finish(sessions, handle) == "cancelled"
        later = await sessions.submit(agent, json.dumps(spec(steps=1, tool="none")), session=handle.session)
        assert await finish(sessions, later) == "completed"
    await check_session(stack, handle.session, values["name"])


async def test_a_pause_during_a_model_call_holds_the_short_tool_after_it(
    stack: Stack, short_worker: WorkerProcess
) -> None:
    """Once the session says that it is paused nothing begins, neither with the answer nor after it."""
    values = spec(steps=1, calls=2, tool="at_most_once", latency=HELD)
    async with stack.connect() as sessions:
        handle = await sessions.submit("halfway", json.dumps(values))
        await stack.until_entries(values["name"], "model")
        assert (await sessions.pause(handle.session)).state == "paused"
        stack.release(values)

        async def is_parked() -> bool:
            return (await handle.status()).status == "parked"

        await eventually(is_parked, what="the run to be held")
        assert stack.entries(values["name"], "tool") == []
        assert (await sessions.resume(handle.session)).state == "resumed"
        assert await finish(sessions, handle) == "completed"
    assert len(stack.entries(values["name"], "tool")) == 2


async def test_a_short_tool_that_takes_long_is_told_to_the_model(stack: Stack, short_worker: WorkerProcess) -> None:
    """Its time is limited even where nobody has said so, and the run goes on."""
    values = spec(steps=1, tool="none", seconds=HELD)
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        assert await finish(sessions, handle) == "completed"
    facts = await check_session(stack, handle.session, values["name"])
    told = facts.messages[2].message
    assert isinstance(told, ToolResultMessage)
    (result,) = told.results
    assert result.is_error
    assert "10" in str(result.result)


async def test_the_index_of_short_calls_comes_back(stack: Stack, short_worker: WorkerProcess) -> None:
    """A history tells of a call that was made with its answer as it does of one of its own."""
    async with stack.connect() as sessions:
        handle = await sessions.submit("halfway", json.dumps(spec(steps=2, calls=2, tool="at_most_once")))
        assert await finish(sessions, handle) == "completed"
        key = SessionKey(sessions.tenant, handle.session)

        async def is_closed() -> bool:
            return not await is_open(sessions.client, key)

        await eventually(is_closed, what="the end of the execution")
        before = await take_snapshot(sessions.database, key)
        await wipe(sessions.database, key, *INDEX)
        await rebuild(sessions, key)
        after = await take_snapshot(sessions.database, key)
    assert after.rows == before.rows
    assert len(after.rows["tool_calls"]) == 4


async def test_many_runs_of_short_calls_at_once(stack: Stack, short_worker: WorkerProcess) -> None:
    """Runs made of local activities alone do not hold each other up, however many are in flight on one worker."""
    many = [spec(steps=5, calls=1, tool="none") for _ in range(max(40, scaled(400)))]
    async with stack.connect() as sessions:
        handles = await asyncio.gather(*(submit(sessions, values) for values in many))
        turns = await asyncio.gather(*(handle.result() for handle in handles))
    assert [turn.cycles for turn in turns] == [6] * len(many)
    for values in many:
        assert len(stack.entries(values["name"], "model")) == 6
