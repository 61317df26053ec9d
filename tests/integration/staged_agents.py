"""Agents that walk a workflow, for tests. The input's JSON says what the model does; what tasks did is in the ledger.

Input: {"name": the test's own, "answers": [...]}. An answer is a list of [tool, arguments], each a call; "?" for the names
of the tools that the model is shown; or a text. After the last comes "end". PERDURE_TEST_GRAPH=2 has another graph.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from perdure import App, agent
from perdure.execution import loop, staged
from perdure.middleware import memory
from perdure.uaip import State, TaskContext, Workflow, stage, task, workflow
from perdure.upp import JSONValue, LLMRequest, ToolCall, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import write_ledger


def note(kind: str, name: str, **data: Any) -> None:
    """Write into the ledger, in processes that have one."""
    if "PERDURE_TEST_LEDGER" in os.environ:
        write_ledger(kind, name, **data)


async def _model(request: LLMRequest) -> Answer:
    last = max(place for place, message in enumerate(request.messages) if message.type == "user")
    said = request.messages[last].text
    if not said.startswith("{"):
        return Answer(f"about {said}")
    script = json.loads(said)
    given = sum(message.type == "assistant" for message in request.messages[last:])
    item = script["answers"][given] if given < len(script["answers"]) else "end"
    note("model", script["name"], number=given, tools=[shown.name for shown in request.tools])
    if item == "?":
        return Answer(" ".join(shown.name for shown in request.tools))
    if isinstance(item, str):
        return Answer(item)
    return Answer("", tool_calls=[ToolCall(f"c{given}_{at}", name, given_) for at, (name, given_) in enumerate(item)])


expert = agent(name="expert", model=scripted(_model), execution=loop())


@stage
class Shelf:
    """Look around."""

    @task(effect="none")
    def search(self, word: str) -> list[str]:
        """Find things."""
        return [f"{word}-{number}" for number in range(3)]


@stage
class Cart:
    """Choose."""

    @task(effect="idempotent")
    async def add(self, state: State, context: TaskContext, name: str, size: int = 0) -> int:
        """Add one."""
        note("add", name, key=context.idempotency_key, session=context.session_id)
        state.set("items", state.get("items", 0) + 1)
        state.set("filler", "x" * size)
        await asyncio.sleep(0)
        return state.get("items")

    @task(effect="none")
    def count(self, state: State) -> JSONValue:
        """What is in the state, without the long."""
        return {key: value for key, value in state.to_json().items() if key != "filler"}

    @task(agent=expert, save_as="advice")
    def ask(self, task: str):
        """Ask an expert."""


@stage(prerequisites=["items"])
class Desk:
    """Pay."""

    @task(effect="once", approval="human")
    async def pay(self, state: State, name: str) -> str:
        """Pay."""
        note("pay", name)
        state.set("paid", state.get("items"))
        return "paid"

    @task(effect="once")
    async def ship(self, name: str) -> str:
        """Ship."""
        note("ship", name)
        return "shipped"


@stage
class Office:
    """A stage that only the other graph has."""

    @task(effect="none")
    def call(self) -> str:
        """Call."""
        return "called"


def _first() -> Workflow:
    @workflow
    class Store:
        """Buy things."""

        shelf = Shelf
        cart = Cart
        desk = Desk
        transitions = {shelf: [cart], cart: [shelf, desk], desk: [cart]}

    return Store


def _second() -> Workflow:
    @workflow
    class Store:
        """Buy things, elsewhere."""

        shelf = Shelf
        desk = Desk
        office = Office
        transitions = {shelf: [desk], desk: [office], office: []}

    return Store


@tool(effect="none")
async def look(wait_ms: int = 0) -> str:
    """A tool of the agent's own."""
    await asyncio.sleep(wait_ms / 1000)
    return "seen"


buyer = agent(
    name="buyer",
    model=scripted(_model),
    tools=[look],
    execution=staged(_second() if os.environ.get("PERDURE_TEST_GRAPH") == "2" else _first()),
)
forgetful = buyer.copy(name="forgetful", middleware=[memory(max_messages=1)])
app = App(agents=[buyer, forgetful])
