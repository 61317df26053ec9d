"""How one hook is called: with what, and what it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from perdure.errors import StrategyError
from perdure.uap.hook_calls import call_hook
from perdure.uap.hooks import AgentStrategy, Hook, HookCall, HookOutcome, StepResult, state_copy
from perdure.uap.plan_steps import PlanStatus, PlanStep
from perdure.uap.state import ExecutionState
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage

TURN = Turn([AssistantMessage("hi")], [], empty_usage(), 1)
CALLS = [ToolCall("c", "look", {})]
RESULTS = [ToolResult("c", "seen")]
FAULT = ValueError("broken")


def hook_call(hook: Hook, state: ExecutionState | None = None) -> HookCall:
    return HookCall(hook, 3, state or ExecutionState(), "because", CALLS, RESULTS, TURN, FAULT)


def with_hook(hook: Hook, function: Callable[..., object]) -> AgentStrategy:
    return AgentStrategy(**{hook.value: cast(Any, function)})


@pytest.mark.parametrize("hook", Hook)
async def test_a_hook_is_given_what_the_specification_says(hook: Hook) -> None:
    """Source: UAP-1.0 section 11.2."""
    state = ExecutionState(step=3)
    given: dict[Hook, tuple[object, ...]] = {
        Hook.STEP_START: (3, state),
        Hook.REASON: (3, "because"),
        Hook.ACT: (3, CALLS),
        Hook.OBSERVE: (3, RESULTS),
        Hook.STEP_END: (3, StepResult(TURN, state)),
        Hook.STOP: (state,),
        Hook.COMPLETE: (TURN,),
        Hook.ERROR: (FAULT, state),
    }
    got: list[tuple[object, ...]] = []
    await call_hook(with_hook(hook, lambda *arguments: got.append(arguments)), hook_call(hook, state))
    assert got == [given[hook]]


@pytest.mark.parametrize("hook", Hook)
async def test_an_async_hook_is_awaited(hook: Hook) -> None:
    done: list[Hook] = []

    async def slow(*_: object) -> None:
        await asyncio.sleep(0)
        done.append(hook)

    await call_hook(with_hook(hook, slow), hook_call(hook))
    assert done == [hook]


@pytest.mark.parametrize("hook", Hook)
async def test_what_a_hook_raises_is_raised(hook: Hook) -> None:
    def broken(*_: object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await call_hook(with_hook(hook, broken), hook_call(hook))


@pytest.mark.parametrize(("said", "stop"), [(True, True), (False, False), (None, False), (1, True)])
async def test_a_stop_condition_says_yes_or_no(said: object, stop: bool) -> None:
    outcome = await call_hook(with_hook(Hook.STOP, lambda *_: said), hook_call(Hook.STOP))
    assert outcome.stop is stop


@pytest.mark.parametrize("hook", [hook for hook in Hook if hook is not Hook.STOP])
async def test_no_other_hook_stops(hook: Hook) -> None:
    answer = TURN if hook is Hook.ERROR else True
    assert not (await call_hook(with_hook(hook, lambda *_: answer), hook_call(hook))).stop


async def test_the_metadata_that_a_hook_leaves_comes_back() -> None:
    def note(_: int, result: StepResult) -> None:
        result.state.metadata["seen"] = {"at": [1, 2]}

    state = ExecutionState(metadata={"before": 1})
    outcome = await call_hook(with_hook(Hook.STEP_END, note), hook_call(Hook.STEP_END, state))
    assert outcome == HookOutcome(metadata={"before": 1, "seen": {"at": [1, 2]}})


async def test_metadata_that_is_not_json_is_the_hooks_fault_by_name() -> None:
    def note(_: int, state: ExecutionState) -> None:
        state.metadata["lock"] = cast(Any, object())

    with pytest.raises(StrategyError, match="on_step_start left metadata that is not JSON"):
        await call_hook(with_hook(Hook.STEP_START, note), hook_call(Hook.STEP_START))


async def test_a_turn_of_on_error_comes_back() -> None:
    assert (await call_hook(with_hook(Hook.ERROR, lambda *_: TURN), hook_call(Hook.ERROR))).turn is TURN


async def test_on_error_returns_a_turn_or_nothing() -> None:
    with pytest.raises(StrategyError, match="on_error returned a str"):
        await call_hook(with_hook(Hook.ERROR, lambda *_: "sorry"), hook_call(Hook.ERROR))


async def test_a_turn_of_another_hook_is_not_taken() -> None:
    assert (await call_hook(with_hook(Hook.COMPLETE, lambda *_: TURN), hook_call(Hook.COMPLETE))).turn is None


def test_the_hooks_that_there_are_are_named() -> None:
    """As the frozen spec has them, in the order of the class."""

    def on_act(step: int, actions: Sequence[ToolCall]) -> None: ...

    assert AgentStrategy().names == []
    strategy = AgentStrategy(on_act=on_act, stop_condition=lambda _: True)
    assert strategy.names == ["stop_condition", "on_act"]


def test_every_hook_is_a_field_of_the_strategy() -> None:
    assert sorted(AgentStrategy.__slots__) == sorted(hook.value for hook in Hook)


def full_state() -> ExecutionState:
    return ExecutionState(
        step=2,
        messages=[UserMessage("go")],
        metadata={"deep": {"list": [1]}},
        tool_executions=[ToolExecution("t", "c", {}, "r", False, 1)],
        reasoning=["why"],
        plan=[PlanStep("a", "d")],
    )


def test_a_copy_of_a_state_equals_it() -> None:
    state = full_state()
    assert state_copy(state) == state


def drop(state: ExecutionState) -> None:
    state.messages.clear()
    state.tool_executions.clear()


def write(state: ExecutionState) -> None:
    cast("dict[str, list[int]]", state.metadata["deep"])["list"].append(2)


def reason(state: ExecutionState) -> None:
    state.reasoning.append("because")


def plan(state: ExecutionState) -> None:
    cast("list[PlanStep]", state.plan).append(PlanStep("b", "d"))


def fail(state: ExecutionState) -> None:
    cast("list[PlanStep]", state.plan)[0].status = PlanStatus.FAILED


def count(state: ExecutionState) -> None:
    state.step = 9


@pytest.mark.parametrize("change", [drop, write, reason, plan, fail, count])
def test_what_is_done_to_a_copy_is_not_done_to_the_state(change: Callable[[ExecutionState], None]) -> None:
    state = full_state()
    change(state_copy(state))
    assert state == full_state_like(state)


def full_state_like(state: ExecutionState) -> ExecutionState:
    """A fresh one with the same messages, whose ids and times are drawn."""
    fresh = full_state()
    fresh.messages = [item for item in state.messages if isinstance(item, UserMessage)]
    assert len(fresh.messages) == 1
    return fresh
