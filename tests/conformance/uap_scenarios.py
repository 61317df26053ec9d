"""What a strategy must make of an agent and a script, whichever host runs it: scenarios, apart from the running.

A scenario is an agent, what its model says, and what must come of it. Hooks write down what they are given, in the
process that calls them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from perdure.execution import loop, plan, react
from perdure.uap.agent import Agent, agent
from perdure.uap.agent_execution import NamedStrategy
from perdure.uap.hooks import AgentStrategy, OnError, StepResult, StopCondition
from perdure.uap.state import ExecutionState
from perdure.upp.errors import ErrorCode
from perdure.upp.function_tool import tool
from perdure.upp.json_value import JSONValue, dumps
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage

INPUT = "go"
LOOK = call("look", word="w")
FAIL = call("fail")


@tool
async def look(word: str) -> str:
    """Look a word up."""
    return f"seen {word}"


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("broken")


@dataclass(slots=True)
class Seen:
    """What the model and the hooks were given, in order.

    Attributes:
        requests: what the model was asked.
        hooks: one line per call of a hook.
        states: the state at each step's end.
        step_turns: the steps' turns.
        completed: the turns that `on_complete` was given.
        errors: what `on_error` was given.
    """

    requests: list[LLMRequest] = field(default_factory=list[LLMRequest])
    hooks: list[str] = field(default_factory=list[str])
    states: list[ExecutionState] = field(default_factory=list[ExecutionState])
    step_turns: list[Turn] = field(default_factory=list[Turn])
    completed: list[Turn] = field(default_factory=list[Turn])
    errors: list[Exception] = field(default_factory=list[Exception])


Check: TypeAlias = Callable[[Seen, Turn | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """An agent, its model's script, and what must come of a run on `INPUT`.

    Attributes:
        name: says what is true, and makes the agent's name.
        facts: numbers in the reference.
        stop: the stop condition's part.
        recover: the part of `on_error`.
        note: written into the state's metadata at each step's end.
        text: the final answer.
        asked: model calls.
        hooks: all calls of hooks, in order.
        turn: the types of the turn's messages.
        reasoning: what is in the state at the last step's end.
        plan: ids and statuses there; None for no plan.
        error: with what the run fails; empty if it does not.
        system: the agent's system prompt.
        check: what else must be true of what was seen, and of the turn, which is None if the run failed.
    """

    name: str
    facts: str
    execution: NamedStrategy
    script: Sequence[ScriptedAnswer]
    stop: StopCondition | None = None
    recover: OnError | None = None
    note: str = ""
    text: str = ""
    asked: int
    hooks: Sequence[str]
    turn: str = ""
    reasoning: Sequence[str] = ()
    plan: Sequence[tuple[str, str]] | None = None
    error: str = ""
    system: str | None = None
    check: Check | None = None

    def stage(self) -> tuple[Agent, Seen]:
        """The agent, and what it will have been given."""
        seen = Seen()

        def answer(request: LLMRequest) -> ScriptedAnswer:
            seen.requests.append(request)
            number = sum(isinstance(message, AssistantMessage) for message in request.messages)
            return self.script[min(number, len(self.script) - 1)]

        name = re.sub(r"[^a-z0-9]+", "_", self.name.lower())[:64]
        made = agent(
            name=name,
            model=scripted(answer),
            tools=[look, fail],
            system=self.system,
            execution=self.execution,
            strategy=self._hooks(seen),
        )
        return made, seen

    def _hooks(self, seen: Seen) -> AgentStrategy:
        def step_end(number: int, result: StepResult) -> None:
            seen.hooks.append(f"end {number}")
            seen.states.append(result.state)
            seen.step_turns.append(result.turn)
            if self.note:
                result.state.metadata[self.note] = number

        def stop(state: ExecutionState) -> bool:
            seen.hooks.append(f"stop {state.step}")
            return bool(self.stop and self.stop(state))

        def act(number: int, actions: Sequence[ToolCall]) -> None:
            seen.hooks.append(f"act {number} {' '.join(action.tool_name for action in actions)}")

        def observe(number: int, results: Sequence[ToolResult]) -> None:
            seen.hooks.append(f"observe {number} {', '.join(result.text for result in results)}")

        def complete(turn: Turn) -> None:
            seen.hooks.append("complete")
            seen.completed.append(turn)

        async def error(raised: Exception, state: ExecutionState) -> Turn | None:
            seen.hooks.append("error")
            seen.errors.append(raised)
            recovered = self.recover(raised, state) if self.recover else None
            return recovered if isinstance(recovered, Turn) else None

        return AgentStrategy(
            stop_condition=stop,
            on_step_start=lambda number, _: seen.hooks.append(f"start {number}"),
            on_reason=lambda number, reasoning: seen.hooks.append(f"reason {number} {reasoning}"),
            on_act=act,
            on_observe=observe,
            on_step_end=step_end,
            on_complete=complete,
            on_error=error,
        )


def step(number: int, *between: str) -> list[str]:
    """The hooks of one step, as the specification's section 11.4 draws them."""
    return [f"start {number}", *between, f"end {number}", f"stop {number}"]


def react_step(number: int, reasoning: str, *, acts: bool = False) -> list[str]:
    """The hooks of one step of react."""
    acted = [f"act {number} look", f"observe {number} seen w"] if acts else []
    return step(number, f"reason {number} {reasoning}", *acted)


def planned(*steps: str, tool: str | None = None) -> str:
    """A plan as a model writes it, each step after the one before it."""
    items: list[JSONValue] = [
        {"id": id_, "description": f"do {id_}.", "tool": tool, "dependsOn": [*steps[place - 1 : place]]}
        for place, id_ in enumerate(steps)
    ]
    return dumps({"steps": items}).decode()


def written(*items: JSONValue) -> str:
    """A plan of these steps."""
    return dumps({"steps": [*items]}).decode()


def done(*ids: str) -> list[tuple[str, str]]:
    """Steps that were completed."""
    return [(id_, "completed") for id_ in ids]


def asks_in_order(seen: Seen, turn: Turn | None) -> None:
    """In that of the dependencies, whatever the order of the plan."""
    asked = [request.messages[-1].text for request in seen.requests[1:]]
    assert [text.rpartition(" ")[2] for text in asked] == ["first.", "second.", "last."]


SORRY = Turn([UserMessage(INPUT, id="u"), AssistantMessage("sorry", id="a")], [], empty_usage(), 1)
ROUND = "user assistant tool_result assistant"

LOOP = [
    Scenario(
        name="loop answers in one step",
        facts="13 16 65",
        execution=loop(),
        script=["hi"],
        text="hi",
        asked=1,
        hooks=[*step(1), "complete"],
        turn="user assistant",
    ),
    Scenario(
        name="loop asks again after tools, and calls no hooks of react",
        facts="14 17 19",
        execution=loop(),
        script=[LOOK, "found"],
        text="found",
        asked=2,
        hooks=[*step(1), *step(2), "complete"],
        turn=ROUND,
    ),
    Scenario(
        name="loop fails at its limit with calls open",
        facts="15",
        execution=loop(max_iterations=3),
        script=[LOOK],
        asked=4,
        hooks=[*step(1), *step(2), *step(3), *step(4), "error"],
        error=ErrorCode.INVALID_REQUEST,
    ),
    Scenario(
        name="loop ends where the stop condition says so",
        facts="18",
        execution=loop(),
        script=[LOOK],
        stop=lambda state: state.step >= 2,
        asked=2,
        hooks=[*step(1), *step(2), "complete"],
        turn="user assistant tool_result assistant tool_result",
    ),
    Scenario(
        name="loop ends after one step if the stop condition says so then",
        facts="67",
        execution=loop(max_iterations=10),
        script=[LOOK],
        stop=lambda state: state.step >= 1,
        asked=1,
        hooks=[*step(1), "complete"],
        turn="user assistant tool_result",
    ),
    Scenario(
        name="the stop condition reads what on_step_end wrote",
        facts="68",
        execution=loop(),
        script=[LOOK],
        note="wrote",
        stop=lambda state: state.metadata.get("wrote") == 3,
        asked=3,
        hooks=[*step(1), *step(2), *step(3), "complete"],
        turn="user" + " assistant tool_result" * 3,
    ),
    Scenario(
        name="on_error sees what went wrong and lets it pass",
        facts="69",
        execution=loop(max_iterations=1),
        script=[LOOK],
        asked=2,
        hooks=[*step(1), *step(2), "error"],
        error=ErrorCode.INVALID_REQUEST,
    ),
    Scenario(
        name="a turn of on_error completes the run",
        facts="69",
        execution=loop(max_iterations=1),
        script=[LOOK],
        recover=lambda error, state: SORRY,
        text="sorry",
        asked=2,
        hooks=[*step(1), *step(2), "error", "complete"],
        turn="user assistant",
    ),
]

REACT = [
    Scenario(
        name="react reasons and acts in one step",
        facts="22 23 26 30 65",
        execution=react(),
        script=["My reasoning about this task.", "the answer"],
        text="the answer",
        asked=2,
        hooks=[*react_step(1, "My reasoning about this task."), "complete"],
        turn="user assistant",
        reasoning=["My reasoning about this task."],
    ),
    Scenario(
        name="react goes on after a call",
        facts="24 26 30",
        execution=react(),
        script=["first", LOOK, "second", "found"],
        text="found",
        asked=4,
        hooks=[*react_step(1, "first", acts=True), *react_step(2, "second"), "complete"],
        turn=ROUND,
        reasoning=["first", "second"],
    ),
    Scenario(
        name="react returns its turn at its limit",
        facts="25",
        execution=react(max_steps=2),
        script=["one", LOOK, "two", LOOK],
        asked=4,
        hooks=[*react_step(1, "one", acts=True), *react_step(2, "two", acts=True), "complete"],
        turn="user assistant tool_result assistant tool_result",
        reasoning=["one", "two"],
    ),
    Scenario(
        name="react ends where the stop condition says so",
        facts="27",
        execution=react(),
        script=["one", LOOK, "two", LOOK, "three", LOOK],
        stop=lambda state: state.step >= 2,
        asked=4,
        hooks=[*react_step(1, "one", acts=True), *react_step(2, "two", acts=True), "complete"],
        turn="user assistant tool_result assistant tool_result",
        reasoning=["one", "two"],
    ),
    Scenario(
        name="calls that come while react reasons are dropped",
        facts="22",
        execution=react(),
        script=[Answer("hm", tool_calls=[LOOK]), "no need"],
        text="no need",
        asked=2,
        hooks=[*react_step(1, "hm"), "complete"],
        turn="user assistant",
        reasoning=["hm"],
    ),
]

PLAN = [
    Scenario(
        name="plan carries its steps out in the order of their dependencies",
        facts="32 33",
        execution=plan(),
        script=[
            written(
                {"id": "3", "description": "last.", "tool": None, "dependsOn": ["1", "2"]},
                {"id": "1", "description": "first.", "tool": None, "dependsOn": []},
                {"id": "2", "description": "second.", "tool": None, "dependsOn": []},
            ),
            *("did 1", "did 2", "did 3"),
        ],
        text="did 3",
        asked=4,
        hooks=[*step(1), *step(2), *step(3), *step(4), "complete"],
        turn="user assistant assistant assistant",
        plan=done("3", "1", "2"),
        check=asks_in_order,
    ),
    Scenario(
        name="a plan that is too long is cut",
        facts="34",
        execution=plan(max_plan_steps=3),
        script=[planned("a", "b", "c", "d", "e"), "1", "2", "3"],
        text="3",
        asked=4,
        hooks=[*step(1), *step(2), *step(3), *step(4), "complete"],
        turn="user assistant assistant assistant",
        plan=done("a", "b", "c"),
    ),
    Scenario(
        name="a plan is found in the text around it",
        facts="35",
        execution=plan(),
        script=[f"Here is the plan: {planned('a')} Shall I go on?", "did a"],
        text="did a",
        asked=2,
        hooks=[*step(1), *step(2), "complete"],
        turn="user assistant",
        plan=done("a"),
    ),
    Scenario(
        name="planning is a step with its hooks, and tools are run within the next one",
        facts="36",
        execution=plan(),
        script=[planned("a", tool="look"), LOOK, "did a"],
        text="did a",
        asked=3,
        hooks=[*step(1), *step(2), "complete"],
        turn=ROUND,
        plan=done("a"),
    ),
    Scenario(
        name="plan ends where the stop condition says so",
        facts="37",
        execution=plan(),
        script=[planned("a", "b", "c"), "did a"],
        stop=lambda state: state.step >= 2,
        text="did a",
        asked=2,
        hooks=[*step(1), *step(2), "complete"],
        turn="user assistant",
        plan=[("a", "completed"), ("b", "pending"), ("c", "pending")],
    ),
    Scenario(
        name="what a plan leaves out is filled in",
        facts="38",
        execution=plan(),
        script=[written({"description": "one."}, {"description": "two."}), "1", "2"],
        text="2",
        asked=3,
        hooks=[*step(1), *step(2), *step(3), "complete"],
        turn="user assistant assistant",
        plan=done("step-1", "step-2"),
    ),
    Scenario(
        name="a step that fails makes a new plan",
        facts="41",
        execution=plan(),
        script=[
            *(planned("a", "b", tool="fail"), FAIL, "a did not work"),
            *(planned("b"), "did it another way"),
        ],
        text="did it another way",
        asked=5,
        hooks=[*step(1), *step(2), *step(3), "complete"],
        turn="user assistant tool_result assistant assistant",
        plan=[("a", "failed"), ("b-2", "completed")],
    ),
    Scenario(
        name="without replanning a failed step ends the run",
        facts="41",
        execution=plan(allow_replan=False),
        script=[planned("a", "b", tool="fail"), FAIL, "a did not work"],
        text="a did not work",
        asked=3,
        hooks=[*step(1), *step(2), "complete"],
        turn=ROUND,
        plan=[("a", "failed"), ("b", "pending")],
    ),
]

SCENARIOS = [*LOOP, *REACT, *PLAN]


def check_scenario(scenario: Scenario, turn: Turn | None, seen: Seen) -> None:
    """What must be true after a run, however it was run; `turn` is None if it failed."""
    assert len(seen.requests) == scenario.asked
    assert seen.hooks == list(scenario.hooks)
    last = seen.states[-1] if seen.states else ExecutionState()
    assert last.reasoning == list(scenario.reasoning)
    plan_steps = last.plan
    assert (None if plan_steps is None else [(item.id, str(item.status)) for item in plan_steps]) == scenario.plan
    if scenario.check:
        scenario.check(seen, turn)
    if turn is None:
        assert scenario.error
        return
    assert not scenario.error
    assert turn.response.text == scenario.text
    assert " ".join(message.type for message in turn.messages) == scenario.turn
    assert [other.to_json() for other in seen.completed] == [turn.to_json()]
