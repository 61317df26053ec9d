"""Agents for the tests of agents and sub-agents, and scripted models whose requests are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Unpack

from perdure import agent
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import UAPEvent, UAPEventType
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.uap.option_types import AgentOptions
from perdure.upp.function_tool import tool
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.prices import Price, PriceTable
from perdure.upp.provider import LLMRequest, ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.upp.tool_call import ToolCall
from perdure.upp.tools import Tool
from perdure.upp.usage import TokenUsage

SHAPE: JSONObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
STEP = TokenUsage(100, 50, 150)
PRICES: PriceTable = {"scripted": {"scripted": Price(input=Decimal(10), output=Decimal(0))}}
"""A model call with usage `STEP` costs 1."""
VENDOR_A, VENDOR_B = ProviderConfig(api_key="a", headers={"x": "a", "y": "a"}), ProviderConfig(headers={"x": "b"})


@tool
def look(word: str) -> str:
    """Look a word up."""
    return f"seen {word}"


@dataclass
class Recorded:
    """A scripted model whose requests are kept."""

    script: Sequence[ScriptedAnswer]
    requests: list[LLMRequest] = field(default_factory=list[LLMRequest])

    @property
    def model(self) -> ModelReference:
        return scripted(self.answer)

    def answer(self, request: LLMRequest) -> ScriptedAnswer:
        self.requests.append(request)
        return self.script[sum(isinstance(message, AssistantMessage) for message in request.messages)]


def says(text: str) -> Answer:
    return Answer(text, usage=STEP)


def calls(*made: ToolCall) -> Answer:
    return Answer(tool_calls=made, usage=STEP)


def delegating(*children: Tool | Agent, times: int = 1, **options: Unpack[AgentOptions]) -> Agent:
    """An agent that gives a task to each of its sub-agents at once, and then says "done"."""
    made = agent(tools=children)
    wanted = [call(item.name, task="do it") for item in made.resolved] * times
    options.update({"model": scripted([calls(*wanted), says("done")]), "tools": children})
    return agent(**options)


def results(messages: Sequence[Message]) -> list[Any]:
    return [item.result for message in messages if isinstance(message, ToolResultMessage) for item in message.results]


def helper(text: str = "helped", **options: Unpack[AgentOptions]) -> Agent:
    made: AgentOptions = {"model": scripted([says(text)]), "name": "helper", "system": "You help. Always."}
    made.update(options)
    return agent(**made)


class Seeing(Middleware):
    """Keeps its contexts and events."""

    def __init__(self) -> None:
        self.contexts: list[MiddlewareContext] = []
        self.events: list[UAPEvent] = []

    def before(self, context: MiddlewareContext) -> None:
        self.contexts.append(context)

    async def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
        self.events.append(event)

    def ends(self, of: Agent) -> int:
        return sum(event.type is UAPEventType.STEP_END and event.agent_id == of.id for event in self.events)


def nested(levels: int, max_depth: int = 8) -> Agent:
    """A tower of agents: each gives its task to the one below, the lowest says "bottom"."""
    made = agent(model=scripted(["bottom"]), name="level0")
    for level in range(1, levels):
        made = agent(model=scripted([call(made.name or "", task="t"), "end"]), name=f"level{level}", tools=[made])
    script = [call(made.name or "", task="t"), "end"]
    return agent(model=scripted(script), name="top", tools=[made], max_depth=max_depth)
