"""`budget`: its decision, and real runs that it ends."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput, LimitExceeded
from perdure.middleware import budget
from perdure.uap.agent import Agent, agent
from perdure.uap.agent_stream import UAPEvent, UAPEventType
from perdure.uap.hooks import AgentStrategy
from perdure.uap.host import connected
from perdure.uap.middleware import Middleware, MiddlewareContext, tell
from perdure.uap.middlewares.budget import Budget, BudgetLimits, decide
from perdure.uap.spent import Spent
from perdure.upp.function_tool import tool
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.prices import Price
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, empty_usage
from tests.unit.middleware.pipeline_host import PipelineHost

PRICES = {"scripted": {"scripted": Price(Decimal(1), Decimal(2))}}


@tool
def look(word: str) -> str:
    """Look a word up."""
    return word


def spender(steps: int) -> Agent:
    """Each step takes 1,500 tokens and costs 2; after so many steps with a tool call comes the answer."""
    usage = TokenUsage(1000, 500, 1500)
    script: list[ScriptedAnswer] = [Answer(tool_calls=[call("look", word="w")], usage=usage)] * steps
    return agent(model=scripted([*script, Answer("done", usage=usage)]), tools=[look])


async def run(made: Agent, *middleware: Middleware) -> tuple[Turn | LimitExceeded, PipelineHost]:
    host = PipelineHost(*middleware, prices=PRICES)
    with connected(host):
        try:
            return await made.run("go"), host
        except LimitExceeded as error:
            return error, host


@pytest.mark.parametrize(
    ("options", "code", "message", "steps"),
    [
        ({"max_tokens": 1500}, "max_tokens", "the run took 1500 tokens, its budget is 1500", 1),
        ({"max_tokens": 1501}, "max_tokens", "the run took 3000 tokens, its budget is 1501", 2),
        ({"max_steps": 3}, "max_steps", "the run took 3 steps, its budget is 3", 3),
        ({"max_cost": 5}, "max_cost", "the run cost 6, its budget is 5", 3),
        ({"max_cost": "0.01", "max_steps": 9}, "max_cost", "the run cost 2, its budget is 0.01", 1),
    ],
)
async def test_a_run_ends_at_the_step_boundary_where_a_limit_is_reached(
    options: dict[str, Any], code: str, message: str, steps: int
) -> None:
    error, host = await run(spender(5), budget(**options))
    assert isinstance(error, LimitExceeded)
    assert (str(error), error.code, host.contexts[0].spent.steps) == (message, code, steps)


async def test_an_answer_that_was_paid_for_is_given() -> None:
    """However far over the limit the last step went."""
    turn, _ = await run(spender(0), budget(max_tokens=1, max_steps=1, max_cost=1))
    assert isinstance(turn, Turn)


async def test_two_budgets_count_once_each() -> None:
    error, _ = await run(spender(5), budget(max_tokens=6000), budget(max_tokens=3000))
    assert str(error) == "the run took 3000 tokens, its budget is 3000"


async def test_runs_of_one_agent_have_budgets_of_their_own() -> None:
    limits = budget(max_steps=2)
    made = spender(1)
    assert [type((await run(made, limits))[0]) for _ in range(2)] == [Turn, Turn]


async def test_a_run_whose_cost_is_not_known_ends_after_its_first_step() -> None:
    with connected(PipelineHost(budget(max_cost=5))), pytest.raises(LimitExceeded, match="is not known") as raised:
        await spender(2).run("go")
    assert raised.value.code == "max_cost"


async def test_the_agents_own_error_hook_may_recover() -> None:
    sorry = Turn([AssistantMessage("over budget")], [], empty_usage(), 1)
    made = replace(spender(5), strategy=AgentStrategy(on_error=lambda error, state: sorry))
    result = (await run(made, budget(max_steps=1)))[0]
    assert isinstance(result, Turn)
    assert result.messages == sorry.messages


async def test_time_is_counted_from_before_the_run() -> None:
    times = iter([100.0, 101.5, 102.0])
    item = Budget(BudgetLimits(max_seconds=2), clock=lambda: next(times))
    made = spender(0)
    context = MiddlewareContext(agent=made, input=UserMessage("go"))
    await item.before(context)
    await tell([item], context, UAPEvent(UAPEventType.STEP_START, 1, made.id))
    with pytest.raises(LimitExceeded, match=r"the run took 2\.0 s, its budget is 2") as raised:
        await tell([item], context, UAPEvent(UAPEventType.STEP_START, 2, made.id))
    assert raised.value.code == "max_time"


async def test_the_time_is_that_of_the_first_process() -> None:
    """A context that comes back from another process keeps its start."""
    made = spender(0)
    context = MiddlewareContext(agent=made, input=UserMessage("go"))
    await Budget(BudgetLimits(max_seconds=2), clock=lambda: 100.0).before(context)
    later = Budget(BudgetLimits(max_seconds=2), clock=lambda: 200.0)
    await later.before(context)
    with pytest.raises(LimitExceeded):
        later.on_event(context, UAPEvent(UAPEventType.STEP_START, 1, made.id))


async def test_a_sub_agents_step_is_not_where_the_run_ends() -> None:
    made, child = spender(0), spender(1)
    context = MiddlewareContext(agent=made, input=UserMessage("go"), spent=Spent(tokens=9))
    await tell([budget(max_tokens=9)], context, UAPEvent(UAPEventType.STEP_START, 1, child.id))


amounts = st.integers(0, 5)
limits = st.one_of(st.none(), st.integers(1, 5))


@given(limits, limits, limits, limits, amounts, amounts, amounts, amounts)
def test_the_decision_is_that_of_the_first_limit_reached(
    max_tokens: int | None, max_steps: int | None, max_seconds: int | None, max_cost: int | None,
    tokens: int, steps: int, seconds: int, cost: int,
) -> None:  # fmt: skip
    asked = BudgetLimits(
        max_tokens=max_tokens,
        max_steps=max_steps,
        max_seconds=max_seconds,
        max_cost=None if max_cost is None else Decimal(max_cost),
    )
    pairs = [(max_tokens, tokens), (max_steps, steps), (max_seconds, seconds), (max_cost, cost)]
    reached = [limit is not None and spent >= limit for limit, spent in pairs]
    codes = ["max_tokens", "max_steps", "max_time", "max_cost"]
    expected = next((code for code, is_reached in zip(codes, reached, strict=True) if is_reached), None)
    assert decide(asked, Spent(tokens, steps, Decimal(cost)), seconds) == expected


def test_a_cost_that_is_not_known_has_reached_any_limit() -> None:
    assert decide(BudgetLimits(max_cost=Decimal(9)), Spent(cost=None), 0) == "max_cost"
    assert decide(BudgetLimits(max_steps=9), Spent(cost=None), 0) is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_tokens": 0},
        {"max_tokens": True},
        {"max_steps": 1.5},
        {"max_seconds": 0},
        {"max_seconds": float("inf")},
        {"max_seconds": float("nan")},
        {"max_cost": 0},
        {"max_cost": 1.5},
        {"max_cost": "much"},
        {"max_cost": Decimal("NaN")},
    ],
)
def test_limits_that_cannot_be_limits_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"lacks a limit|must be"):
        budget(**options)
