"""A client of the UAIP door over real HTTP, careful where a test wants it to be: with a key for each action, again until it is known."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.integration.api_server import checked
from tests.integration.stack import eventually

HEADER = "X-Session-Id"
UNSETTLED = ("running", "waiting", "paused")
AT_ONCE = 100
_TRIES_S = 180
"""As long as somebody goes on killing what an action needs, it is not settled."""


async def nothing() -> None:
    """What a client does by default while it waits."""


@dataclass(frozen=True)
class Door:
    """The door at one or more API processes.

    Attributes:
        http: keeps the connections.
        urls: gives where the processes are now.
    """

    http: httpx.AsyncClient
    urls: Callable[[], list[str]]

    def url(self, path: str, at: int = 0) -> str:
        """A path's address at one of the processes."""
        urls = self.urls()
        return urls[at % len(urls)] + path

    async def open(self, workflow: str, at: int = 0) -> Visit:
        """A new session of a workflow; one, however often it has to be asked for."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}

        async def opened() -> httpx.Response | None:
            try:
                answer = await self.http.post(
                    self.url("/initialize", at), json={"workflow_name": workflow}, headers=headers
                )
            except httpx.TransportError:
                return None
            return None if answer.status_code == 503 else answer

        answer = await eventually(opened, seconds=_TRIES_S, what=f"a session of {workflow}")
        return Visit(self, workflow, checked(answer)["session_id"])

    async def get(self, path: str, at: int = 0, **params: Any) -> Any:
        """What a page shows, once whoever is needed for it answers."""

        async def shown() -> httpx.Response | None:
            try:
                answer = await self.http.get(self.url(path, at), params=params)
            except httpx.TransportError:
                return None
            return None if answer.status_code == 503 else answer

        return checked(await eventually(shown, what=path))

    async def listed(self, path: str, name: str, **params: Any) -> list[dict[str, Any]]:
        """What a list has on all of its pages."""
        page = await self.get(path, **params)
        found: list[dict[str, Any]] = page[name]
        while page["next"] is not None:
            page = await self.get(path, **params, after=page["next"])
            found += page[name]
        return found


@dataclass(frozen=True)
class Visit:
    """One session, as a client has it."""

    door: Door
    workflow: str
    id: str

    async def send(
        self, action: str, *, key: str | None = None, at: int = 0, wait_s: float = 60, **members: Any
    ) -> httpx.Response:
        """POST /execute, once."""
        body = {"workflow_name": self.workflow, "action": action, **members}
        headers = {HEADER: self.id} if key is None else {HEADER: self.id, "Idempotency-Key": key}
        url = self.door.url("/execute", at)
        return await self.door.http.post(url, json=body, headers=headers, params={"wait_s": wait_s})

    async def settle(
        self,
        action: str,
        *,
        key: str | None = None,
        at: int = 0,
        wait_s: float = 2,
        meanwhile: Callable[[], Awaitable[None]] = nothing,
        **members: Any,
    ) -> httpx.Response:
        """The outcome of one action, whoever dies meanwhile: it has a key, and is sent again until it is settled.

        Args:
            action: its kind.
            key: drawn if not given.
            at: which of the processes.
            wait_s: seconds that each request waits.
            meanwhile: is awaited whenever the answer was that it is not done yet.
            members: the others of the request.
        """
        named = key or uuid.uuid4().hex
        end = time.monotonic() + _TRIES_S
        seen = "nothing was answered"
        while time.monotonic() < end:
            try:
                answer = await self.send(action, key=named, at=at, wait_s=wait_s, **members)
            except httpx.TransportError as error:
                seen = repr(error)
                await asyncio.sleep(0.05)
                continue
            seen = f"{answer.status_code} {answer.text[:300]}"
            if answer.status_code == 503:
                await asyncio.sleep(0.05)
            elif answer.json().get("status") not in UNSETTLED:
                return answer
            else:
                await meanwhile()
        raise AssertionError(f"not settled: {action} {members}, last: {seen}")

    async def call(self, task: str, /, *, key: str | None = None, at: int = 0, **args: Any) -> httpx.Response:
        """What came of a task."""
        return await self.settle("method_call", key=key, at=at, task=task, args=args)

    async def result(self, task: str, /, **args: Any) -> Any:
        """What a task returned, which must not fail."""
        body = checked(await self.call(task, **args))
        assert body["status"] == "ok", body
        return body["result"]

    async def go(self, stage: str) -> dict[str, Any]:
        """Go to a stage, which must be allowed."""
        return checked(await self.settle("stage_transition", stage=stage))

    async def put(self, **updates: Any) -> dict[str, Any]:
        """Write into the state."""
        return checked(await self.settle("state_input", state_updates=updates))

    async def shown(self, at: int = 0) -> dict[str, Any]:
        """The session's page."""
        return await self.door.get(f"/api/stage-sessions/{self.id}", at)

    async def history(self) -> list[dict[str, Any]]:
        """All of its actions, in order."""
        path = f"/api/stage-sessions/{self.id}/history"
        return await self.door.listed(path, "actions")

    async def control(self, kind: str, **body: Any) -> dict[str, Any]:
        """Pause, resume or terminate it, which a worker does at once."""
        url = self.door.url(f"/api/stage-sessions/{self.id}/{kind}")
        return checked(await self.door.http.post(url, json=body, params={"wait_s": 60}))

    async def answer(self, action: str, answer: dict[str, Any]) -> httpx.Response:
        """Answer an action that waits for a person."""
        path = f"/api/stage-sessions/{self.id}/actions/{action}/answer"
        return await self.door.http.post(self.door.url(path), json={"answer": answer})

    async def answered(self, action: str, answer: dict[str, Any]) -> bool:
        """Whether this answer was taken, as far as its sender can know: not if no server answered, or it had one."""
        try:
            given = await self.answer(action, answer)
        except httpx.TransportError:
            return False
        assert given.status_code in (200, 409, 503), given.text
        return given.status_code == 200

    async def asks(self, kind: str) -> dict[str, Any]:
        """What it asks a person, once it asks."""

        async def asked() -> dict[str, Any] | None:
            wait = (await self.shown())["wait"]
            return wait if wait is not None and (wait["kind"], wait["answer"]) == (kind, None) else None

        return await eventually(asked, what=f"a wait for {kind}")


@asynccontextmanager
async def visitors(urls: Callable[[], list[str]]) -> AsyncGenerator[Door, None]:
    """A door and its connections, of which there are not more at once than a server likes."""
    limits = httpx.Limits(max_connections=AT_ONCE)
    async with httpx.AsyncClient(limits=limits, timeout=httpx.Timeout(90, pool=300)) as http:
        yield Door(http, urls)
