"""The loop strategy over effects in memory."""

from __future__ import annotations

from typing import Any, cast

import pytest

from perdure.errors import InvalidInput, StrategyError
from perdure.uap.options import RunOptions
from perdure.uap.spec import AgentSpec, StrategySpec
from perdure.uap.state import ExecutionState
from perdure.uap.strategy import ExecutionContext
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.turn import Turn
from perdure.workflows.strategies import STRATEGIES, build
from perdure.workflows.strategies.loop import Loop, loop


class Memory:
    """Effects over a script: so many answers with a tool call, then one without."""

    def __init__(self, *, rounds: int, state: ExecutionState | None = None) -> None:
        self.state = state or ExecutionState(messages=[UserMessage("go")])
        self.done: list[str] = []
        self._rounds = rounds

    async def start_step(self) -> int:
        self.state.step += 1
        self.done.append(f"step {self.state.step}")
        return self.state.step

    async def generate(self) -> AssistantMessage:
        calls = [ToolCall(f"call_{self.state.step}", "tool", {})] if self.state.step <= self._rounds else None
        answer = AssistantMessage(f"answer {self.state.step}", calls)
        self.state.messages.append(answer)
        self.state.cycles += 1
        self.done.append("generate")
        return answer

    async def call_tools(self, message: AssistantMessage) -> ToolResultMessage:
        results = ToolResultMessage([ToolResult(call.tool_call_id, "ok") for call in message.tool_calls or []])
        self.state.messages.append(results)
        self.done.append("tools")
        return results

    async def end_step(self, *, last: bool) -> None:
        self.state.done = last
        self.done.append("last" if last else "end")

    def turn(self) -> Turn:
        return Turn(self.state.messages, self.state.tool_executions, self.state.usage, self.state.cycles)


async def run(strategy: Loop, effects: Memory) -> Turn:
    """Run a strategy over effects."""
    context = ExecutionContext(
        agent=AgentSpec("a", "i"),
        input=effects.state.messages[0],
        options=RunOptions(),
        state=effects.state,
        effects=effects,
    )
    return await strategy.execute(context)


def steps(first: int, upto: int) -> list[str]:
    """What is done in steps that call a tool."""
    return [part for number in range(first, upto + 1) for part in (f"step {number}", "generate", "tools", "end")]


async def test_an_answer_without_calls_ends_the_run() -> None:
    """One step, one model call."""
    effects = Memory(rounds=0)
    turn = await run(loop(), effects)
    assert effects.done == ["step 1", "generate", "last"]
    assert turn.response.text == "answer 1"


@pytest.mark.parametrize("rounds", [1, 3, 10])
async def test_tools_are_run_until_no_more_are_called(rounds: int) -> None:
    """A round is a step; the answer after the last is one more."""
    effects = Memory(rounds=rounds)
    turn = await run(loop(), effects)
    assert effects.done == [*steps(1, rounds), f"step {rounds + 1}", "generate", "last"]
    assert turn.cycles == rounds + 1


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_rounds_beyond_the_limit_fail_the_run(limit: int) -> None:
    """As many rounds as allowed and one answer more; if that calls a tool, it is not run. Source: UPP-1.2 tool loop."""
    effects = Memory(rounds=99)
    with pytest.raises(UPPError, match=rf"maximum iterations \({limit}\)") as raised:
        await run(loop(max_iterations=limit), effects)
    assert raised.value.code == ErrorCode.INVALID_REQUEST
    assert effects.done == [*steps(1, limit), f"step {limit + 1}", "generate", "end"]


async def test_as_many_rounds_as_the_limit_are_fine() -> None:
    """The limit is on rounds of tools, not on answers."""
    effects = Memory(rounds=2)
    await run(loop(max_iterations=2), effects)
    assert effects.done == [*steps(1, 2), "step 3", "generate", "last"]


async def test_no_rounds_return_the_calls_unexecuted() -> None:
    """The caller runs them."""
    effects = Memory(rounds=99)
    turn = await run(loop(max_iterations=0), effects)
    assert effects.done == ["step 1", "generate", "last"]
    assert turn.response.has_tool_calls


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_run_that_is_taken_up_goes_on_from_its_step(at: int) -> None:
    """It does what the run that was never interrupted would still have done."""
    whole = Memory(rounds=3)
    await run(loop(max_iterations=3), whole)
    resumed = Memory(rounds=3, state=ExecutionState(step=at, messages=[UserMessage("go")], cycles=at))
    turn = await run(loop(max_iterations=3), resumed)
    assert resumed.done == whole.done[4 * at :]
    assert turn.cycles == 4


async def test_a_run_that_is_taken_up_behind_its_limit_fails_as_before() -> None:
    """The limit was met before the worker died; the run does not get another step for it."""
    effects = Memory(rounds=99, state=ExecutionState(step=3, messages=[UserMessage("go")]))
    with pytest.raises(UPPError, match="maximum iterations"):
        await run(loop(max_iterations=2), effects)
    assert effects.done == []


async def test_a_run_that_is_done_only_returns_its_turn() -> None:
    """It was interrupted between its last step and its end."""
    state = ExecutionState(step=2, messages=[UserMessage("go"), AssistantMessage("done")], cycles=2, done=True)
    effects = Memory(rounds=99, state=state)
    assert (await run(loop(), effects)).response.text == "done"
    assert effects.done == []


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
    assert build(StrategySpec(name)).name == name


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (StrategySpec("tree_of_thought"), r"knows no strategy 'tree_of_thought'; it has loop"),
        (StrategySpec("loop", {"max_steps": 3}), r"strategy 'loop' does not take these options: .*max_steps"),
    ],
    ids=["name", "options"],
)
def test_a_strategy_of_another_version_is_an_error_that_says_so(spec: StrategySpec, text: str) -> None:
    """An older worker took a newer run."""
    with pytest.raises(StrategyError, match=text):
        build(spec)
