"""Workers in the test's own process, on a database of the test's choice, and agents whose words tell what they were sent."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from perdure import agent
from perdure.activities.contracts import SESSION
from perdure.activities.convert import converter
from perdure.activities.services import Services
from perdure.execution import loop, react
from perdure.migrations.migrate import migrate
from perdure.runtime.sessions import Sessions
from perdure.runtime.temporal import connect_temporal
from perdure.store.agents import AgentRow, register_agents
from perdure.store.database import Database
from perdure.store.events import Announcer
from perdure.store.messages import MessageCache
from perdure.uap.agent import Agent
from perdure.uap.app import App
from perdure.upp import ErrorCode, LLMRequest, ToolCall, UPPError, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from perdure.worker.build import WorkerOptions, build_worker, perdure_plugin
from tests.integration.stack import Stack


def _model(request: LLMRequest) -> Answer:
    """{"steps": rounds of tools, "fail": the answer that fails, "size": bytes of each result}; else a plain answer."""
    prompts = ("Think about", "Based on your reasoning", "Tool results")
    said = [item.type == "user" and not item.text.startswith(prompts) for item in request.messages]
    last = max(place for place, is_input in enumerate(said) if is_input)
    text, since = request.messages[last].text, request.messages[last:]
    spec: dict[str, Any] = json.loads(text) if text.startswith("{") else {}
    given = sum(1 for item in since if item.type == "assistant" and "reasoning" not in item.text)
    if request.tool_choice == "none":
        return Answer(text=f"reasoning {given}")
    if given == spec.get("fail"):
        raise UPPError("out of order", ErrorCode.INVALID_REQUEST, "scripted")
    if given < spec.get("steps", 0):
        return Answer(
            text=f"step {given}", tool_calls=[ToolCall(f"c{given}", "work", {"n": given, "size": spec.get("size", 0)})]
        )
    return Answer(text=f"after {len(request.messages)} messages: {spec.get('name', 'done')}")


@tool(effect="none")
def work(n: int, size: int) -> str:
    """Does a step's work."""
    return f"result {n} " + "x" * size


def plain_agent() -> Agent:
    """A `loop` of up to 60 rounds."""
    return agent(name="tree", model=scripted(_model), tools=[work], execution=loop(max_iterations=60))


def react_agent() -> Agent:
    """The same as `react`."""
    return agent(name="reasoner", model=scripted(_model), tools=[work], execution=react(max_steps=40))


def told(**spec: object) -> str:
    """An input that says what the model does."""
    return json.dumps(spec)


@asynccontextmanager
async def serving(
    stack: Stack, agents: Sequence[Agent], *, url: str | None = None, tenant: str = "default"
) -> AsyncGenerator[Sessions, None]:
    """Sessions of a tenant whose agents a worker of this process serves.

    Args:
        stack: the servers.
        agents: all of them.
        url: another database than the stack's.
        tenant: whose.
    """
    queue = f"durable-{tenant}"
    database = Database(url or stack.addresses.database_url)
    client = await connect_temporal(stack.addresses.temporal, "default", plugins=[perdure_plugin()])
    services = Services(
        database=database, announcer=Announcer(database), cache=MessageCache(database), app=App(agents=list(agents))
    )
    rows = [AgentRow(str(one.name), one.id, SESSION, queue, converter.unstructure(one.spec())) for one in agents]
    await register_agents(database, tenant, rows)
    async with build_worker(client, services, WorkerOptions(task_queue=queue)):
        sessions = Sessions(client, database, tenant)
        yield sessions
        await sessions.close()
    await services.announcer.close()
    await database.close()


async def make_database(stack: Stack, name: str) -> str:
    """The URL of another database of the same server, migrated."""
    there = Database(stack.addresses.database_url)
    async with there.driver() as connection:
        await connection.execute(f'create database "{name}"')
    await there.close()
    url = stack.addresses.database_url.rpartition("/")[0] + f"/{name}"
    made = Database(url)
    await migrate(made)
    await made.close()
    return url
