"""Where a run's options end it, in process; that a workflow does the same is an integration test's part."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal

import pytest

from perdure.errors import InvalidInput, LimitExceeded
from perdure.inprocess import InProcessHost
from perdure.uap.agent import agent
from perdure.uap.allowance import Allowance
from perdure.uap.child_options import child_options
from perdure.uap.hooks import AgentStrategy
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


async def test_a_run_ends_once_it_has_used_its_tokens() -> None:
    """Each step uses 1500; the second begins below 2000, the third does not."""
    buyer = agent(model=scripted([spender(1)] * 9), tools=[look_up])
    with (
        connected(InProcessHost()),
        pytest.raises(LimitExceeded, match="used 3000 tokens, its limit is 2000") as raised,
    ):
        await buyer.run("go", options=RunOptions(max_total_tokens=2000))
    assert raised.value.code == "max_total_tokens"


async def test_tokens_that_nobody_counts_cannot_be_held_to_a_limit() -> None:
    silent = Answer(tool_calls=[call("look_up", word="w")], usage=TokenUsage(0, 0, 0))
    buyer = agent(model=scripted([silent] * 9), tools=[look_up])
    with connected(InProcessHost()), pytest.raises(LimitExceeded, match="does not say how many tokens"):
        await buyer.run("go", options=RunOptions(max_total_tokens=5))


async def test_a_run_whose_time_is_over_is_cancelled_in_the_middle() -> None:
    """The tool learns of it, and the run's own hook is told why."""
    told: list[str] = []

    @tool
    async def dawdle() -> str:
        """Take for ever."""
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise
        return "never"

    hooks = AgentStrategy(on_error=lambda error, state: told.append(getattr(error, "code", "")))
    slow = agent(model=scripted([Answer(tool_calls=[call("dawdle")])]), tools=[dawdle], strategy=hooks)
    with connected(InProcessHost()), pytest.raises(LimitExceeded, match=r"took 1\.5 s, its limit") as raised:
        await slow.run("go", options=RunOptions(max_duration=timedelta(seconds=1.5)))
    assert (raised.value.code, told) == ("max_duration", ["cancelled", "max_duration"])


async def test_a_sub_agent_has_no_more_time_than_its_parent() -> None:
    """Its own run is cancelled, and the parent ends by its own limit."""
    inner = agent(name="inner", model=scripted([Answer("late")], latency=600))
    outer = agent(model=scripted([Answer(tool_calls=[call("inner", task="t")])]), tools=[inner])
    with connected(InProcessHost()), pytest.raises(LimitExceeded) as raised:
        await outer.run("go", options=RunOptions(max_duration=timedelta(seconds=0.3)))
    assert raised.value.code == "max_duration"


async def test_a_sub_agents_tokens_are_its_parents() -> None:
    """The parent used 1500, its sub-agent all that was left of 4000; the parent's next step does not begin."""
    inner = agent(name="inner", model=scripted([spender(1)] * 9), tools=[look_up])
    asking = Answer(tool_calls=[call("inner", task="t")], usage=TokenUsage(1000, 500, 1500))
    outer = agent(model=scripted([asking] * 9), tools=[inner])
    with connected(InProcessHost()), pytest.raises(LimitExceeded, match="sub-agents used 4500 tokens") as raised:
        await outer.run("go", options=RunOptions(max_total_tokens=4000))
    assert raised.value.code == "max_total_tokens"


def test_a_sub_agent_gets_what_is_left() -> None:
    """Of the run's own limits, and of its session's where less of it is left."""
    parent = RunOptions(max_steps=7, max_cost=Decimal(9), max_total_tokens=100, max_duration=timedelta(seconds=60))
    made = child_options(parent, Decimal(4), 30, seconds=12.5)
    assert made == RunOptions(
        max_steps=7, max_cost=Decimal(5), max_total_tokens=70, max_duration=timedelta(seconds=12.5)
    )
    tighter = child_options(parent, Decimal(4), 30, session=Allowance(tokens=50, cost=Decimal(6), session=True))
    assert (tighter.max_total_tokens, tighter.max_cost, tighter.max_duration) == (20, Decimal(2), None)


@pytest.mark.parametrize(
    ("spent", "tokens", "seconds", "code"),
    [(Decimal(9), 0, 1.0, "max_cost"), (None, 0, 1.0, "max_cost"), (Decimal(0), 100, 1.0, "max_total_tokens"),
     (Decimal(0), 0, 0.0, "max_duration")],
)  # fmt: skip
def test_where_nothing_is_left_no_sub_agent_begins(
    spent: Decimal | None, tokens: int, seconds: float, code: str
) -> None:
    parent = RunOptions(max_cost=Decimal(9), max_total_tokens=100, max_duration=timedelta(seconds=60))
    with pytest.raises(LimitExceeded) as raised:
        child_options(parent, spent, tokens, seconds=seconds)
    assert raised.value.code == code
