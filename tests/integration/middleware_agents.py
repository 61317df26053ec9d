"""Agents with middleware, which writes what it is given into the ledger.

Input: {"name": the test's own, "rounds": rounds of tools, "raises": a hook of a tracer, for example "b.before",
"recovers": the tracer whose error hook returns a turn, "fail": a model call that fails, "text": the last answer,
"latency": seconds of a model call, "slow": a hook of a tracer that takes until it is released}.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from perdure import App, agent
from perdure.execution import react
from perdure.middleware import Rejection, budget, guardrails, logging, memory
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import UAPEvent
from perdure.uap.hooks import AgentStrategy
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.uap.state import ExecutionState
from perdure.upp import AssistantMessage, ErrorCode, LLMRequest, Message, ToolCall, Turn, UPPError, UserMessage, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from perdure.upp.usage import TokenUsage, empty_usage
from tests.integration.agents import held_until_released, write_ledger

USAGE = TokenUsage(10, 5, 15)
SECRET = "secret"


def spec_of(message: Message) -> dict[str, Any]:
    return json.loads(message.text) if message.text.startswith("{") else {"name": message.text}


@tool(effect="none")
async def look(name: str, key: str) -> str:
    """Look."""
    write_ledger("tool", name, key=key)
    return f"{name} saw {key}"


async def _model(request: LLMRequest) -> Answer:
    place = max(place for place, message in enumerate(request.messages) if '"name"' in message.text)
    spec = spec_of(request.messages[place])
    given = sum(message.type == "assistant" for message in request.messages[place:])
    said = [message.text for message in request.messages[:place]]
    write_ledger("model", spec["name"], number=given, before=said, input=request.messages[place].text)
    await asyncio.sleep(spec.get("latency", 0))
    if given == spec.get("fail"):
        raise UPPError("no more", ErrorCode.CONTEXT_LENGTH_EXCEEDED, "scripted")
    if given >= spec.get("rounds", 0):
        return Answer(spec.get("text", f"done after {given}"), usage=USAGE)
    arguments = {"name": spec["name"], "key": f"{given} {spec.get('text', '')}"}
    return Answer("", tool_calls=[ToolCall(f"call_{given}", "look", arguments)], usage=USAGE)


class Tracer(Middleware):
    """Writes down its calls, and fails or recovers where the input says so."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def before(self, context: MiddlewareContext) -> None:
        context.metadata[f"{self.name}_seen"] = []
        await self._note(context, "before")

    async def after(self, context: MiddlewareContext, result: Turn) -> Turn:
        await self._note(context, "after", said=result.response.text)
        return result

    async def on_error(self, context: MiddlewareContext, error: Exception) -> Turn | None:
        await self._note(context, "on_error", error=str(error))
        if spec_of(context.input).get("recovers") != self.name:
            return None
        return Turn([context.input, AssistantMessage(f"{self.name} recovered")], [], empty_usage(), 1)

    async def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
        context.metadata[f"{self.name}_seen"].append(f"{event.type} {event.step}")
        spent = [context.spent.tokens, context.spent.steps]
        data = {name: value for name, value in event.data.items() if name not in ("stepId", "turnId", "usage")}
        await self._note(context, str(event.type), step=event.step, spent=spent, data=data)

    async def _note(self, context: MiddlewareContext, hook: str, **data: Any) -> None:
        spec = spec_of(context.input)
        write_ledger("around", spec["name"], hook=f"{self.name}.{hook}", metadata=dict(context.metadata), **data)
        if spec.get("slow") == f"{self.name}.{hook}":
            await held_until_released(spec["name"])
        if spec.get("raises") == f"{self.name}.{hook}":
            raise ValueError(f"{self.name}.{hook}")


def refuse_secret(text: str) -> str | Rejection | None:
    """Nothing secret is said to the model; names of people are replaced."""
    if SECRET in text:
        return Rejection("it is secret")
    return text.replace("Alice", "A.") if "Alice" in text else None


async def check_answer(text: str) -> str | None:
    """Nothing secret is said by it; names of people are replaced."""
    if SECRET in text:
        raise Rejection("it is secret")
    return text.replace("Bob", "B.") if "Bob" in text else None


def sum_up(messages: Sequence[Message]) -> str:
    said = [message.text for message in messages]
    write_ledger("summary", "summaries", of=said)
    return " + ".join(spec_of(message)["name"] for message in messages)


class Shelf:
    """A retriever that finds one text."""

    async def retrieve(self, query: str, k: int) -> Sequence[str | Message]:
        write_ledger("retrieved", spec_of(UserMessage(query))["name"], k=k)
        return ["found on the shelf"]


def log_line(line: str) -> None:
    write_ledger("line", "lines", line=line)


def _error(error: Exception, state: ExecutionState) -> Turn | None:
    spec = spec_of(state.messages[0])
    write_ledger("around", spec["name"], hook="strategy.on_error")
    if spec.get("recovers") != "strategy":
        return None
    return Turn([*state.messages, AssistantMessage("sorry")], state.tool_executions, state.usage, state.cycles)


def _complete(turn: Turn) -> None:
    write_ledger("around", spec_of(turn.messages[0])["name"], hook="strategy.on_complete")


def made(name: str, *middleware: Middleware, **more: Any) -> Agent:
    return agent(
        name=name, model=scripted(_model, chunk_size=5, chunk_delay=0.03), tools=[look], middleware=middleware, **more
    )


HOOKS = AgentStrategy(on_error=_error, on_complete=_complete)
AGENTS = [
    made("traced", Tracer("a"), Tracer("b"), Tracer("c"), strategy=HOOKS),
    made("guarded", guardrails(input=[refuse_secret], output=[check_answer]), Tracer("z")),
    made("reasoning_guarded", guardrails(output=[check_answer]), execution=react(max_steps=5)),
    made("sheltered", guardrails(output=[check_answer]), strategy=HOOKS),
    made("remembering", memory(max_messages=2)),
    made("summing", memory(max_messages=2, summarize=sum_up)),
    made("shelved", memory(retriever=Shelf())),
    made("by_tokens", budget(max_tokens=40)),
    made("by_steps", budget(max_steps=3)),
    made("by_cost", budget(max_cost="0.0004")),
    made("by_time", budget(max_seconds=5)),
    made("logged", logging(level="debug", logger=log_line)),
]
app = App(agents=AGENTS)
