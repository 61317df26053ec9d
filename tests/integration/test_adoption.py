"""Executions that are lost: the run is adopted by another, or settled; and nothing in workflow code spins."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from perdure.activities.contracts import SESSION, SessionInput
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.uap.session_key import SessionKey
from tests.integration.facts import Facts, check_session
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_kills import finish, spec, submit


def _workflow_id(handle: RunHandle) -> str:
    return SessionKey("default", handle.session).workflow_id


async def _wake_again(sessions: Sessions, handle: RunHandle) -> None:
    """What the sweep does once it finds that a run has no execution; here at once."""
    await sessions.client.start_workflow(
        SESSION,
        SessionInput("default", handle.session, "worker"),
        id=_workflow_id(handle),
        task_queue="perdure",
        start_signal="wake",
    )


def _adopted(facts: Facts) -> list[dict[str, Any]]:
    return [dict(event.data) for event in facts.events if event.type == "run.adopted"]


async def test_a_terminated_execution_is_adopted_from_its_history(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Somebody terminates the execution: the next one goes on from that history, not from rows, and says so."""
    values = spec(steps=6, latency=0.2, tool="none")
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model", 4)
        await sessions.client.get_workflow_handle(_workflow_id(handle)).terminate("by hand")
        await sessions.database.close()
    async with stack.connect() as sessions:
        await _delete_checkpoints(sessions, handle)
        await _wake_again(sessions, handle)
        assert await finish(sessions, handle_of(sessions, handle)) == "completed"
    facts = await check_session(stack, handle.session, values["name"], storing_s=0.5)
    (adopted,) = _adopted(facts)
    assert adopted["source"] == "history"
    assert adopted["step"] >= 2
    assert len(stack.entries(values["name"], "model")) <= 8


async def test_a_deleted_execution_is_adopted_from_the_last_row(stack: Stack, steady_worker: WorkerProcess) -> None:
    """The history itself is gone: the run goes on from its last checkpoint row, and says so."""
    values = spec(steps=6, latency=0.2, tool="none")
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model", 4)
        workflow = sessions.client.get_workflow_handle(_workflow_id(handle))
        await workflow.terminate("by hand")
        await _forget_execution(sessions, handle)
        await _wake_again(sessions, handle)
        assert await finish(sessions, handle) == "completed"
    facts = await check_session(stack, handle.session, values["name"], storing_s=0.5)
    (adopted,) = _adopted(facts)
    assert adopted["source"] == "row"
    assert adopted["step"] >= 2


async def test_the_sweep_finds_a_run_without_an_execution(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Nobody wakes the session: the worker's sweep does."""
    values = spec(steps=2, latency=0.5, tool="none")
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model")
        await sessions.client.get_workflow_handle(_workflow_id(handle)).terminate("by hand")
        assert await finish(sessions, handle, seconds=60) == "completed"
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
