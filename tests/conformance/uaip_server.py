"""A UAIP server that the checks are made against, and a client of it.

Any server will do that serves the workflows of `uaip_store.py`; `conftest.py` says how one is named.
"""

from __future__ import annotations

import ssl
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tests.conformance.uaip_replies import Form, seen

HEADER = "X-Session-Id"
_TIMEOUT_S = 120
_AT_ONCE = 60


@dataclass
class UaipServer:
    """Where a server is, and what may be done to it.

    Attributes:
        base_url: without a path.
        form: how its replies are read.
        prefix: before the name of each workflow.
        trust: whose certificates are trusted.
        effects: the file into which the task `mark` writes; None where it cannot be read.
        restart: kills the server's processes and starts them again; None where they are another's.
        kill_database: kills what it keeps sessions in, which comes back by itself; None likewise.
    """

    base_url: str
    form: Form
    prefix: str = ""
    trust: ssl.SSLContext | bool = True
    effects: Path | None = None
    restart: Callable[[], Awaitable[None]] | None = None
    kill_database: Callable[[], None] | None = None

    @asynccontextmanager
    async def client(self, *, http1: bool = True, http2: bool = False) -> AsyncGenerator[UaipClient]:
        """A client with connections of its own; HTTP/2 without TLS is spoken without asking."""
        limits = httpx.Limits(max_connections=_AT_ONCE)
        async with httpx.AsyncClient(
            base_url=self.base_url, verify=self.trust, http1=http1, http2=http2, limits=limits, timeout=_TIMEOUT_S
        ) as http:
            yield UaipClient(self, http)


@dataclass(frozen=True)
class UaipClient:
    """Sends requests."""

    server: UaipServer
    http: httpx.AsyncClient

    def name(self, workflow: str) -> str:
        """A workflow's name on this server."""
        return f"{self.server.prefix}{workflow}"

    async def initialize(self, body: Any) -> httpx.Response:
        """POST /initialize, of bytes or JSON."""
        return await self._post("/initialize", body, {})

    async def execute(self, body: Any, headers: Mapping[str, str]) -> httpx.Response:
        """POST /execute, of bytes or JSON."""
        return await self._post("/execute", body, headers)

    async def schema(self, workflow: str = "store") -> httpx.Response:
        """GET /api/workflows/{name}."""
        return await self.http.get(self.server.form.schema_path(quote(self.name(workflow), safe="")))

    async def open(self, workflow: str = "store") -> StageSession:
        """A new session."""
        response = await self.initialize({"workflow_name": self.name(workflow)})
        assert response.status_code == 200, seen(response)
        return StageSession(self, self.name(workflow), response.json()["session_id"])

    async def open_in(self, stage: str) -> StageSession:
        """A new session of the store in one of its stages."""
        session = await self.open()
        for step in ("select", "checkout", "done"):
            if await session.stage() == stage:
                return session
            if step == "checkout":
                await session.put({"cart.items": [], "user.email": "a@b.example"})
            await session.go(step)
        assert await session.stage() == stage
        return session

    async def _post(self, path: str, body: Any, headers: Mapping[str, str]) -> httpx.Response:
        if isinstance(body, bytes):
            given = {"content-type": "application/json", **headers}
            return await self.http.post(path, content=body, headers=given)
        return await self.http.post(path, json=body, headers=dict(headers))


@dataclass(frozen=True)
class StageSession:
    """Sends actions of one session."""

    client: UaipClient
    workflow: str
    id: str

    @property
    def header(self) -> dict[str, str]:
        return {HEADER: self.id}

    async def send(self, action: str, **members: Any) -> httpx.Response:
        """POST /execute."""
        return await self.client.execute({"workflow_name": self.workflow, "action": action, **members}, self.header)

    async def call(self, task: str, /, **args: Any) -> httpx.Response:
        return await self.send("method_call", task=task, args=args)

    async def go(self, stage: str) -> httpx.Response:
        return await self.send("stage_transition", stage=stage)

    async def put(self, updates: Mapping[str, Any]) -> httpx.Response:
        return await self.send("state_input", state_updates=dict(updates))

    async def result(self, task: str, /, **args: Any) -> Any:
        """What a task returns, which must be in the current stage."""
        return self.client.server.form.result(await self.call(task, **args))

    async def stage(self) -> str:
        """Where the session is, as a task of that stage says."""
        return await self.result("where")

    async def read(self, key: str) -> Any:
        """A key's value, which must be there."""
        found = await self.result("read", key=key)
        assert found["there"], f"{key!r} is not in the state"
        return found["value"]

    async def has(self, key: str) -> bool:
        return (await self.result("read", key=key))["there"]

    async def marks(self, label: str) -> int:
        """How often the task `mark` was run with a label: by its file, else by the state."""
        effects = self.client.server.effects
        if effects is not None:
            return effects.read_text(encoding="utf-8").split().count(label)
        return (await self.result("read", key="marks"))["value"] or 0


def new_label() -> str:
    """A label of its own."""
    return uuid.uuid4().hex
