"""The index of a session in whose run something is open, or a worker died: made again, and the run goes on over it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import func, select

from perdure.activities.contracts import SESSION
from perdure.runtime.sessions import Sessions
from perdure.runtime.temporal import SessionAddress, wake
from perdure.store.tables import tool_calls
from perdure.uap.session_key import SessionKey
from tests.integration.rebuilt_sessions import (
    APP,
    INDEX,
    NAME,
    NOTHING,
    ended,
    event,
    rebuild,
    recorded,
    scheduled,
    submit,
    take_snapshot,
    wipe,
)
from tests.integration.stack import Stack, WorkerProcess, eventually


@pytest.mark.parametrize("name", ["work", "once"])
async def test_open_session_goes_on(stack: Stack, rebuilt_worker: WorkerProcess, tmp_path: Path, name: str) -> None:
    """In the middle of a tool call the index is made again as it stands, and the run goes on over it."""
    gate = tmp_path / "gate"
    async with stack.connect() as using:
        handle = await submit(using, steps=2, tool=name, calls=2, gate=str(gate))
        await event(handle, "tool_execution_start", 1)
        await eventually(lambda: scheduled(using, handle, 3), what="the tool calls")
        key = SessionKey(using.tenant, handle.session)
        await eventually(lambda: _claimed(using, key, name), what="the tools' start")
        before = await take_snapshot(using.database, key)
        await wipe(using.database, key, *INDEX)
        await rebuild(using, key)
        assert await take_snapshot(using.database, key) == before
        gate.touch()
        assert await ended(handle) == "completed"
        assert await rebuild(using, key) == NOTHING


async def _claimed(using: Sessions, key: SessionKey, name: str) -> bool:
    query = select(func.count()).where(tool_calls.c.session_id == key.session, tool_calls.c.state == "running")
    async with using.database.transaction() as connection:
        return name != "once" or await connection.scalar(query) == 2


async def test_paused_session_stays_paused(stack: Stack, rebuilt_worker: WorkerProcess, tmp_path: Path) -> None:
    """A run that waits is made again as parked, and goes on when its session is resumed."""
    gate = tmp_path / "gate"
    async with stack.connect() as using:
        handle = await submit(using, steps=2, gate=str(gate))
        await event(handle, "tool_execution_start", 1)
        assert (await using.pause(handle.session, wait_s=60)).state == "paused"
        gate.touch()
        key = SessionKey(using.tenant, handle.session)

        async def parked() -> bool:
            return (await handle.status()).status == "parked"

        await eventually(parked, what="the parking")
        before = await take_snapshot(using.database, key)
        await wipe(using.database, key, *INDEX)
        await rebuild(using, key)
        assert await take_snapshot(using.database, key) == before
        assert (await using.resume(handle.session, wait_s=60)).state == "resumed"
        assert await ended(handle) == "completed"
        assert await rebuild(using, key) == NOTHING


async def test_adopted_run_keeps_every_checkpoint(stack: Stack, rebuilt_worker: WorkerProcess, tmp_path: Path) -> None:
    """A boundary that only a terminated execution's history held is a row once its run is adopted."""
    gate = tmp_path / "gate"
    async with stack.connect() as using:
        handle = await submit(using, steps=2, held={1: str(gate)})
        await event(handle, "observation", 1)
        await eventually(lambda: scheduled(using, handle, 3), what="the second model call")
        key = SessionKey(using.tenant, handle.session)
        await using.client.get_workflow_handle(key.workflow_id).terminate("by hand")
        await wake(using.client, SessionAddress(key, NAME, SESSION, NAME))
        async for item in handle.events():
            if item.type == "run.adopted":
                break
        gate.touch()
        assert await ended(handle) == "completed"
        before = await take_snapshot(using.database, key)
        assert sorted(row["step"] for row in before.rows["checkpoints"]) == [1, 2, 3]
        assert await rebuild(using, key) == NOTHING
        await wipe(using.database, key, *INDEX)
        await rebuild(using, key)
        assert await take_snapshot(using.database, key) == before


async def test_what_a_dead_worker_wrote_is_what_history_says(stack: Stack, tmp_path: Path) -> None:
    """Rows that were written before a worker died are not told otherwise when the work is done again."""
    points = ("begin_run.stored", "call_tool.stored", "record.stored#2", "end_run.stored")
    await asyncio.gather(*(_die_at(stack, tmp_path, point) for point in points))


async def _die_at(stack: Stack, folder: Path, point: str) -> None:
    name = point.replace("#", "-")
    gate = folder / f"gate-{name}"
    own = {"PERDURE_TASK_QUEUE": name, "PERDURE_TEST_AGENT": name}
    first = WorkerProcess(stack, APP, **own, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(folder / f"dead-{name}"))
    await asyncio.to_thread(first.wait_ready)
    async with stack.connect() as using:
        handle = await submit(using, name, steps=1, gate=str(gate))
        if name.startswith("record"):  # the second record parks the run, and takes the checkpoint along
            await event(handle, "tool_execution_start", 1)
            assert (await using.pause(handle.session, wait_s=60)).state == "paused"
        gate.touch()
        await asyncio.to_thread(first.wait_dead)
        second = WorkerProcess(stack, APP, **own)
        await asyncio.to_thread(second.wait_ready)
        try:
            if name.startswith("record"):
                await eventually(lambda: recorded(using, handle, 3), what="the second record, told")
                assert (await using.resume(handle.session, wait_s=60)).state == "resumed"
            assert await ended(handle) == "completed"
            key = SessionKey(using.tenant, handle.session)
            before = await take_snapshot(using.database, key)
            assert await rebuild(using, key) == NOTHING
            await wipe(using.database, key, *INDEX)
            await rebuild(using, key)
            assert await take_snapshot(using.database, key) == before
        finally:
            await asyncio.to_thread(second.kill)
