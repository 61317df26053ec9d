"""Workflow queries equal the rows: open, paused, closed, and continued as new."""

from __future__ import annotations

from typing import Any

from perdure.runtime.sessions import RunHandle, Sessions
from perdure.store.checkpoints import list_checkpoints
from perdure.uap.session_key import SessionKey
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit


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


async def test_queries_equal_rows_in_every_state(stack: Stack) -> None:
    """Paused in the middle after continuing as new, and closed at the end."""
    worker = WorkerProcess(stack, PERDURE_CONTINUE_AS_NEW_EVENTS="100").wait_ready()
    values = spec(steps=20, latency=0.15, tool="none")
    try:
        async with stack.connect() as sessions:
            handle = await submit(sessions, values)

            async def far_enough() -> bool:
                return len(stack.entries(values["name"], "model")) >= 12

            await eventually(far_enough)
            open_now = await _queried(sessions, handle)
            assert open_now["status"]["status"] == "running"
            assert open_now["status"]["run"] == handle.id
            assert (await sessions.pause(handle.session)).state == "paused"

            async def parked() -> bool:
                return (await handle.status()).status == "parked"

            await eventually(parked)
            paused = await check_equal(sessions, handle)
            assert paused["status"]["paused"]
            await sessions.resume(handle.session)
            assert await finish(sessions, handle) == "completed"
            closed = await check_equal(sessions, handle)
            assert len(closed["checkpoints"]) == 21
    finally:
        worker.kill()
