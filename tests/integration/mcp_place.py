"""Where MCP clients are served: a worker with the shop, two API processes alike, and a key of each kind."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import httpx
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from perdure.api.principal import Scope
from perdure.runtime.addresses import ServerAddresses
from perdure.runtime.connect import connect
from perdure.runtime.stages import Stages
from perdure.store.database import Database
from perdure.store.stages.definitions import register_workflows
from tests.integration.access_stage import make_key, own_database
from tests.integration.api_server import ApiProcess
from tests.integration.mcp_shop import NAME, Shop
from tests.integration.stack import ROOT, Stack, WorkerProcess

OWNER = "buyer"
OTHER = "stranger"
QUEUE = "mcp-shop"
JSON = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

Call: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[CallToolResult]]


@dataclass(frozen=True)
class McpPlace:
    """What the tests share.

    Attributes:
        url: of the database, which is their own: it has API keys.
        worker: serves the shop.
        apis: two processes that know nothing of each other.
        key: of the owner.
        others: key of another tenant, which may do everything there.
        readers: key of the owner's tenant that may only read.
    """

    stack: Stack
    url: str
    worker: WorkerProcess
    apis: tuple[ApiProcess, ApiProcess]
    key: str
    others: str
    readers: str

    def release(self, session: str) -> None:
        """Let what is wrapped in a session be done."""
        self.stack.release({"name": session})

    def wrapped(self, session: str) -> int:
        """How many things were wrapped in a session; one that a busy machine lost on the way is the same one again."""
        return len({entry["key"] for entry in self.stack.entries(session, "wrapped")})

    @contextmanager
    def another_api(self) -> Generator[ApiProcess]:
        """A third process, which a test may end."""
        process = ApiProcess(self.stack, **self.environment).wait_ready()
        yield process
        process.kill()

    @property
    def environment(self) -> dict[str, str]:
        """By which a process finds the servers, and works for the owner."""
        return {**self.stack.addressing, "PERDURE_DATABASE_URL": self.url, "PERDURE_TENANT": OWNER}

    def endpoint(self, api: ApiProcess | None = None, *, session: str | None = None) -> str:
        """The shop's address at the first process, or another."""
        query = "" if session is None else f"?session={session}"
        return f"{(api or self.apis[0]).url}/mcp/{NAME}{query}"

    @asynccontextmanager
    async def client(
        self,
        api: ApiProcess | None = None,
        *,
        mode: str = "auto",
        session: str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> AsyncGenerator[Client]:
        """The official client, over streamable HTTP."""
        given = {"authorization": f"Bearer {self.key}", **(headers or {})}
        async with httpx2.AsyncClient(headers=given, timeout=60) as http:
            transport = streamable_http_client(self.endpoint(api, session=session), http_client=http)
            async with Client(transport, mode=mode, **options) as client:
                yield client

    @asynccontextmanager
    async def http(
        self, api: ApiProcess | None = None, *, key: str | None = None, **options: Any
    ) -> AsyncGenerator[httpx.AsyncClient]:
        """A plain client of a process, as the owner."""
        headers = {"authorization": f"Bearer {key or self.key}", **JSON}
        async with httpx.AsyncClient(
            base_url=(api or self.apis[0]).url, headers=headers, timeout=60, **options
        ) as client:
            yield client

    def stdio(self, *arguments: str) -> StdioServerParameters:
        """How a client starts `perdure mcp` as the owner."""
        command = ["-m", "perdure.cli.main", "mcp", NAME, *arguments]
        return StdioServerParameters(command=sys.executable, args=command, env=self.environment, cwd=str(ROOT))

    @asynccontextmanager
    async def stages(self) -> AsyncGenerator[Stages]:
        """The owner's stage sessions, as another program has them."""
        addresses = ServerAddresses(self.stack.addresses.temporal, self.url)
        async with connect(temporal_address=addresses.temporal, database_url=self.url, tenant=OWNER) as sessions:
            yield Stages(
                sessions.client, sessions.database, OWNER, announcer=sessions.announcer, stream=sessions.stream
            )

    async def open_session(self) -> str:
        """A session of the shop, opened through UAIP's own door."""
        async with self.http() as http:
            opened = await http.post("/initialize", json={"workflow_name": NAME})
            assert opened.status_code == 200, opened.text
            return str(opened.json()["session_id"])


@contextmanager
def opened_place(stack: Stack) -> Generator[McpPlace]:
    """All of it, ready."""
    with own_database(stack) as url:
        environment = {"PERDURE_DATABASE_URL": url, "PERDURE_TENANT": OWNER, "PERDURE_TASK_QUEUE": QUEUE}
        worker = WorkerProcess(stack, "tests.integration.mcp_shop:app", **environment)
        owners = asyncio.run(make_key(url, OWNER, Scope.RUN, Scope.READ))
        others = asyncio.run(make_key(url, OTHER, Scope.ADMIN))
        asyncio.run(_serve_to(url, OTHER))
        readers = asyncio.run(make_key(url, OWNER, Scope.READ, name="reader"))
        apis = (ApiProcess(stack, **environment), ApiProcess(stack, **environment))
        for process in (worker, *apis):
            process.wait_ready()
        yield McpPlace(stack, url, worker, apis, owners, others, readers)
        for process in (*apis, worker):
            process.kill()


async def _serve_to(url: str, tenant: str) -> None:
    """Let another tenant have the shop too; no worker does its tasks."""
    database = Database(url, pool_size=1)
    await register_workflows(database, tenant, [Shop.definition], "nobody")
    await database.close()


async def tool_names(client: Any) -> list[str]:
    """What is listed now, whichever client it is."""
    listed = await client.list_tools()
    return [tool.name for tool in getattr(listed, "tools", listed)]


async def buy(call: Call) -> CallToolResult:
    """Buy two things from the beginning to the end; every step has to do what it says.

    Returns:
        what paying answered.
    """
    steps: list[tuple[str, dict[str, Any]]] = [
        ("search", {"words": "pen"}),
        ("transition_stage", {"target_stage": "cart"}),
        ("add", {"sku": "pen-1"}),
        ("add", {"sku": "pen-1"}),
        ("provide_state", {"user.email": "ann@example.com"}),
        ("transition_stage", {"target_stage": "checkout"}),
    ]
    for name, arguments in steps:
        result = await call(name, arguments)
        assert not result.is_error, (name, result)
    paid = await call("pay", {})
    moved = await call("transition_stage", {"target_stage": "done"})
    assert fields(moved)["terminal"] is True
    return paid


def fields(result: Any) -> dict[str, Any]:
    """The machine fields of a result."""
    found: object = result.structured_content
    assert isinstance(found, dict), result
    return cast("dict[str, Any]", found)


def text(result: Any) -> str:
    """What the model is told."""
    (block,) = result.content
    return str(block.text)


def request(id: int | str, method: str, **params: Any) -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def handshake(id: int | str = 0, version: str = "2025-11-25") -> dict[str, Any]:
    """The request that begins an MCP session."""
    client = {"name": "test", "version": "1"}
    return request(id, "initialize", protocolVersion=version, capabilities={}, clientInfo=client)


def answer(response: httpx.Response) -> dict[str, Any]:
    """The JSON-RPC answer in a response, behind whatever was told before it."""
    assert response.status_code == 200, response.text
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    told = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    return told[-1]
