"""Executions that are lost: the run is adopted by another, or settled; and nothing in workflow code spins."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.activities.contracts import SESSION, SessionInput
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.uap.session_key import SessionKey
from tests.integration import held_agents
from tests.integration.agents import HELD
from tests.integration.facts import Facts, check_session
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_kills import finish, spec, submit


@pytest.fixture(scope="module")
def holder(stack: Stack) -> Iterator[WorkerProcess]:
    """A worker whose tools wait for the test."""
    with held_agents.holder_worker(stack) as process:
        yield process


async def _held_in_step_4(stack: Stack, sessions: Sessions) -> tuple[RunHandle, dict[str, Any]]:
    """A run that stands still in a tool after three steps, and its spec."""
    values = spec(steps=6, tool="none", held_from=3)
    handle = await sessions.submit(held_agents.NAME, json.dumps(values))
    await stack.until_entries(values["name"], "tool", 4)
    return handle, values


def _workflow_id(handle: RunHandle) -> str:
    return SessionKey("default", handle.session).workflow_id


async def _wake_again(sessions: Sessions, handle: RunHandle) -> None:
    """What the sweep does once it finds that a run has no execution; here at once."""
    await sessions.client.start_workflow(
        SESSION,
        SessionInput("default", handle.session, held_agents.NAME),
        id=_workflow_id(handle),
        task_queue=held_agents.QUEUE,
        start_signal="wake",
    )


def _adopted(facts: Facts) -> list[dict[str, Any]]:
    return [dict(event.data) for event in facts.events if event.type == "run.adopted"]


async def test_a_terminated_execution_is_adopted_from_its_history(stack: Stack, holder: WorkerProcess) -> None:
    """Somebody terminates the execution: the next one goes on from that history, not from rows, and says so."""
    async with stack.connect() as sessions:
        handle, values = await _held_in_step_4(stack, sessions)
        await sessions.client.get_workflow_handle(_workflow_id(handle)).terminate("by hand")
        await sessions.database.close()
    async with stack.connect() as sessions:
        await _delete_checkpoints(sessions, handle)
        await _wake_again(sessions, handle)
        stack.release(values)
        assert await finish(sessions, handle_of(sessions, handle)) == "completed"
    facts = await check_session(stack, handle.session, values["name"], storing_s=0.5)
    (adopted,) = _adopted(facts)
    assert adopted["source"] == "history"
    assert adopted["step"] >= 2
    assert len(stack.entries(values["name"], "model")) <= 8


async def test_a_deleted_execution_is_adopted_from_the_last_row(stack: Stack, holder: WorkerProcess) -> None:
    """The history itself is gone: the run goes on from its last checkpoint row, and says so."""
    async with stack.connect() as sessions:
        handle, values = await _held_in_step_4(stack, sessions)
        await _forget_execution(sessions, handle)  # before it ends, or the sweep might be there first
        workflow = sessions.client.get_workflow_handle(_workflow_id(handle))
        await workflow.terminate("by hand")
        await _wake_again(sessions, handle)
        stack.release(values)
        assert await finish(sessions, handle) == "completed"
    facts = await check_session(stack, handle.session, values["name"], storing_s=0.5)
    (adopted,) = _adopted(facts)
    assert adopted["source"] == "row"
    assert adopted["step"] >= 2


async def test_the_sweep_finds_a_run_without_an_execution(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Nobody wakes the session: the worker's sweep does."""
    values = spec(steps=2, seconds=HELD, tool="none")
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "tool")
        await sessions.client.get_workflow_handle(_workflow_id(handle)).terminate("by hand")
        stack.release(values)
        assert await finish(sessions, handle) == "completed"
    await check_session(stack, handle.session, values["name"], storing_s=0.5)


async def test_a_wake_of_an_unknown_session_creates_nothing(stack: Stack, steady_worker: WorkerProcess) -> None:
    """An id without a row completes at once."""
    async with stack.connect() as sessions:
        handle = await sessions.client.start_workflow(
            SESSION,
            SessionInput("default", "no-such-session", "worker"),
            id="session/default/no-such-session",
            task_queue="perdure",
            start_signal="wake",
        )
        async with asyncio.timeout(90):
            await handle.result()
        count = await _count(sessions, "select count(*) from perdure.sessions where id = 'no-such-session'")
    assert count == 0


async def _count(sessions: Sessions, sql: str, *arguments: Any) -> int:
    async with sessions.database.driver() as connection:
        return int(await connection.fetchval(sql, *arguments))


async def _delete_checkpoints(sessions: Sessions, handle: RunHandle) -> None:
    async with sessions.database.driver() as connection:
        await connection.execute("delete from perdure.checkpoints where session_id = $1", handle.session)


async def _forget_execution(sessions: Sessions, handle: RunHandle) -> None:
    """As if Temporal had deleted the execution: the run's row names one that is not there (deleting takes 30 s)."""
    async with sessions.database.driver() as connection:
        sql = "update perdure.runs set temporal_run_id = $2 where id = $1"
        await connection.execute(sql, handle.id, str(uuid.uuid4()))


def handle_of(sessions: Sessions, handle: RunHandle) -> RunHandle:
    """The same run over another connection."""
    return RunHandle(sessions, handle.accepted)
