"""Agents that say their secrets wherever they can. `spread` writes a value in the ways in which it may be written."""

from __future__ import annotations

import base64
import json
import logging
import os
from typing import Any
from urllib.parse import quote

from perdure import App, agent, secret
from perdure.execution import loop, react
from perdure.uap.hooks import AgentStrategy, StepResult
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.upp import (
    ErrorCode,
    JSONValue,
    LLMRequest,
    ProviderConfig,
    ToolCall,
    ToolContext,
    ToolResultMessage,
    UPPError,
    UserMessage,
    tool,
)
from perdure.upp.providers import openai
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import write_ledger

logger = logging.getLogger("perdure.tests.secret_agents")
PRECIOUS = secret("env:CANARY_APP")


def spread(value: str) -> str:
    """A value in plain, in JSON, in an address and in base64, alone and within something else."""
    inside = base64.b64encode(f"user:{value}".encode()).decode()
    return (
        f"{value} {json.dumps(value)} ?q={quote(value, safe='')} {base64.b64encode(value.encode()).decode()} {inside}"
    )


@tool(effect="none")
async def leak(told: str, context: ToolContext) -> JSONValue:
    """Return a secret."""
    value = context.secret("precious")
    write_ledger("tool", "leak", told=told, length=len(value), mask=f"{context}")
    logger.warning("a tool logs %s", value)
    return {"value": value, value: [spread(value)], "told": told}


@tool(effect="none")
async def fail(context: ToolContext) -> str:
    """Raise a secret."""
    raise RuntimeError(f"cannot use {spread(context.secret('precious'))}")


@tool(effect="none", approval="human")
async def ask_first(key: str) -> str:
    """Ask, with a secret in the question."""
    return key


def _last_answers(request: LLMRequest) -> int:
    return sum(message.type == "assistant" for message in request.messages)


def _chatter(request: LLMRequest) -> Answer:
    said = spread(os.environ["CANARY_APP"])
    if _last_answers(request):
        results = [message for message in request.messages if isinstance(message, ToolResultMessage)]
        return Answer(f"{said} {len(results)} {said}", reasoning=f"so {said}")
    value = os.environ["CANARY_APP"]
    calls = [
        ToolCall("call_leak", "leak", {"told": value}),
        ToolCall("call_fail", "fail", {}),
        ToolCall("call_ask", "ask_first", {"key": value}),
        ToolCall("call_sub", "helper", {"task": f"use {said}"}),
    ]
    return Answer(f"I know {said}", calls, reasoning=f"they told me {said}")


class Marker(Middleware):
    """Keeps a secret in the metadata, and puts it into the history."""

    name = "marker"

    def before(self, context: MiddlewareContext) -> None:
        """See base class."""
        value = context.secret("precious")
        context.metadata["marker"] = {"value": value}
        context.history.append(UserMessage(f"by the way: {value}"))


def on_step_end(step: int, result: StepResult) -> None:
    """Leave a secret in the run's state."""
    result.state.metadata["kept"] = PRECIOUS.get_key()


def on_failing_step(step: int, state: Any) -> None:
    """Raise a secret."""
    raise ValueError(f"the hook failed with {spread(PRECIOUS.get_key())}")


def _refuse(request: LLMRequest) -> Answer:
    raise UPPError(f"no: {spread(os.environ['CANARY_APP'])}", ErrorCode.INVALID_REQUEST, "scripted")


helper = agent(name="helper", model=scripted([f"done {os.environ['CANARY_APP']}"]), execution=loop())
app = App(
    agents=[
        agent(
            name="chatter",
            model=scripted(_chatter, chunk_size=3),
            tools=[leak, fail, ask_first, helper.to_tool(name="helper", description="Help.")],
            execution=loop(),
            strategy=AgentStrategy(on_step_end=on_step_end),
            middleware=[Marker()],
            system=f"Your key is {os.environ['CANARY_APP']}",
        ),
        agent(
            name="hook-fails", model=scripted(["hello"]), execution=react(),
            strategy=AgentStrategy(on_step_start=on_failing_step),
        ),
        agent(name="model-fails", model=scripted(_refuse), execution=loop()),
        agent(
            name="vendor",
            model=openai("gpt-4.1", api="completions"),
            config=ProviderConfig(
                base_url=os.environ["PERDURE_TEST_VENDOR"],
                api_key=secret("env:CANARY_KEY"),
                headers={"x-account": secret("env:CANARY_HEADER")},
            ),
        ),
    ],
    secrets={"precious": PRECIOUS},
)  # fmt: skip
