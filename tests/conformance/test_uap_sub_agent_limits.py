"""What sub-agents use counts against the limits of those above them, and is told by agent; in process."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from perdure import agent, session
from perdure.errors import LimitExceeded
from perdure.inprocess import InProcessHost
from perdure.middleware import budget
from perdure.uap.active_session import current_run
from perdure.uap.agent_stream import UAPEvent, UAPEventType
from perdure.uap.hooks import AgentStrategy
from perdure.uap.host import connected
from perdure.uap.lineage import usage_by_agent
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.uap.options import RunOptions
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.usage import TokenUsage, aggregate_usage
from tests.conformance.uap_agent_stage import PRICES, Recorded, Seeing, calls, delegating, helper, look, results, says

# Limits, budget, usage


async def test_a_budget_counts_sub_agents_of_any_depth_each_step_once() -> None:
    seeing, low = Seeing(), helper()
    mid = delegating(low, name="mid")
    top = delegating(mid, name="top", middleware=[seeing, budget(max_tokens=5 * 150)])
    await top.run("go")
    assert [seeing.ends(item) for item in (top, mid, low)] == [2, 2, 1]
    assert seeing.contexts[0].spent.tokens == 5 * 150
    assert seeing.contexts[0].spent.steps == 2
    with pytest.raises(LimitExceeded, match="its budget is 600"):
        await top.copy(middleware=[budget(max_tokens=4 * 150)]).run("go")


async def test_what_a_parents_middleware_raises_ends_sub_agent_and_parent() -> None:
    class Strict(Middleware):
        def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
            if event.agent_id != context.agent.id:
                raise LimitExceeded("enough", code="max_tokens")

    low = agent(model=scripted([calls(call("look", word="w")), says("never")]), tools=[look], name="low")
    asked = Recorded([calls(call("low", task="t")), says("never")])
    mid = agent(model=asked.model, tools=[low], name="mid")
    with pytest.raises(LimitExceeded, match="enough"):
        await delegating(mid, name="top", middleware=[Strict()]).run("go")
    assert len(asked.requests) == 1


@pytest.mark.parametrize(
    ("limit", "told"), [("3.5", "seen it"), ("2", "the run cost 1, its limit is 1"), ("1", "its sub-agents cost 1")]
)
async def test_a_sub_agent_may_cost_what_its_parent_has_left(limit: str, told: str) -> None:
    child = agent(model=scripted([calls(call("look", word="w")), says("seen it")]), tools=[look], name="child")
    seeing = Seeing()
    hooks = AgentStrategy(stop_condition=lambda state: state.step == 1)
    with connected(InProcessHost(PRICES)):
        parent = delegating(child, name="parent", middleware=[seeing], strategy=hooks)
        await parent.run("go", options=RunOptions(max_cost=Decimal(limit)))
    (observed,) = [event for event in seeing.events if event.type is UAPEventType.OBSERVATION]
    assert told in str(observed.data["results"])


async def test_a_parent_that_its_sub_agents_left_nothing_takes_no_further_step() -> None:
    children = [helper(name=f"h{number}") for number in range(3)]
    with connected(InProcessHost(PRICES)), pytest.raises(LimitExceeded, match="and its sub-agents cost 4"):
        await delegating(*children, name="parent").run("go", options=RunOptions(max_cost=Decimal("3.5")))


async def test_usage_by_agent_sums_to_what_all_model_calls_used() -> None:
    inside: list[dict[str, TokenUsage]] = []
    hooks = AgentStrategy(on_complete=lambda _: inside.append(usage_by_agent()))
    low = helper()
    top = delegating(delegating(low, name="mid"), times=2, name="top", strategy=hooks)
    with connected(InProcessHost(PRICES)):
        turn = await top.run("go")
    (used,) = inside
    assert {path: usage.cost for path, usage in used.items()} == {"top": 2, "top/mid": 4, "top/mid/helper": 2}
    assert used["top"] == turn.usage
    assert aggregate_usage(used.values()).cost == 8


async def test_a_sessions_run_has_the_usage_by_agent_also_when_it_failed() -> None:
    runs: list[Any] = []
    broken = scripted([calls(call("helper", task="t")), ValueError("broken")])
    hooks = AgentStrategy(on_step_start=lambda _, __: runs.append(current_run()))
    with pytest.raises(ValueError, match="broken"):
        await session(agent(model=broken, name="top", tools=[helper()], strategy=hooks)).run("go")
    assert {path: usage.total_tokens for path, usage in runs[0].usage_by_agent.items()} == {
        "top": 150,
        "top/helper": 150,
    }


async def test_a_sub_agents_time_limit_is_its_tools() -> None:
    slow = agent(model=scripted(["late"], latency=30.0), name="slow")
    child = replace(slow.to_tool(), timeout=timedelta(seconds=0.05))
    turn = await delegating(child).run("go")
    assert "timed out" in str(results(turn.messages)[0])
