"""Two tenants before one API: one has a session with an open wait, the other wants to see it. A database of their own.

Its own because one key closes the API to all who have none, in every process that uses the database.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from sqlalchemy import make_url
from starlette.types import Message

from perdure.api.app import create_app
from perdure.api.backend import Backend
from perdure.api.principal import Scope
from perdure.api.requirement import Scoped
from perdure.config import Settings
from perdure.migrations.migrate import migrate
from perdure.runtime.addresses import ServerAddresses
from perdure.runtime.connect import connect
from perdure.store.api_keys import create_key
from perdure.store.content.contents import NewContent, keep_content
from perdure.store.database import Database
from perdure.uaip.action import Action, ActionKind
from perdure.uap.options import RunOptions
from tests.integration.door_stages import DESK
from tests.integration.kept_proposals import keep_proposal
from tests.integration.stack import Stack, WorkerProcess, eventually

OWNER, OTHER = "acme", "other"
TITLE = "the owner's own title"
QUEUE = "access"


@dataclass(frozen=True)
class Owned:
    """What the owner has."""

    session: str
    run: str
    wait: str
    stage_session: str
    action: str
    content: str
    proposal: str

    @property
    def ids(self) -> dict[str, str]:
        """By the names that paths have for them, a stage session's aside."""
        named = {
            "session": self.session,
            "chat": self.session,
            "run": self.run,
            "wait": self.wait,
            "call_id": "call_0_0",
            "proposal": self.proposal,
        }
        named |= {"content_id": self.content, "action_id": self.action, "agent": "actor", "model": "actor"}
        return {**named, "name": DESK, "workflow": DESK}

    def ids_of(self, path: str) -> dict[str, str]:
        """What stands in a path."""
        return {**self.ids, "session": self.stage_session} if path.startswith("/api/stage-sessions") else self.ids


@dataclass(frozen=True)
class Endpoint:
    """A method of a path, and the scope that it needs; None if anyone may have it."""

    method: str
    path: str
    operation: str
    scope: Scope | None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def endpoints(app: FastAPI) -> list[Endpoint]:
    """Every method of every route, but the sockets."""
    found: list[Endpoint] = []
    for context in iter_route_contexts(app.routes):
        dependant: Any = getattr(context, "dependant", None)
        needed = set(_scopes(dependant)) if dependant is not None else set[Scope]()
        assert len(needed) < 2, context.path
        found += [
            Endpoint(
                method,
                str(context.path_format or context.path),
                str(getattr(context, "operation_id", None)),
                next(iter(needed), None),
            )
            for method in sorted(context.methods or ())
        ]
    return found


def socket_paths(app: FastAPI) -> set[str]:
    """The paths of the sockets."""
    return {str(context.path) for context in iter_route_contexts(app.routes) if context.methods is None}


def _scopes(dependant: Any) -> Iterable[Scope]:
    for inner in dependant.dependencies:
        if isinstance(inner.call, Scoped):
            yield inner.call.scope
        yield from _scopes(inner)


def unconnected_app() -> FastAPI:
    """The app as it is, to read its routes."""
    return create_app(Backend(ServerAddresses("127.0.0.1:1", "postgresql://u:p@127.0.0.1:1/none")), Settings())


@contextmanager
def own_database(stack: Stack) -> Generator[str]:
    """The URL of a migrated database that nobody else uses."""
    name = f"access_{uuid.uuid4().hex}"
    url = make_url(stack.addresses.database_url).set(database=name).render_as_string(hide_password=False)
    asyncio.run(_administer(stack.addresses.database_url, f"create database {name}"))
    asyncio.run(_migrate(url))
    yield url
    asyncio.run(_administer(stack.addresses.database_url, f"drop database {name} with (force)"))


async def _administer(url: str, statement: str) -> None:
    database = Database(url, pool_size=1)
    async with database.driver() as connection:
        await connection.execute(statement)
    await database.close()


async def _migrate(url: str) -> None:
    database = Database(url, pool_size=1)
    await migrate(database)
    await database.close()


def owners_worker(stack: Stack, url: str) -> WorkerProcess:
    """Serves the owner's agents, on a task queue of its own."""
    addressing = {"PERDURE_DATABASE_URL": url, "PERDURE_TENANT": OWNER, "PERDURE_TASK_QUEUE": QUEUE}
    return WorkerProcess(stack, "tests.integration.access_agents:app", **addressing).wait_ready()


async def own_something(stack: Stack, url: str) -> Owned:
    """Begin the owner's run and an action of a stage session, up to their open waits."""
    script: list[Any] = [[{"tool": "pick_colour", "arguments": {}}], "Blue, then."]
    options = RunOptions(client_tools=[{"name": "pick_colour", "description": "Ask the user."}])
    async with connect(temporal_address=stack.addresses.temporal, database_url=url, tenant=OWNER) as sessions:
        handle = await sessions.submit(
            "actor", json.dumps({"name": "owned", "script": script}), options=options, title=TITLE
        )

        async def waits() -> Any:
            """The wait, once the run has said that it is parked: nothing changes after that by itself."""
            parked = f"select 1 from perdure.events where session_id = '{handle.session}' and type = 'run.parked'"
            return await rows(url, f"select id from perdure.waits where exists ({parked})")

        ((wait,),) = await eventually(waits, what="the wait")
        opened = await sessions.stages.initialize(DESK)
        spend = Action(ActionKind.METHOD_CALL, "spend", arguments={"amount": 1})
        reply = await sessions.stages.execute(opened.key.session, spend)
        assert reply.body["status"] == "waiting"
        made, _ = await keep_content(sessions.database, OWNER, NewContent("text/plain", TITLE.encode(), OWNER))
        action = str(reply.body["action_id"])
        proposal = await keep_proposal(sessions.database, OWNER, f"let the actor have it: {TITLE}")
        return Owned(handle.session, handle.id, wait, opened.key.session, action, made.id, proposal)


async def make_key(url: str, tenant: str, *scopes: Scope, name: str = "robot") -> str:
    """A key."""
    database = Database(url, pool_size=1)
    _, key = await create_key(database, tenant, name, [scope.value for scope in scopes])
    await database.close()
    return key


async def all_rows(url: str, tenant: str, *, but: frozenset[str]) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of a tenant, by table.

    Args:
        url: of the database.
        tenant: whose.
        but: tables that are left out.
    """
    database = Database(url, pool_size=1)
    found: dict[str, list[tuple[Any, ...]]] = {}
    async with database.driver() as connection:
        for (table,) in await connection.fetch(
            "select table_name from information_schema.columns where table_schema = 'perdure' and column_name = 'tenant_id'"
        ):
            if table not in but:
                query = f"select to_json(t)::text from perdure.{table} t where tenant_id = $1 order by 1"
                found[table] = [tuple(row.values()) for row in await connection.fetch(query, tenant)]
    await database.close()
    return found


async def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """Rows, by a connection of their own."""
    database = Database(url, pool_size=1)
    async with database.driver() as connection:
        found = await connection.fetch(query)
    await database.close()
    return [tuple(row.values()) for row in found]


@asynccontextmanager
async def serving(stack: Stack, url: str, **settings: Any) -> AsyncGenerator[tuple[FastAPI, httpx.AsyncClient]]:
    """The API in this process, begun as a server begins it."""
    backend = Backend(ServerAddresses(stack.addresses.temporal, url))
    app = create_app(backend, Settings(**settings))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8700", timeout=30) as client,
    ):
        yield app, client


async def knock(app: FastAPI, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], str]:
    """Ask for a WebSocket that must be denied: status, headers and body of the denial."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        assert message["type"].startswith("websocket.http.response"), message
        sent.append(message)

    given = {"host": "127.0.0.1:8700", **headers}
    scope: dict[str, Any] = {
        "type": "websocket", "path": path, "raw_path": path.encode(), "query_string": b"", "scheme": "ws", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()], "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}, body.decode()
