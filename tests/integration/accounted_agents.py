"""Agents of which it is known what they use, served by a worker of the test's own process; they note what they see.

Input, also a sub-agent's task: {"script": [what the model answers, in order: a text, a list of {"tool", "arguments"},
{"error": a code, and once "until" is in `cured` the text there}, or {"wait": true} for no answer at all]}. Any other text
is answered "re: ...".
"""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any, cast

from perdure import agent, query
from perdure.execution import loop
from perdure.middleware import budget, memory
from perdure.uap.agent_stream import UAPEvent, UAPEventType
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.upp import AssistantMessage, ErrorCode, LLMRequest, ToolCall, Turn, UPPError, tool
from perdure.upp.prices import Price, PriceTable
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from perdure.upp.usage import TokenUsage
from tests.integration.custom_strategies import Custom

USAGE = TokenUsage(10, 5, 15)
PRICES: PriceTable = {"scripted": {"scripted": Price(Decimal(1), Decimal(2))}}
CALL_COSTS = Decimal("0.02")

cured: set[str] = set()
noted: list[Any] = []


def said(*script: Any) -> str:
    """An input that says what the model answers."""
    return json.dumps({"script": list(script)})


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    """One tool call of a script."""
    return {"tool": name, "arguments": arguments}


def asks(who: str, *script: Any) -> dict[str, Any]:
    """A tool call that gives a sub-agent its script."""
    return calls(who, task=said(*script))


async def _model(request: LLMRequest) -> Answer:
    last = max(place for place, message in enumerate(request.messages) if message.type == "user")
    text = request.messages[last].text
    if not text.startswith("{"):
        return Answer(f"re: {text}", usage=USAGE)
    given = sum(message.type == "assistant" for message in request.messages[last:])
    item = cast("str | dict[str, Any] | list[dict[str, Any]]", json.loads(text)["script"][given])
    if isinstance(item, str):
        return Answer(item, usage=USAGE)
    if isinstance(item, list):
        made = [ToolCall(f"call_{given}_{n}", one["tool"], one["arguments"]) for n, one in enumerate(item)]
        return Answer("", tool_calls=made, usage=USAGE)
    if item.get("wait"):
        noted.append("waiting")
        await asyncio.sleep(60)
    if item.get("until") in cured:
        return Answer("cured", usage=USAGE)
    raise UPPError("no more", ErrorCode(item["error"]), "scripted")


MODEL = scripted(_model)
STEPS = loop(max_iterations=20)


@tool(effect="none")
async def note(key: str) -> str:
    """Note something."""
    return f"noted {key}"


@tool(effect="none")
async def wonder(what: str) -> str:
    """Ask somebody else, aside."""
    return (await query(helper, what)).turn.response.text


class Watch(Middleware):
    """Notes what was spent at each step's start, and what the tools came to."""

    name = "watch"
    listens = frozenset({UAPEventType.STEP_START, UAPEventType.OBSERVATION})

    def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
        if event.agent_id != context.agent.id:
            return
        if event.type is UAPEventType.STEP_START:
            noted.append([event.step, context.spent.tokens, str(context.spent.cost)])
        else:
            noted.append([(item["result"], item["isError"]) for item in cast("list[Any]", event.data["results"])])


class Replacing(Middleware):
    """Gives each run another turn than its own."""

    name = "replacing"

    async def after(self, context: MiddlewareContext, result: Turn) -> Turn:
        answer = AssistantMessage("in its place", id="replaced", timestamp=result.messages[0].timestamp)
        return Turn([context.input, answer], [], result.usage, result.cycles)


helper = agent(name="helper", model=MODEL)
child = agent(name="child", model=MODEL, tools=[note], execution=STEPS)
plain = agent(name="plain", model=MODEL, tools=[note, child], execution=STEPS)
summing = agent(name="summing", model=MODEL, middleware=[memory(max_messages=1, summarize=MODEL), Watch()])
replaced = agent(name="replaced", model=MODEL, tools=[note], execution=STEPS, middleware=[Replacing()])
wondering = agent(name="wondering", model=MODEL, tools=[wonder], execution=STEPS)
limited = agent(
    name="limited", model=MODEL, tools=[child], execution=STEPS, middleware=[budget(max_tokens=50), Watch()]
)
watched = agent(name="watched", model=MODEL, tools=[child], execution=STEPS, middleware=[Watch()])
custom_watched = agent(name="custom_watched", model=MODEL, tools=[note], execution=Custom(), middleware=[Watch()])
custom_replaced = agent(name="custom_replaced", model=MODEL, execution=Custom(), middleware=[Replacing()])
custom_leader = agent(name="custom_leader", model=MODEL, tools=[child], execution=Custom())
AGENTS = [plain, summing, replaced, wondering, limited, watched, custom_watched, custom_replaced, custom_leader]
