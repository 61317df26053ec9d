"""Agents whose runs are paid for.

Input, as JSON: {"name": the test's own, "steps": rounds of a tool, "latency": seconds, "task": the input of a sub-agent
that is called first}. Each model call costs 0.02 USD by `PRICES`; "teller" has 0.05 held at a time, and "dear" 0.02.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from perdure import App, agent
from perdure.execution import loop
from perdure.payments import Paid
from perdure.uap.agent import Agent
from perdure.upp import LLMRequest, ToolCall, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from perdure.upp.usage import TokenUsage
from tests.integration.agents import write_ledger
from tests.integration.custom_strategies import custom

PRICES = {"scripted": {"scripted": {"input": "1", "output": "2"}}}
ENVIRONMENT = {"PERDURE_PRICES": json.dumps(PRICES)}
CALL_COSTS = "0.02"


async def _model(request: LLMRequest) -> Answer:
    last = max(place for place, message in enumerate(request.messages) if message.type == "user")
    spec: dict[str, Any] = json.loads(request.messages[last].text)
    given = sum(message.type == "assistant" for message in request.messages[last:])
    write_ledger("model", spec["name"], number=given, history=len(request.messages))
    await asyncio.sleep(spec.get("latency", 0))
    usage = TokenUsage(10, 5, 15)
    if given >= spec.get("steps", 0):
        return Answer(f"answer of {spec['name']}", usage=usage)
    if given == 0 and "task" in spec:
        return Answer(tool_calls=[ToolCall("call_0", "helper", {"task": json.dumps(spec["task"])})], usage=usage)
    return Answer(tool_calls=[ToolCall(f"call_{given}", "work", {"name": spec["name"]})], usage=usage)


@tool(effect="idempotent")
async def work(name: str) -> str:
    """Work."""
    write_ledger("tool", name, effect="idempotent")
    return "worked"


def paid_agent(name: str) -> Agent:
    """An agent of that name."""
    return agent(name=name, model=scripted(_model), tools=[work], execution=loop(max_iterations=50))


WAIT_S = float(os.environ.get("PERDURE_TEST_WAIT_S", "3600"))
app = App(
    agents=[
        paid_agent("teller"),
        paid_agent("dear"),
        paid_agent("free"),
        agent(name="boss", model=scripted(_model), tools=[work, paid_agent("helper")]),
        agent(name="own", model=scripted(_model), tools=[work], execution=custom),
    ],
    paid={
        "teller": Paid(hold="0.05", wait_s=WAIT_S, low_balance="1"),
        "dear": Paid(hold="0.02", wait_s=WAIT_S),
        "boss": Paid(hold="0.05"),
        "own": Paid(hold="0.02"),
    },
)
