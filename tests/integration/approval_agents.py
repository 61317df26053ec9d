"""Agents whose tools a person approves, or a client runs. What was done is in the ledger, with the arguments it was done with."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

from perdure import App, agent
from perdure.execution import loop
from perdure.upp import LLMRequest, ToolCall, client_tool, tool
from perdure.upp.json_value import JSONObject
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from perdure.upp.tools import Approval
from tests.integration.agents import write_ledger
from tests.integration.sub_agents import model_of

STEPS = loop(max_iterations=20)


def _pay(kind: str, name: str, to: str, amount: int) -> str:
    write_ledger("tool", name, effect=kind, to=to, amount=amount)
    return f"paid {amount} to {to}"


@tool(approval="human")
async def pay(name: str, to: str, amount: int) -> str:
    """Pay; never twice."""
    return _pay("at_most_once", name, to, amount)


@tool(approval="human", effect="once")
async def pay_once(name: str, to: str, amount: int) -> str:
    """Pay; whether it was paid is asked if nobody knows."""
    return _pay("once", name, to, amount)


@tool(approval="human", effect="idempotent")
async def pay_by_key(name: str, to: str, amount: int) -> str:
    """Pay; a repetition is the same payment."""
    return _pay("idempotent", name, to, amount)


async def _is_small(arguments: JSONObject) -> Approval:
    amount = arguments["amount"]
    assert isinstance(amount, int)
    if amount < 0:
        return False
    return True if amount < 100 else "human"


@tool(approval=_is_small)
async def pay_small(name: str, to: str, amount: int) -> str:
    """Pay; much needs a person."""
    return _pay("at_most_once", name, to, amount)


@tool(approval="human", approval_timeout=timedelta(seconds=1))
async def pay_soon(name: str, to: str, amount: int) -> str:
    """Pay, if somebody says so at once."""
    return _pay("at_most_once", name, to, amount)


@tool(effect="once")
async def hang(name: str) -> str:
    """Takes long, and is never done twice."""
    write_ledger("tool", name, effect="once", to="", amount=0)
    await asyncio.sleep(30)
    return "done"


pick = client_tool("pick", "Have the user pick one.", {"type": "object", "properties": {"of": {"type": "string"}}})
pick_soon = client_tool("pick_soon", "Have the user pick one now.", timeout=timedelta(seconds=1))
TOOLS = [pay, pay_once, pay_by_key, pay_small, pay_soon, hang, pick, pick_soon]


def _dicey(request: LLMRequest) -> Answer:
    """Asks for another amount each time it is asked."""
    if request.messages[-1].type == "tool_result":
        return Answer("done")
    name = request.messages[-1].text
    amount = random.randrange(1, 10**9)
    return Answer("", tool_calls=[ToolCall("c", "pay", {"name": name, "to": "x", "amount": amount})])


clerk = agent(name="clerk", model=scripted(model_of("clerk")), tools=TOOLS, execution=STEPS)
manager = agent(name="manager", model=scripted(model_of("manager")), tools=[clerk], execution=STEPS)
owner = agent(name="owner", model=scripted(model_of("owner")), tools=[manager], execution=STEPS)
dicey = agent(name="dicey", model=scripted(_dicey), tools=[pay], execution=STEPS)
app = App(agents=[clerk, owner, dicey])
