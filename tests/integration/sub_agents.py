"""Agents with sub-agents. What each model says is told by its input's JSON; what it was asked is in the ledger.

Input: {"name": the test's own, "script": [what it answers, in order: a text, a list of {"tool", "arguments"}, or
{"error": a code}], "latency": seconds of a model call, "held": the number of the one, from 0, that waits for the test's
`Stack.release`}. The task of a sub-agent is such an input.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

from perdure import App, agent
from perdure.execution import loop
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.upp import ErrorCode, LLMRequest, ToolCall, Turn, UPPError, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import HELD, held_until_released, write_ledger
from tests.integration.custom_strategies import Custom


def model_of(who: str) -> Callable[[LLMRequest], Awaitable[Answer]]:
    """A model that follows its input's script."""

    async def answer(request: LLMRequest) -> Answer:
        last = max(place for place, message in enumerate(request.messages) if message.type == "user")
        given = sum(message.type == "assistant" for message in request.messages[last:])
        spec: dict[str, Any] = json.loads(request.messages[last].text)
        write_ledger("model", spec["name"], who=who, number=given, system=request.system)
        if spec.get("held") == given:
            await held_until_released(spec["name"])
        await asyncio.sleep(spec.get("latency", 0))
        write_ledger("answered", spec["name"], who=who, number=given)
        item = cast("str | dict[str, str] | list[dict[str, Any]]", spec["script"][given])
        if isinstance(item, str):
            return Answer(item)
        if isinstance(item, dict):
            raise UPPError(item["error"], ErrorCode(item["error"]), "scripted")
        return Answer(
            "", tool_calls=[ToolCall(f"call_{given}_{n}", one["tool"], one["arguments"]) for n, one in enumerate(item)]
        )

    return answer


def ask(who: str, name: str, *script: Any, **more: Any) -> dict[str, Any]:
    """A tool call that gives a sub-agent its script."""
    return {"tool": who, "arguments": {"task": json.dumps({"name": name, "script": list(script), **more})}}


@tool(effect="none")
async def note(name: str, key: str, seconds: float = 0) -> str:
    """Write into the ledger."""
    write_ledger("tool", name, key=key)
    await (held_until_released(name) if seconds == HELD else asyncio.sleep(seconds))
    write_ledger("tool_done", name, key=key)
    return f"noted {key}"


@tool(effect="once")
async def deed(name: str, key: str) -> str:
    """Never done twice."""
    write_ledger("tool", name, key=key)
    await asyncio.sleep(30)
    return f"done {key}"


STEPS = loop(max_iterations=150)
digger = agent(name="digger", model=scripted(model_of("digger")), tools=[note, deed], execution=STEPS, system="Dig.")
heir = agent(name="heir", tools=[note], execution=STEPS, system="Inherit.")
explorer = agent(
    name="explorer",
    model=scripted(model_of("explorer")),
    tools=[note, digger, heir],
    execution=STEPS,
    system="Explore.",
)
loner = agent(name="loner", model=scripted(model_of("loner")), execution=Custom(), system="Your own way.")
chief = agent(
    name="chief",
    model=scripted(model_of("chief")),
    tools=[note, explorer, explorer.to_tool(name="scout"), heir, loner],
    execution=STEPS,
    system="Lead.",
)
shallow = agent(name="shallow", model=scripted(model_of("shallow")), tools=[explorer], execution=STEPS, max_depth=1)


class Checked(Middleware):
    """Puts another answer in place of the agent's."""

    name = "checked"

    async def after(self, context: MiddlewareContext, result: Turn) -> Turn:
        return replace(result, data={"said": "checked"})


scribe = agent(
    name="scribe",
    model=scripted(model_of("scribe")),
    structure={"type": "object", "properties": {"said": {"type": "string"}}},
    middleware=[Checked()],
)
editor = agent(name="editor", model=scripted(model_of("editor")), tools=[scribe], execution=STEPS)
app = App(agents=[chief, shallow, editor])
