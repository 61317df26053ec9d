"""Agents whose words tell what they were sent, and a database of the test's own for their sessions."""

from __future__ import annotations

import json
from typing import Any

from perdure import agent
from perdure.execution import loop, react
from perdure.migrations.migrate import migrate
from perdure.store.database import Database
from perdure.uap.agent import Agent
from perdure.upp import ErrorCode, LLMRequest, ToolCall, UPPError, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
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
