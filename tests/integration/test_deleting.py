"""Deleting a session: rows, payloads and executions go, its sub-agents' too; and changing what is said of one."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from perdure.activities.contracts import SESSION, SessionInput
from perdure.errors import RunActive, SessionGone, UnknownRun, UnknownSession
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.store.deleting import mark_deleting
from perdure.store.tables import metadata
from perdure.uap.ids import new_id
from tests.integration.agents import HELD
from tests.integration.facts import until_forgotten
from tests.integration.stack import ROOT, Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit

PROGRAM = """
import asyncio, sys
from perdure import connect
async def main():
    async with connect() as sessions:
        await sessions.delete(sys.argv[1])
asyncio.run(main())
"""


async def rows_of(sessions: Sessions, *ids: str) -> dict[str, int]:
    """How many rows each table has of these sessions."""
    counts: dict[str, int] = {}
    async with sessions.database.driver() as connection:
        for table in metadata.sorted_tables:
            column = "id" if table.name == "sessions" else "session_id" if "session_id" in table.c else None
            if column is not None:
                sql = f"select count(*) from perdure.{table.name} where {column} = any($1)"
                counts[table.name] = int(await connection.fetchval(sql, list(ids)))
    return {name: count for name, count in counts.items() if count}


async def _done(sessions: Sessions, **values: Any) -> RunHandle:
    handle = await submit(sessions, spec(**{"steps": 1, "size": 70_000, "tool": "none", **values}))
    assert await finish(sessions, handle) == "completed"
    return handle


async def test_all_of_a_session_goes(stack: Stack, steady_worker: WorkerProcess) -> None:
    """No row of any table is left, another session keeps its own; a wake creates nothing, and again is harmless."""
    async with stack.connect() as sessions:
        handle, other = await _done(sessions), await _done(sessions)
        kept = await rows_of(sessions, other.session)
        assert "payloads" in await rows_of(sessions, handle.session)
        deleted = await sessions.delete(handle.session)
        assert (deleted.sessions, deleted.executions) == (1, 1)
        assert await rows_of(sessions, handle.session) == {}
        assert await rows_of(sessions, other.session) == kept
        assert (await sessions.delete(handle.session)).sessions == 0
        with pytest.raises(UnknownRun):
            await handle.status()
        with pytest.raises(UnknownSession):
            await submit(sessions, spec(), session=handle.session)
        await until_forgotten(sessions, handle.accepted.key.workflow_id)
        woken = await sessions.client.start_workflow(
            SESSION,
            SessionInput("default", handle.session, "worker"),
            id=handle.accepted.key.workflow_id,
            task_queue="perdure",
            start_signal="wake",
        )
        async with asyncio.timeout(90):
            await woken.result()
        assert await rows_of(sessions, handle.session) == {}


async def test_an_open_run_refuses_but_for_force(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Refused, nothing has changed; by force its viewer gets its terminal event, and its tool's late result is dropped."""
    values = spec(steps=1, tool="none", seconds=HELD)
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "tool")
        queued = await submit(sessions, spec(), session=handle.session)
        with pytest.raises(RunActive) as refused:
            await sessions.delete(handle.session)
        assert refused.value.run_id == handle.id
        assert (await queued.status()).status == "queued"
        told: list[str] = []
        viewer = asyncio.create_task(_tell(handle, told))
        await eventually(lambda: _is_told(told, "action"), what="a viewer that has come")
        await sessions.delete(handle.session, force=True)
        await viewer
        assert told[-1] == "run.cancelled"
        stack.release(values)
        assert await rows_of(sessions, handle.session) == {}
        await asyncio.sleep(4)  # what the tool and its worker do after that is what is tested: nothing
        assert await rows_of(sessions, handle.session) == {}


async def _tell(handle: RunHandle, told: list[str]) -> None:
    async with asyncio.timeout(90):
        async for event in handle.events():
            told += [event.type]


async def _is_told(told: list[str], kind: str) -> bool:
    return kind in told


@pytest.mark.parametrize("point", ["marked", "ended", "emptied", "forgetting"])
async def test_a_deletion_that_is_cut_off_is_finished(stack: Stack, steady_worker: WorkerProcess, point: str) -> None:
    """The process dies half-way: the session takes nothing more, and the next call finishes."""
    async with stack.connect() as sessions:
        handle = await _done(sessions)
        environment = {**stack.addressing, "PERDURE_CRASH_AT": f"delete.{point}", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", PROGRAM, handle.session]
        died = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, timeout=60)
        assert died.returncode == -9, died.stderr.decode()
        with pytest.raises(SessionGone):
            await submit(sessions, spec(), session=handle.session)
        with pytest.raises(SessionGone):
            await sessions.patch(handle.session, title="too late")
        assert (await sessions.delete(handle.session)).sessions == 1
        assert await rows_of(sessions, handle.session) == {}


async def test_another_tenants_session_stays(stack: Stack, steady_worker: WorkerProcess) -> None:
    """For another tenant there is no such session."""
    async with stack.connect() as sessions:
        handle = await _done(sessions)
        stranger = Sessions(sessions.client, sessions.database, "stranger")
        assert (await stranger.delete(handle.session, force=True)).sessions == 0
        assert await mark_deleting(sessions.database, handle.accepted.key._replace(tenant="x"), force=True) == []
        with pytest.raises(UnknownSession):
            await stranger.patch(handle.session, title="mine")
        assert (await handle.status()).status == "completed"


async def test_l04_patches_during_a_run(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Title and metadata change while a run writes, from several clients at once; both succeed, keys are kept apart."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, spec(steps=10, tool="none"))
        many = [sessions.patch(handle.session, metadata={f"key{n}": {"n": n}}, title=f"{n}") for n in range(20)]
        await asyncio.gather(*many)
        row = await sessions.patch(handle.session, removed=["key0"], metadata={"key1": None})
        assert row.metadata == {"key1": None, **{f"key{n}": {"n": n} for n in range(2, 20)}}
        assert (await sessions.patch(handle.session, title=None)).title is None
        assert await finish(sessions, handle) == "completed"
        with pytest.raises(UnknownSession):
            await sessions.patch(new_id(), title="none")
    assert json.dumps(row.metadata)
