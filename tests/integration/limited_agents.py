"""Agents whose model notes when it is asked and when it has answered, for tests of limits over several workers.

Input, as JSON: {"name": the test's own, "steps": rounds of tools, "latency": seconds of a model call or `HELD`, "seconds": of a tool
call, "refuse": how many of all requests of that name are refused for their rate, "after": Retry-After in seconds}.
The agent's name is in the environment, so that each of several workers may have its own.
"""

from __future__ import annotations

import asyncio
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure import App, agent
from perdure.execution import loop
from perdure.upp import ErrorCode, LLMRequest, ToolCall, UPPError, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from perdure.upp.usage import TokenUsage
from tests.integration.agents import HELD, held_until_released, write_ledger


def _asked_before(name: str) -> int:
    lines = Path(os.environ["PERDURE_TEST_LEDGER"]).read_text(encoding="utf-8").splitlines()
    return sum(1 for line in lines if (entry := json.loads(line))["name"] == name and entry["kind"] == "model")


async def _model(request: LLMRequest) -> Answer:
    spec: dict[str, Any] = json.loads(next(message.text for message in request.messages if message.type == "user"))
    given = sum(1 for message in request.messages if message.type == "assistant")
    write_ledger("model", spec["name"], number=given)
    if spec.get("refuse") and _asked_before(spec["name"]) <= spec["refuse"]:
        after = spec.get("after")
        raise UPPError(
            "too many requests",
            ErrorCode.RATE_LIMITED,
            "scripted",
            retry_after=None if after is None else timedelta(seconds=after),
        )
    latency = spec.get("latency", 0)
    await (held_until_released(spec["name"]) if latency == HELD else asyncio.sleep(latency))
    write_ledger("model_done", spec["name"], number=given)
    usage = TokenUsage(1000, 500, 1500)
    if given >= spec.get("steps", 0):
        return Answer("done", usage=usage)
    call = ToolCall(f"call_{given}", "work", {"name": spec["name"], "seconds": spec.get("seconds", 0)})
    return Answer(tool_calls=[call], usage=usage)


@tool(effect="none")
async def work(name: str, seconds: float) -> str:
    """Take a while."""
    write_ledger("tool", name)
    await asyncio.sleep(seconds)
    write_ledger("tool_done", name)
    return "worked"


caller = agent(
    name=os.environ.get("PERDURE_TEST_AGENT", "caller"),
    model=scripted(_model),
    tools=[work],
    execution=loop(max_iterations=1000),
)
app = App(agents=[caller])
