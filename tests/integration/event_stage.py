"""What tests of event streams share: agents that say as much as they are asked for, a worker and an API server in this process."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import httpx

from perdure.activities.contracts import SESSION
from perdure.activities.convert import converter
from perdure.activities.services import Services
from perdure.api.backend import Backend
from perdure.api.patience import Patience
from perdure.execution import loop
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.runtime.temporal import connect_temporal
from perdure.store.agents import AgentRow, register_agents
from perdure.store.database import Database
from perdure.store.events import Announcer, read_events
from perdure.store.message_cache import MessageCache
from perdure.uap.agent import Agent, agent
from perdure.uap.app import App
from perdure.uap.events import run_event
from perdure.uap.session_key import SessionKey
from perdure.upp.function_tool import tool
from perdure.upp.json_value import JSONObject
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import Answer, ScriptedAnswer
from perdure.upp.providers.scripted import scripted
from perdure.upp.tool_call import ToolCall
from perdure.worker.build import WorkerOptions, build_worker, perdure_plugin
from tests.integration.event_api import serving
from tests.integration.stack import Stack

QUEUE = "event_routes"
NOBODY = "7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11"
PATIENCE = Patience(silence_s=0.3, stalled_s=1.0)


@tool(effect="none")
async def rest(seconds: float) -> str:
    """Say nothing for a while."""
    await asyncio.sleep(seconds)
    return "rested"


@tool(effect="none")
async def dump(size: int) -> str:
    """Return many bytes."""
    return "d" * size


def _answer(request: LLMRequest) -> ScriptedAnswer:
    """Follow the input: {"tool", "arguments"} first, if given; then a text of so many characters."""
    asked: dict[str, Any] = json.loads(request.messages[0].text)
    if "tool" in asked and len(request.messages) == 1:
        return Answer(tool_calls=[ToolCall("call", asked["tool"], asked["arguments"])])
    return "x" * asked.get("characters", 20)


def _made(name: str, **model: Any) -> Agent:
    return agent(name=name, model=scripted(_answer, **model), tools=[rest, dump], execution=loop())


AGENTS = [_made("quick_teller", chunk_size=10), _made("slow_teller", chunk_size=2, chunk_delay=0.03)]


@dataclass(frozen=True)
class Served:
    """What a test has: a connection to both servers, and the API."""

    sessions: Sessions
    client: httpx.AsyncClient
    url: str
    backend: Backend

    async def run(self, teller: str = "quick_teller", **asked: Any) -> RunHandle:
        return await self.sessions.submit(teller, json.dumps(asked))

    async def log(self, session: str) -> list[JSONObject]:
        key = SessionKey(self.sessions.tenant, session)
        events: list[JSONObject] = []
        while page := await read_events(
            self.sessions.database, key, after=cast(int, events[-1]["seq"]) if events else 0
        ):
            events += [event.to_json() for event in page]
        return events

    async def emit(self, session: str, count: int, size: int = 1) -> None:
        """Add events of no run."""
        entry = run_event("test.filler", {"filler": "f" * size})
        for _ in range(count // 100):
            await self.sessions.database.call("emit_v1", self.sessions.tenant, session, None, json.dumps([entry] * 100))
        self.sessions.announcer.changed(SessionKey(self.sessions.tenant, session))


@asynccontextmanager
async def served_by(stack: Stack) -> AsyncGenerator[Served, None]:
    """One worker, and one API server, in this process."""
    database = Database(stack.addresses.database_url)
    temporal = await connect_temporal(stack.addresses.temporal, "default", plugins=[perdure_plugin()])
    services = Services(
        database=database, announcer=Announcer(database), cache=MessageCache(database), app=App(agents=AGENTS)
    )
    rows = [AgentRow(str(one.name), one.id, SESSION, QUEUE, converter.unstructure(one.spec())) for one in AGENTS]
    await register_agents(database, "default", rows)
    limits = httpx.Limits(max_connections=None)
    async with (
        build_worker(temporal, services, WorkerOptions(task_queue=QUEUE)),
        stack.connect() as sessions,
        serving(stack, PATIENCE) as (url, backend),
        httpx.AsyncClient(limits=limits) as client,
    ):
        yield Served(sessions, client, url, backend)
    await services.announcer.close()
    await database.close()


def run_path(handle: RunHandle, **query: str) -> str:
    return f"/api/runs/{handle.id}/events?{httpx.QueryParams(query)}"


def session_path(session: str, **query: str) -> str:
    return f"/api/sessions/{session}/events?{httpx.QueryParams(query)}"


def tasks_of_viewers() -> list[str]:
    """The tasks by which this process serves viewers."""
    names = ("tell events", "wait for events", "hear a viewer", "wait for a viewer to leave", "wait for a choice")
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name() in names]


def narrow_socket(url: str) -> socket.socket:
    """A connection of which this side's kernel takes little."""
    host, port = url.removeprefix("http://").split(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    made.connect((host, int(port)))
    return made
