"""Workflow queries equal the rows: open, paused, closed, and continued as new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure.runtime.sessions import RunHandle, Sessions
from perdure.store.checkpoints import list_checkpoints
from perdure.uap.session_key import SessionKey
from tests.integration.rebuilt_sessions import ended, event, submit
from tests.integration.stack import Stack, WorkerProcess, eventually


async def _queried(sessions: Sessions, handle: RunHandle) -> dict[str, Any]:
    key = SessionKey("default", handle.session)
    workflow = sessions.client.get_workflow_handle(key.workflow_id)
    return {name: await workflow.query(name) for name in ("status", "state", "checkpoints")}


async def check_equal(sessions: Sessions, handle: RunHandle) -> dict[str, Any]:
    """Assert that queries and rows agree in run, status, step, state and checkpoints."""
    key = SessionKey("default", handle.session)
    found = await _queried(sessions, handle)
    row = await handle.status()
    records = await list_checkpoints(sessions.database, key, handle.id)
    assert found["status"]["run"] == handle.id
    assert found["status"]["status"] == row.status
    assert found["checkpoints"] == [{"id": record["id"], "step": record["step"]} for record in records]
    last: Any = records[-1]
    state = found["state"]
    assert state["step"] == last["step"] == row.step
    assert state["position"] == last["position"]
    assert state["usage"] == last["usage"] == row.usage
    assert state["cycles"] == last["cycles"] == row.cycles
    return found


async def test_queries_equal_rows_in_every_state(stack: Stack, rebuilt_worker: WorkerProcess, tmp_path: Path) -> None:
    """Paused in the middle after continuing as new, and closed at the end."""
    gate = tmp_path / "gate"
    async with stack.connect() as sessions:
        handle = await submit(sessions, steps=20, held={12: str(gate)})
        await event(handle, "observation", 12)
        open_now = await _queried(sessions, handle)
        assert open_now["status"]["status"] == "running"
        assert open_now["status"]["run"] == handle.id
        assert (await sessions.pause(handle.session, wait_s=60)).state == "paused"
        gate.touch()

        async def parked() -> bool:
            return (await handle.status()).status == "parked"

        await eventually(parked)
        paused = await check_equal(sessions, handle)
        assert paused["status"]["paused"]
        await sessions.resume(handle.session)
        assert await ended(handle) == "completed"
        closed = await check_equal(sessions, handle)
        assert len(closed["checkpoints"]) == 21
