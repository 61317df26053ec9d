"""The worker process: how it starts, what it refuses, and how it leaves."""

from __future__ import annotations

import asyncio
import time

import pytest

from perdure.runtime.addresses import find_keyring
from perdure.store.database import Database
from tests.integration.agents import HELD
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit
from tests.scale import allowed_s

LEAVES_WITHIN_S = 10.0


async def test_a_deploy_lets_short_work_end(stack: Stack) -> None:
    """SIGTERM with a short tool in hand: the tool ends, its result is stored, the worker exits with 0."""
    values = spec(steps=1, tool="at_most_once", seconds=1.0)
    first = WorkerProcess(stack).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "tool")
        assert await asyncio.to_thread(first.terminate) == 0
        second = WorkerProcess(stack).wait_ready()
        try:
            assert await finish(sessions, handle) == "completed"
        finally:
            second.kill()
    assert len(stack.entries(values["name"], "tool_done")) == 1
    await check_session(stack, handle.session, values["name"])


@pytest.mark.parametrize("tool", ["idempotent", "blocking"])
async def test_a_deploy_is_a_retry_and_no_cancel(stack: Stack, tool: str) -> None:
    """SIGTERM with a long tool in hand: the worker leaves in time, the call is tried again, nothing is cancelled."""
    values = spec(steps=1, tool=tool, seconds=HELD if tool == "idempotent" else 10.0)
    first = WorkerProcess(stack, PERDURE_SHUTDOWN_GRACE="0.5").wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "tool")
        began = time.monotonic()
        assert await asyncio.to_thread(first.terminate) == 0
        assert time.monotonic() - began < allowed_s(5.0)
        stack.release(values)
        second = WorkerProcess(stack).wait_ready()
        try:
            assert await finish(sessions, handle) == "completed"
        finally:
            second.kill()
    assert len(stack.entries(values["name"], "tool")) == 2
    await check_session(stack, handle.session, values["name"])


async def test_leaving_without_its_servers(stack: Stack) -> None:
    """SIGTERM while Temporal and PostgreSQL are gone: the worker leaves within its deadline, with 0."""
    worker = WorkerProcess(stack, PERDURE_SHUTDOWN_GRACE="1").wait_ready()
    for name in ("temporal", "postgres"):
        stack.kill(name)
    began = time.monotonic()
    assert await asyncio.to_thread(worker.terminate) == 0
    assert time.monotonic() - began < allowed_s(LEAVES_WITHIN_S)
    async with stack.reconnect():
        pass


async def test_starting_while_the_servers_are_away(stack: Stack) -> None:
    """A worker that starts before its servers says that it waits, and serves once they are there."""
    values = spec(steps=1)
    worker = WorkerProcess(stack, PERDURE_TEMPORAL_ADDRESS="127.0.0.1:1")

    async def waits() -> bool:
        return "waiting: Temporal at 127.0.0.1:1 does not answer" in worker.said

    await eventually(waits)
    assert worker.alive
    assert await asyncio.to_thread(worker.terminate) == 0
    stack.kill("temporal")
    late = WorkerProcess(stack)
    try:
        await asyncio.to_thread(late.wait_ready)
        async with stack.reconnect() as sessions:
            handle = await submit(sessions, values)
            assert await finish(sessions, handle) == "completed"
    finally:
        late.kill()


async def test_a_schema_that_is_not_ours_is_refused(stack: Stack) -> None:
    """An empty database: the worker says which command helps, and ends with the code for servers."""
    database = Database(stack.addresses.database_url, keyring=find_keyring())
    async with database.driver() as connection:
        await connection.execute("create database empty_for_worker")
    await database.close()
    url = stack.addresses.database_url.rsplit("/", 1)[0] + "/empty_for_worker"
    worker = WorkerProcess(stack, PERDURE_DATABASE_URL=url)
    worker.wait_dead()
    assert "perdure migrate" in worker.said
    assert worker.code == 3


@pytest.mark.parametrize(
    ("app", "says"),
    [
        ("tests.integration.agents", "MODULE:ATTRIBUTE"),
        ("no.such.module:app", "no module"),
        ("tests.integration.agents:nothing", "has no 'nothing'"),
        ("tests.integration.agents:TOOLS", "must be an App"),
    ],
)
async def test_an_app_that_cannot_be_loaded_is_refused(stack: Stack, app: str, says: str) -> None:
    """The message names the app and what is wrong with it; no traceback."""
    worker = WorkerProcess(stack, app=app)
    worker.wait_dead()
    assert says in worker.said
    assert "Traceback" not in worker.said
    assert worker.code == 2
