"""Agents that say, do, keep and fail with what their input tells them: to look where its words end up.

Input: see `tests.integration.sub_agents`; with "break" the model fails with that text. A tool fails if its text begins
with "fail".
"""

from __future__ import annotations

import json
from typing import Any

from perdure import App, agent
from perdure.execution import loop
from perdure.uap.hooks import AgentStrategy
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.uap.state import ExecutionState
from perdure.upp import ErrorCode, LLMRequest, Turn, UPPError, client_tool, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.sub_agents import model_of


@tool(effect="none")
async def tell(text: str) -> str:
    """Repeat it; fail with it."""
    if text.startswith("fail"):
        raise RuntimeError(text)
    return f"told {text}"


@tool(approval="human")
async def publish(text: str) -> str:
    """What a person must allow."""
    return f"published {text}"


class Remember(Middleware):
    """Keeps what was said in the run's metadata, and puts something before what the model sees."""

    name = "remember"

    async def before(self, context: MiddlewareContext) -> None:
        context.metadata["seen"] = context.input.text

    async def after(self, context: MiddlewareContext, result: Turn) -> Turn:
        context.metadata["said"] = result.response.text
        return result


def _note(step: int, state: ExecutionState) -> None:
    state.metadata["noted"] = state.messages[0].text


async def _model(request: LLMRequest) -> Answer:
    last = next(message for message in reversed(request.messages) if message.type == "user")
    spec: dict[str, Any] = json.loads(last.text)
    if "break" in spec:
        raise UPPError(spec["break"], ErrorCode.INVALID_REQUEST, "scripted")
    return await model_of("keeper")(request)


helper = agent(name="helper", model=scripted(model_of("helper")), tools=[tell], execution=loop(max_iterations=9))
keeper = agent(
    name="keeper",
    model=scripted(_model),
    tools=[tell, publish, helper, client_tool("pick", "Ask the user.")],
    execution=loop(max_iterations=20),
    strategy=AgentStrategy(on_step_start=_note),
    middleware=[Remember()],
)
app = App(agents=[keeper])
