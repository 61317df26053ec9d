"""What tests of the UAIP door share: a worker that serves `door_stages`, an API process, and a client of its door."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.integration.api_server import ApiProcess, checked
from tests.integration.door_stages import DESK
from tests.integration.stack import Stack, WorkerProcess, eventually

QUEUE = "door_stages"
SESSION = "X-Session-Id"
KEY = "Idempotency-Key"
PATIENTLY = {"wait_s": 60}
"""Query of a control whose state is to be reached when it is answered, however busy the worker is."""


@contextmanager
def desk_worker(stack: Stack, **environment: str) -> Generator[WorkerProcess]:
    """Serves the workflows, on a task queue of its own."""
    addressing = {"PERDURE_TASK_QUEUE": QUEUE, **environment}
    worker = WorkerProcess(stack, "tests.integration.door_stages:app", **addressing).wait_ready()
    yield worker
    worker.kill()


@dataclass(frozen=True)
class Door:
    """A client of one API process.

    Attributes:
        http: whose paths begin at the server's root.
    """

    http: httpx.AsyncClient

    async def initialize(self, workflow: str = DESK) -> str:
        """The id of a new session."""
        body = checked(await self.http.post("/initialize", json={"workflow_name": workflow}))
        return str(body["session_id"])

    async def execute(
        self,
        session: str,
        action: str,
        *,
        key: str | None = None,
        workflow: str = DESK,
        query: Any = None,
        **members: Any,
    ) -> httpx.Response:
        """One action."""
        headers = {SESSION: session} if key is None else {SESSION: session, KEY: key}
        body = {"workflow_name": workflow, "action": action, **members}
        return await self.http.post("/execute", json=body, headers=headers, params=query)

    async def call(self, session: str, task: str, *, key: str | None = None, query: Any = None, **args: Any) -> Any:
        """The body of a task's reply, which must have status 200."""
        response = await self.execute(session, "method_call", task=task, args=args, key=key, query=query)
        return checked(response)

    async def shown(self, session: str) -> Any:
        """The session as operators see it."""
        return checked(await self.http.get(f"/api/stage-sessions/{session}"))


@asynccontextmanager
async def door_of(api: ApiProcess, **options: Any) -> AsyncGenerator[Door]:
    """A client of an API process."""
    async with httpx.AsyncClient(base_url=api.url, timeout=90, **options) as http:
        yield Door(http)


def detail_of(response: httpx.Response, status: int) -> str:
    """What an error of UAIP says: a string, whatever the status."""
    body = checked(response, status)
    assert response.headers["content-type"] == "application/json"
    assert isinstance(body, dict)
    assert isinstance(body["detail"], str)
    assert "Traceback" not in response.text
    return str(body["detail"])


async def until_begun(gate: Path) -> None:
    """Return once the task that waits for the gate has begun."""

    async def begun() -> bool:
        return times_begun(gate) > 0

    await eventually(begun, what="the task")


def times_begun(gate: Path) -> int:
    """How often it has."""
    notes = Path(f"{gate}.begun")
    return len(notes.read_text().splitlines()) if notes.exists() else 0
