"""Where a run's options end it, in process; that a workflow does the same is an integration test's part."""

from __future__ import annotations

from decimal import Decimal

import pytest

from perdure.errors import InvalidInput, LimitExceeded
from perdure.inprocess import InProcessHost
from perdure.uap.agent import agent
from perdure.uap.host import connected
from perdure.uap.options import RunOptions
from perdure.upp.function_tool import tool
from perdure.upp.prices import Price
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.upp.usage import TokenUsage

PRICES = {"scripted": {"scripted": Price(Decimal(1), Decimal(2))}}


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return word


def spender(steps: int) -> Answer:
    return Answer(tool_calls=[call("look_up", word="w")] * steps, usage=TokenUsage(1000, 500, 1500))


async def test_a_run_ends_once_it_has_cost_its_limit() -> None:
    """Each step costs 2; the third begins below 5, the fourth does not."""
    buyer = agent(model=scripted([spender(1)] * 9), tools=[look_up])
    with connected(InProcessHost(PRICES)), pytest.raises(LimitExceeded, match="cost 6, its limit is 5") as raised:
        await buyer.run("go", options=RunOptions(max_cost=Decimal(5)))
    assert raised.value.code == "max_cost"


async def test_a_turn_says_what_it_cost() -> None:
    buyer = agent(model=scripted([spender(1), Answer("done", usage=TokenUsage(1, 1, 2))]), tools=[look_up])
    with connected(InProcessHost(PRICES)):
        turn = await buyer.run("go", options=RunOptions(max_cost=Decimal(5)))
    assert turn.usage.cost == Decimal("2.003")


async def test_a_limit_of_money_without_a_price_is_refused_before_anything_is_bought() -> None:
    """The script has no answer that could be bought."""
    with connected(InProcessHost()), pytest.raises(InvalidInput, match="has no price; add it to the setting `prices`"):
        await agent(model=scripted([])).run("go", options=RunOptions(max_cost=Decimal(5)))


async def test_without_prices_a_turn_has_no_cost() -> None:
    with connected(InProcessHost()):
        assert (await agent(model=scripted(["hi"])).run("go")).usage.cost is None


async def test_a_server_that_counts_no_tokens_cannot_be_held_to_a_limit() -> None:
    """One call is made; that it cost nothing is not assumed."""
    silent = Answer(tool_calls=[call("look_up", word="w")], usage=TokenUsage(0, 0, 0))
    buyer = agent(model=scripted([silent] * 9), tools=[look_up])
    with connected(InProcessHost(PRICES)), pytest.raises(LimitExceeded, match="does not say how many tokens"):
        await buyer.run("go", options=RunOptions(max_cost=Decimal(5)))
