"""How recorded scenarios are played: on workers of their own, up to a moment that is waited for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from temporalio.client import WorkflowHandle, WorkflowHistory

from perdure.runtime.sessions import RunHandle, Sessions
from perdure.runtime.temporal import is_open
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.stage_visits import Visit
from tests.integration.test_kills import finish, spec

RECORDER = "recorder"
AGENTS = "tests.integration.agents:app"
ENDED_BY_HAND = "by hand"

Scenario: TypeAlias = Callable[[Stack, Sessions], Awaitable[RunHandle | Visit]]


@asynccontextmanager
async def worker(stack: Stack, app: str = AGENTS, **environment: str) -> AsyncGenerator[WorkerProcess, None]:
    """A worker of its own, dead at the end: all serve one task queue."""
    process = WorkerProcess(stack, app, **environment).wait_ready()
    try:
        yield process
    finally:
        process.kill()


async def act(sessions: Sessions, script: list[Any], options: RunOptions | None = None) -> RunHandle:
    """Submit a script to the actor."""
    return await sessions.submit("actor", json.dumps(spec(script=script)), options=options)


def call(tool: str, key: str, seconds: float = 0.0) -> dict[str, Any]:
    """A call of one of the working tools."""
    return {"tool": tool, "arguments": {"name": RECORDER, "key": key, "seconds": seconds, "filler": ""}}


def workflow(sessions: Sessions, handle: RunHandle) -> WorkflowHandle[Any, Any]:
    """The session's open execution."""
    return sessions.client.get_workflow_handle(SessionKey(sessions.tenant, handle.session).workflow_id)


async def until_event(handle: RunHandle, kind: str, count: int = 1) -> None:
    """Return once the run has had that many events of a kind."""
    async with asyncio.timeout(20):
        async for event in handle.events():
            count -= event.type == kind
            if count == 0:
                return


async def finish_all(sessions: Sessions, handle: RunHandle) -> None:
    """Wait until the execution is closed too: the next scenario's worker does not serve its agent."""
    await finish(sessions, handle)

    async def closed() -> bool:
        return not await is_open(sessions.client, SessionKey(sessions.tenant, handle.session))

    await eventually(closed, what="the end of the execution")


async def executions(sessions: Sessions, session: str) -> list[WorkflowHistory]:
    """The histories of a session's executions, oldest first, once all of them are closed."""
    return await histories_of(sessions, SessionKey(sessions.tenant, session).workflow_id)


async def histories_of(sessions: Sessions, workflow_id: str) -> list[WorkflowHistory]:
    """The histories of a workflow's executions, oldest first, once all of them are closed."""

    async def closed() -> list[WorkflowHistory] | None:
        found = [item async for item in sessions.client.list_workflows(f"WorkflowId = '{workflow_id}'")]
        if not found or any(item.close_time is None for item in found):
            return None
        handles = [
            sessions.client.get_workflow_handle(workflow_id, run_id=item.run_id)
            for item in sorted(found, key=lambda item: item.start_time)
        ]
        return [await handle.fetch_history() for handle in handles]

    return await eventually(closed, what=f"the end of {workflow_id}")
