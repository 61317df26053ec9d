"""Who runs on whose behalf, what is inherited, allowed and counted; without any model being asked."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from perdure.errors import InvalidInput, LimitExceeded
from perdure.uap.active_session import SessionRun, in_run
from perdure.uap.agent import Agent, agent
from perdure.uap.agent_stream import AgentStreamEvent, UAPEventType, of_step
from perdure.uap.child_options import child_options
from perdure.uap.inheritance import check_level, deepest, inherit
from perdure.uap.lineage import called_as, current, current_turn, running, usage_by_agent
from perdure.uap.lineage_flow import LineageFlow, forwarding
from perdure.uap.options import RunOptions
from perdure.uap.session import session
from perdure.uap.state import ExecutionState
from perdure.uap.usage_by_agent import usage_since
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.event_flow import Flow
from perdure.upp.provider import LLMCapabilities, ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.anthropic import anthropic
from perdure.upp.providers.scripted import ScriptedModel, ScriptedProvider, scripted
from perdure.upp.stream import text_delta
from perdure.upp.usage import CycleUsage, TokenUsage, aggregate_usage

MODEL, OTHER_MODEL = scripted([]), scripted([], name="other")
VENDOR = anthropic("claude-sonnet-4-20250514")
KEY, OTHER = ProviderConfig(api_key="key", headers={"a": "1", "b": "1"}), ProviderConfig(headers={"b": "2"})
JOINED = OTHER.over(KEY)
TOP = agent(model=MODEL, name="top", params={"t": 1}, config=KEY)


@pytest.mark.parametrize(
    ("child", "model", "params", "config"),
    [
        (agent(), MODEL, {"t": 1}, KEY),
        (agent(params={"own": 1}), MODEL, {"own": 1}, KEY),
        (agent(config=OTHER), MODEL, {"t": 1}, JOINED),
        (agent(model=OTHER_MODEL), OTHER_MODEL, {}, KEY),
        (agent(model=OTHER_MODEL, config=OTHER, params={"own": 1}), OTHER_MODEL, {"own": 1}, JOINED),
        (agent(model=VENDOR), VENDOR, {}, None),
        (agent(model=VENDOR, config=OTHER), VENDOR, {}, OTHER),
    ],
    ids=["nothing", "params", "config", "model", "all", "another vendor's", "another vendor's and config"],
)
def test_what_a_sub_agent_has_of_its_own_is_kept_and_the_rest_inherited(
    child: Agent, model: ModelReference, params: dict[str, Any], config: ProviderConfig | None
) -> None:
    """A key never goes to another vendor, parameters go with the model alone."""
    made = inherit(child, TOP)
    assert (made.model, made.params, made.reach) == (model, params, config)
    assert (made.id, made.name) == (child.id, child.name)


def test_a_models_own_configuration_is_the_parents_too() -> None:
    """It is below what the parent itself says."""
    reference = ModelReference("m", MODEL.provider, config=KEY)
    made = inherit(agent(), agent(model=reference, config=OTHER))
    assert made.reach == JOINED
    assert inherit(agent(), made).reach == JOINED


class WithoutStructure(ScriptedModel):
    capabilities = LLMCapabilities(structured_output=False)


def test_what_an_inherited_model_cannot_do_is_refused_when_it_is_known() -> None:
    """The definition could not say: there was no model."""
    child = agent(structure={"type": "object", "properties": {}})
    plain = ModelReference("plain", ScriptedProvider(WithoutStructure([], "plain", 0.0, None, 0.0, None)))
    assert inherit(child, TOP).structure == child.structure
    assert inherit(child, agent()) is child
    with pytest.raises(UPPError, match="no structured output") as raised:
        inherit(child, agent(model=plain))
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(UPPError, match="no structured output"):
        agent(model=plain, structure=child.structure)


@pytest.mark.parametrize(
    ("depths", "expected"), [([8], 8), ([8, 1], 2), ([2, 8, 8], 2), ([0], 0)], ids=["root", "child", "least", "none"]
)
def test_the_least_of_all_limits_counts(depths: list[int], expected: int) -> None:
    """A sub-agent cannot allow more than its parent does."""
    limit: int | None = None
    for depth, levels in enumerate(depths):
        limit = deepest(agent(max_depth=levels), depth, limit)
    assert limit == expected


def test_a_level_below_the_limit_is_refused_with_its_path() -> None:
    check_level(("top", "mid"), 1)
    with pytest.raises(UPPError, match="'top/mid/low' is nested 2 deep, the limit is 1") as raised:
        check_level(("top", "mid", "low"), 1)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_a_child_never_has_more_than_its_parent() -> None:
    """Its own words and tools are not its parent's."""
    parent = RunOptions(
        instructions="be kind", params={"t": 1}, client_tools=[{"name": "ask"}], max_steps=3, max_cost=Decimal(5)
    )
    assert child_options(parent, Decimal(2)) == RunOptions(max_steps=3, max_cost=Decimal(3))
    assert child_options(RunOptions(instructions="x"), None) == RunOptions()


@pytest.mark.parametrize("spent", [Decimal(5), Decimal(6), None], ids=["all", "more", "unknown"])
def test_of_nothing_nothing_is_given(spent: Decimal | None) -> None:
    with pytest.raises(LimitExceeded) as raised:
        child_options(RunOptions(max_cost=Decimal(5)), spent)
    assert raised.value.code == "max_cost"


def used(tokens: int, cost: int | None = None) -> TokenUsage:
    one = TokenUsage(tokens, 0, tokens, cost=None if cost is None else Decimal(cost))
    return aggregate_usage([one])


def test_runs_within_runs_know_their_place() -> None:
    """A tool's name where a tool's call began it, else the agent's own."""
    with running(TOP, RunOptions()) as top:
        with called_as("tool", "c1"), running(agent(name="mid"), RunOptions()) as mid:
            with running(agent(name="low"), RunOptions()) as low:
                assert current() is low
                assert low.path == ("top", "tool", "low")
                assert (low.call, mid.call) == ("", "c1")
                assert low.agent.model is MODEL
                assert low.parents == {"parentAgentId": mid.agent.id, "parentTurnId": mid.turn}
            assert current() is mid
            assert current_turn() == mid.turn
        assert (top.parents, list(mid.up())) == ({}, [top])
    assert current() is None
    assert usage_by_agent() == {}
    assert current_turn() != current_turn()


async def test_what_a_run_leaves_behind_is_no_part_of_it() -> None:
    """A task that outlives its run stands where the run above it is, or nowhere."""
    go = asyncio.Event()

    async def left_behind() -> object:
        await go.wait()
        return current()

    with running(TOP, RunOptions()) as top:
        with running(agent(), RunOptions()):
            inner = asyncio.create_task(left_behind())
        go.set()
        assert await inner is top
        go.clear()
        outer = asyncio.create_task(left_behind())
        await asyncio.sleep(0)
    go.set()
    assert await outer is None


def test_usage_is_summed_by_path_while_it_runs_and_after() -> None:
    """Of a run that was gone on with only what came since."""
    state = ExecutionState(usage=used(10, 1), cycles=1)
    with running(TOP, RunOptions()) as top:
        top.count(state)
        for _ in range(2):
            with called_as("a", "c"), running(agent(), RunOptions()) as child:
                child.count(inner := ExecutionState())
                inner.usage = used(5, 2)
        state.usage = aggregate_usage([state.usage, used(7, 3)])
        assert {path: (item.total_tokens, item.cost) for path, item in usage_by_agent().items()} == {
            "top": (7, 3),
            "top/a": (10, 4),
        }
        assert top.spent() == 7
    assert top.usage()["top"].cycles == [CycleUsage(7, 0)]


def test_a_cost_that_is_not_known_stays_so() -> None:
    with running(TOP, RunOptions()) as top:
        assert top.spent() == 0
        top.count(state := ExecutionState())
        state.usage = used(3)
        assert top.spent() is None


def test_usage_since_the_beginning_is_all_of_it() -> None:
    assert usage_since(used(0), used(3, 1)).total_tokens == 3
    assert usage_since(ExecutionState().usage, used(3, 1)) == used(3, 1)


def test_a_sessions_run_gets_the_usage_of_all_that_ran_in_it() -> None:
    """Once, however deep it was used; the run's id is the session's own for it."""
    chat = session(TOP)
    run = SessionRun(chat, chat.thread_tree.current, 0)
    with in_run(run), running(TOP, RunOptions()) as top:
        top.count(state := ExecutionState())
        state.usage = used(1)
        with called_as("a", "c"), running(agent(), RunOptions()) as child:
            child.count(inner := ExecutionState())
            inner.usage = used(2)
    assert top.turn == run.id
    assert child.turn != run.id
    assert {path: usage.total_tokens for path, usage in run.usage_by_agent.items()} == {"top": 1, "top/a": 2}


def test_a_run_stops_where_one_above_it_has_spent_all() -> None:
    """Sub-agents that run at once share what is left."""
    with running(TOP, RunOptions(max_cost=Decimal(3))) as top:
        top.count(state := ExecutionState())
        state.usage = used(1, 1)
        with running(agent(), RunOptions()) as child:
            child.count(inner := ExecutionState())
            inner.usage = used(1, 1)
            child.check_next_step()
            inner.usage = used(1, 2)
            with pytest.raises(LimitExceeded, match="and its sub-agents cost 3") as raised:
                child.check_next_step()
    assert raised.value.run_id == top.turn


def test_what_a_middleware_raised_of_a_sub_agent_ends_all_from_there_down() -> None:
    with running(TOP, RunOptions()) as top, running(agent(), RunOptions()) as child:
        top.error = ValueError("enough")
        with pytest.raises(ValueError, match="enough"):
            child.check_error()


async def test_events_say_whose_they_are_and_deeper_ones_stay_as_they_are() -> None:
    flow: Flow[AgentStreamEvent] = Flow()
    flow.drain()
    with running(TOP, RunOptions()) as top:
        assert forwarding(top) is None
        top.sink = flow
        with called_as("mid", "c1"), running(agent(), RunOptions()) as mid:
            made = forwarding(mid)
            assert made is not None
            mid.sink = made
            with called_as("low", "c2"), running(agent(), RunOptions()) as low:
                deep = forwarding(low)
                assert deep is not None
                await deep.send([of_step(UAPEventType.STEP_START, low.turn, 1, low.agent.id, {"stepNumber": 1})])
                deep.post([AgentStreamEvent(upp=text_delta("hi"))])
            made.post([AgentStreamEvent(upp=text_delta("ho"))])
        LineageFlow(flow, mid).post([of_step(UAPEventType.STEP_START, "r", 1, "a", {})])
    read = [await flow.next() for _ in range(4)]
    assert [event and (event.path, event.call) for event in read] == [
        (("mid", "low"), "c2"),
        (("mid", "low"), "c2"),
        (("mid",), "c1"),
        ((), ""),
    ]
    first = read[0]
    assert first is not None
    assert first.uap is not None
    assert (first.uap.data["turnId"], first.uap.data["parentTurnId"]) == (low.turn, mid.turn)
    assert first.uap.data["stepNumber"] == 1


@pytest.mark.parametrize(
    ("change", "text"), [({"path": [1]}, "'path' must be"), ({"call": 1}, "call")], ids=["path", "call"]
)
def test_a_path_that_is_none_is_refused(change: dict[str, Any], text: str) -> None:
    good = AgentStreamEvent(upp=text_delta("x"), path=("a", "b"), call="c").to_json()
    assert (good["path"], good["call"]) == (["a", "b"], "c")
    with pytest.raises(UPPError, match=text):
        AgentStreamEvent.from_json({**good, **change})


def test_the_agents_names_reach_their_tools_or_are_refused() -> None:
    """A tool's name is checked as any other's."""
    with pytest.raises(InvalidInput, match="tool name"):
        agent(name="a").to_tool(name="not a name")
