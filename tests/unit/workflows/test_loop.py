"""The loop strategy over effects in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from perdure.errors import InvalidInput, StrategyError
from perdure.uap.spec import StrategySpec
from perdure.uap.state import ExecutionState
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.workflows.strategies import STRATEGIES, build
from perdure.workflows.strategies.loop import Loop, loop
from tests.unit.workflows.memory import Memory, Said, run


def rounds(count: int) -> Callable[[int], Said]:
    """So many answers with a tool call, then answers without."""
    return lambda number: ["tool"] if number < count else f"answer {number + 1}"


def steps(first: int, upto: int) -> list[str]:
    """What is done in steps that call a tool."""
    return [part for number in range(first, upto + 1) for part in (f"step {number}", "generate", "tools", "end")]


async def test_an_answer_without_calls_ends_the_run() -> None:
    """One step, one model call."""
    effects = Memory(rounds(0))
    turn = await run(loop(), effects)
    assert effects.done == ["step 1", "generate", "last"]
    assert turn.response.text == "answer 1"


@pytest.mark.parametrize("count", [1, 3, 10])
async def test_tools_are_run_until_no_more_are_called(count: int) -> None:
    """A round is a step; the answer after the last is one more."""
    effects = Memory(rounds(count))
    turn = await run(loop(), effects)
    assert effects.done == [*steps(1, count), f"step {count + 1}", "generate", "last"]
    assert turn.cycles == count + 1


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_rounds_beyond_the_limit_fail_the_run(limit: int) -> None:
    """As many rounds as allowed and one answer more; if that calls a tool, it is not run. Source: UPP-1.2 tool loop."""
    effects = Memory(rounds(99))
    with pytest.raises(UPPError, match=rf"maximum iterations \({limit}\)") as raised:
        await run(loop(max_iterations=limit), effects)
    assert raised.value.code == ErrorCode.INVALID_REQUEST
    assert effects.done == [*steps(1, limit), f"step {limit + 1}", "generate", "end"]


async def test_as_many_rounds_as_the_limit_are_fine() -> None:
    """The limit is on rounds of tools, not on answers."""
    effects = Memory(rounds(2))
    await run(loop(max_iterations=2), effects)
    assert effects.done == [*steps(1, 2), "step 3", "generate", "last"]


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_tools_may_be_called_with_an_answer_only_where_they_are_called_next(limit: int) -> None:
    """Not beyond the limit: those calls are not executed."""
    effects = Memory(rounds(limit))
    await run(loop(max_iterations=limit), effects)
    assert [ask.acts for ask in effects.asks] == [True] * limit + [False]


async def test_no_rounds_return_the_calls_unexecuted() -> None:
    """The caller runs them."""
    effects = Memory(rounds(99))
    turn = await run(loop(max_iterations=0), effects)
    assert effects.done == ["step 1", "generate", "last"]
    assert turn.response.has_tool_calls


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_run_that_is_taken_up_goes_on_from_its_step(at: int) -> None:
    """It does what the run that was never interrupted would still have done."""
    whole = Memory(rounds(3))
    await run(loop(max_iterations=3), whole)
    resumed = Memory(rounds(3), state=ExecutionState(step=at, messages=[UserMessage("go")], cycles=at))
    turn = await run(loop(max_iterations=3), resumed)
    assert resumed.done == whole.done[4 * at :]
    assert turn.cycles == 4


async def test_a_run_that_is_taken_up_behind_its_limit_fails_as_before() -> None:
    """The limit was met before the worker died; the run does not get another step for it."""
    effects = Memory(rounds(99), state=ExecutionState(step=3, messages=[UserMessage("go")]))
    with pytest.raises(UPPError, match="maximum iterations"):
        await run(loop(max_iterations=2), effects)
    assert effects.done == []


async def test_a_run_that_is_done_only_returns_its_turn() -> None:
    """It was interrupted between its last step and its end."""
    state = ExecutionState(step=2, messages=[UserMessage("go"), AssistantMessage("done")], cycles=2, done=True)
    effects = Memory(rounds(99), state=state)
    assert (await run(loop(), effects)).response.text == "done"
    assert effects.done == []


@pytest.mark.parametrize("stop", [1, 2])
async def test_the_stop_condition_ends_the_run_behind_its_step(stop: int) -> None:
    """Also where the limit was met: it is asked before that counts."""
    effects = Memory(rounds(99), stop=stop)
    await run(loop(max_iterations=1), effects)
    tools = [*steps(1, 1), "step 2", "generate", "end"] if stop == 2 else steps(1, 1)
    assert effects.done == tools


async def test_tools_are_run_without_the_hooks_of_react() -> None:
    """The specification keeps them for it."""
    effects = Memory(rounds(1))
    await run(loop(), effects)
    assert "tools with hooks" not in effects.done


@pytest.mark.parametrize("limit", [-1, True, False, 1.5, "3", None])
def test_a_limit_that_is_no_whole_number_is_refused(limit: object) -> None:
    """When the agent is defined, not when it runs."""
    with pytest.raises(InvalidInput, match="must be a whole number of at least 0"):
        loop(max_iterations=cast(Any, limit))


def test_a_strategy_is_built_again_from_its_options() -> None:
    """By a worker, from the frozen spec."""
    built = build(StrategySpec(loop(max_iterations=7).name, loop(max_iterations=7).options))
    assert isinstance(built, Loop)
    assert built.options == {"max_iterations": 7}
    assert isinstance(build(StrategySpec()), Loop)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_knows_its_name(name: str) -> None:
    """A spec that it wrote is read by it."""
    options = {"workflow": "store", "definition": "0", "max_steps": 1} if name == "staged" else {}
    assert build(StrategySpec(name, options)).name == name


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (StrategySpec("tree_of_thought"), r"knows no strategy 'tree_of_thought'; it has loop, react, plan"),
        (StrategySpec("loop", {"max_steps": 3}), r"strategy 'loop' does not take these options: .*max_steps"),
    ],
    ids=["name", "options"],
)
def test_a_strategy_of_another_version_is_an_error_that_says_so(spec: StrategySpec, text: str) -> None:
    """An older worker took a newer run."""
    with pytest.raises(StrategyError, match=text):
        build(spec)
