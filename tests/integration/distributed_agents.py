"""The agents of the distributed tests: one works with tools, one talks at length, one needs approvals, one tells what it does."""

from __future__ import annotations

import asyncio

from perdure import App, agent
from perdure.execution import loop
from perdure.upp import LLMRequest, ToolCall, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import talker, worker
from tests.integration.approval_agents import clerk

FIRST = "I shall look at it now, and say so before I do."
LAST = "It was looked at, and this is all that can be said of it."


@tool(effect="none")
async def look() -> str:
    """Takes a moment."""
    await asyncio.sleep(0.3)
    return "seen"


def _tell(request: LLMRequest) -> Answer:
    if request.messages[-1].type == "tool_result":
        return Answer(LAST)
    return Answer(FIRST, tool_calls=[ToolCall("call", "look", {})])


teller = agent(
    name="teller", model=scripted(_tell, chunk_size=6, chunk_delay=0.01), tools=[look], execution=loop(max_iterations=5)
)
app = App(agents=[worker, talker, clerk, teller])
