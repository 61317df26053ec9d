"""The host in memory: what the model is told, what a turn and a step's turn hold, and which hook is called when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, cast

import pytest

from perdure.errors import InvalidInput, LimitExceeded, StrategyError
from perdure.execution import loop, plan, react
from perdure.inprocess import InProcessHost
from perdure.uap.agent import agent
from perdure.uap.agent_execution import NamedStrategy
from perdure.uap.hooks import AgentStrategy, StepResult
from perdure.uap.options import RunOptions
from perdure.uap.scaffold import scaffold_of
from perdure.uap.state import ExecutionState
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.function_tool import tool
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.upp.tool_call import ToolCall
from perdure.upp.tools import ToolContext
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, empty_usage

PLAN = '{"steps": [{"id": "a", "description": "do a.", "tool": "look", "dependsOn": []}]}'
SORRY = Turn([AssistantMessage("sorry")], [], empty_usage(), 1)
LOOK = call("look", word="w")


@dataclass
class Model:
    """A script whose requests are kept, and a tool whose keys are."""

    script: Sequence[ScriptedAnswer]
    requests: list[LLMRequest] = field(default_factory=list[LLMRequest])
    keys: list[str] = field(default_factory=list[str])

    def answer(self, request: LLMRequest) -> ScriptedAnswer:
        self.requests.append(request)
        return self.script[sum(isinstance(message, AssistantMessage) for message in request.messages)]

    def told(self, number: int) -> list[str]:
        """What the model was told by one request, as a line per message."""
        return [f"{message.type}: {message.text}" for message in self.requests[number].messages]

    async def run(
        self,
        execution: NamedStrategy,
        strategy: AgentStrategy | None = None,
        *,
        history: Sequence[Message] = (),
        options: RunOptions | None = None,
    ) -> Turn:
        @tool
        async def look(word: str, context: ToolContext) -> str:
            """Look a word up."""
            self.keys.append(context.idempotency_key)
            return f"seen {word}"

        made = agent(model=scripted(self.answer), tools=[look], execution=execution, strategy=strategy)
        return await InProcessHost().run(made, history, UserMessage("go"), options or RunOptions())


async def test_the_model_is_told_reasoning_but_no_earlier_prompt() -> None:
    """And results once more, in the form that was asked for, before the prompt that asks to reason on."""
    model = Model(["think", LOOK, "think on", "done"])
    await model.run(react(reasoning_prompt="Why?", observation_format="text"))
    assert [line.partition(".")[0] for line in model.told(1)] == [
        *("user: go", "assistant: think"),
        "user: Based on your reasoning, take action using available tools",
    ]
    assert model.told(2) == [
        *("user: go", "assistant: think", "assistant: ", "tool_result: seen w"),
        *("user: look: seen w", "user: Why?"),
    ]


async def test_the_history_goes_first_and_is_no_part_of_the_turn() -> None:
    model = Model(["", "hi"])
    history = [UserMessage("before"), AssistantMessage("there")]
    turn = await model.run(loop(), history=history)
    assert model.requests[0].messages[:2] == history
    assert [message.text for message in turn.messages] == ["go", "hi"]


async def test_while_it_reasons_or_plans_the_model_may_call_no_tool_but_knows_them() -> None:
    model = Model(["think", "done"])
    await model.run(react())
    assert [request.tool_choice for request in model.requests] == ["none", None]
    assert [[tool.name for tool in request.tools] for request in model.requests] == [["look"], ["look"]]


async def test_prompts_and_answers_of_the_strategy_are_in_the_state_and_not_in_the_turn() -> None:
    states: list[ExecutionState] = []
    turn = await Model(["think", "done"]).run(
        react(), AgentStrategy(on_step_end=lambda _, result: states.append(result.state))
    )
    assert [scaffold_of(message) for message in states[-1].messages] == ["", "prompt", "reason", "prompt", ""]
    assert [message.text for message in turn.messages] == ["go", "done"]


async def test_calls_in_an_answer_of_the_strategys_own_are_dropped() -> None:
    """Nobody would answer them, and vendors refuse calls without results."""
    model = Model([Answer("think", tool_calls=[LOOK]), "done"])
    await model.run(react())
    assert [message for message in model.requests[1].messages if getattr(message, "tool_calls", None)] == []
    assert model.keys == []


@pytest.mark.parametrize(
    ("execution", "script", "calls"),
    [(loop(), [LOOK, "done"], 2), (react(), ["a", LOOK, "b", "done"], 4), (plan(), [PLAN, LOOK, "done"], 3)],
    ids=["loop", "react", "plan"],
)
async def test_usage_counts_every_call(execution: NamedStrategy, script: list[ScriptedAnswer], calls: int) -> None:
    """Also those of which the turn shows no message."""
    answers = [
        Answer(
            said if isinstance(said, str) else "",
            [said] if isinstance(said, ToolCall) else (),
            None,
            TokenUsage(3, 2, 5),
        )
        for said in script
    ]
    turn = await Model(answers).run(execution)
    assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.cycles) == (3 * calls, 2 * calls, calls)
    assert len(turn.usage.cycles or []) == calls


async def test_a_steps_turn_is_its_own_messages_executions_and_usage() -> None:
    steps: list[Turn] = []
    script = [Answer("", [LOOK], None, TokenUsage(3, 2, 5)), Answer("done", usage=TokenUsage(7, 1, 8))]
    await Model(script).run(loop(), AgentStrategy(on_step_end=lambda _, result: steps.append(result.turn)))
    assert [[message.type for message in step.messages] for step in steps] == [
        ["assistant", "tool_result"],
        ["assistant"],
    ]
    assert [(step.usage.total_tokens, step.cycles, len(step.tool_executions)) for step in steps] == [
        (5, 1, 1),
        (8, 1, 0),
    ]


async def test_the_turn_of_the_planning_step_is_the_plan() -> None:
    """There is no other answer in it."""
    steps: list[Turn] = []
    await Model([PLAN, "done"]).run(plan(), AgentStrategy(on_step_end=lambda _, result: steps.append(result.turn)))
    assert [step.response.text for step in steps] == [PLAN, "done"]


async def test_a_run_that_is_stopped_behind_its_planning_returns_the_plan() -> None:
    turn = await Model([PLAN]).run(plan(), AgentStrategy(stop_condition=lambda _: True))
    assert [message.text for message in turn.messages] == ["go", PLAN]


async def test_every_call_of_a_step_has_a_key_of_its_own() -> None:
    """Several rounds in one step, several calls in one round, the same call twice."""
    twice = ToolCall("mine", "look", {"word": "w"})
    model = Model([PLAN, [LOOK, LOOK], [twice, twice], "done"])
    turn = await model.run(plan())
    assert len(set(model.keys)) == 4
    results = [message.id for message in turn.messages if isinstance(message, ToolResultMessage)]
    assert len(set(results)) == 2


async def test_what_hooks_write_into_the_metadata_is_there_for_the_next() -> None:
    seen: list[dict[str, object]] = []

    def start(number: int, state: ExecutionState) -> None:
        seen.append(dict(state.metadata))
        state.metadata["start"] = number

    def end(number: int, result: StepResult) -> None:
        seen.append(dict(result.state.metadata))
        result.state.metadata.pop("start")

    def stop(state: ExecutionState) -> bool:
        seen.append(dict(state.metadata))
        return False

    await Model(["done"]).run(loop(), AgentStrategy(on_step_start=start, on_step_end=end, stop_condition=stop))
    assert seen == [{}, {"start": 1}, {}]


async def test_a_hook_can_change_nothing_but_the_metadata() -> None:
    def wreck(number: int, state: ExecutionState) -> None:
        state.messages.clear()
        state.step = 9

    turn = await Model(["done"]).run(loop(), AgentStrategy(on_step_start=wreck))
    assert [message.text for message in turn.messages] == ["go", "done"]


async def test_the_stop_condition_is_asked_behind_the_last_step_too() -> None:
    """And knows that it was the last."""
    done: list[bool] = []

    def stop(state: ExecutionState) -> bool:
        done.append(state.done)
        return False

    await Model([LOOK, "done"]).run(loop(), AgentStrategy(stop_condition=stop))
    assert done == [False, True]


def apologise(error: Exception, state: ExecutionState) -> Turn:
    return SORRY


FAULT = UPPError("too long", ErrorCode.CONTEXT_LENGTH_EXCEEDED)


async def test_on_error_gets_the_error_and_the_state() -> None:
    got: list[tuple[Exception, int]] = []

    def keep(error: Exception, state: ExecutionState) -> None:
        got.append((error, state.step))

    with pytest.raises(UPPError) as raised:
        await Model([LOOK, FAULT]).run(loop(), AgentStrategy(on_error=keep))
    assert raised.value is FAULT
    assert got == [(FAULT, 2)]


async def test_a_turn_of_on_error_is_returned_and_given_to_on_complete() -> None:
    completed: list[Turn] = []
    turn = await Model([FAULT]).run(loop(), AgentStrategy(on_error=apologise, on_complete=completed.append))
    assert turn.messages == SORRY.messages
    assert completed[0] is turn


async def test_a_turn_of_on_error_has_what_the_run_used() -> None:
    turn = await Model([LOOK, FAULT]).run(loop(), AgentStrategy(on_error=apologise))
    assert turn.usage.total_tokens > 0
    assert turn.cycles == 1


async def test_what_on_error_raises_replaces_the_error() -> None:
    def translate(error: Exception, state: ExecutionState) -> None:
        raise LookupError("no luck") from error

    with pytest.raises(LookupError, match="no luck") as raised:
        await Model([FAULT]).run(loop(), AgentStrategy(on_error=translate))
    assert raised.value.__cause__ is FAULT


@pytest.mark.parametrize(
    "hook", ["on_step_start", "on_reason", "on_act", "on_observe", "on_step_end", "stop_condition", "on_complete"]
)
async def test_what_any_hook_raises_goes_to_on_error(hook: str) -> None:
    errors: list[Exception] = []

    def broken(*_: object) -> None:
        raise KeyError(hook)

    def keep(error: Exception, _: ExecutionState) -> None:
        errors.append(error)

    strategy = replace(AgentStrategy(on_error=keep), **{hook: broken})
    with pytest.raises(KeyError, match=hook):
        await Model(["think", LOOK, "on", "done"]).run(react(), strategy)
    assert [repr(error) for error in errors] == [repr(KeyError(hook))]


async def test_a_limit_of_the_run_goes_to_on_error() -> None:
    turn = await Model([LOOK, LOOK]).run(loop(), AgentStrategy(on_error=apologise), options=RunOptions(max_steps=1))
    assert turn.messages == SORRY.messages


async def test_without_on_error_the_error_is_the_runs() -> None:
    with pytest.raises(LimitExceeded):
        await Model([LOOK, LOOK]).run(loop(), options=RunOptions(max_steps=1))


async def test_what_cannot_begin_does_not_go_to_on_error() -> None:
    """The caller's mistake, before there is a run."""
    with pytest.raises(InvalidInput, match="max_cost"):
        await Model([]).run(loop(), AgentStrategy(on_error=apologise), options=RunOptions(max_cost=Decimal(1)))


async def test_metadata_that_is_not_json_fails_the_run() -> None:
    def note(_: int, state: ExecutionState) -> None:
        state.metadata["x"] = cast(Any, object())

    with pytest.raises(StrategyError, match="on_step_start left metadata that is not JSON"):
        await Model(["hi"]).run(loop(), AgentStrategy(on_step_start=note))
