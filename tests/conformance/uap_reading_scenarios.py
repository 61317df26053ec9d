"""Scenarios that show how the specification is read where it leaves something open; see `uap_scenarios`."""

from __future__ import annotations

from itertools import pairwise

from perdure.execution import loop, plan, react
from perdure.uap.scaffold import scaffold_of
from perdure.upp.errors import ErrorCode
from perdure.upp.messages import ToolResultMessage, UserMessage
from perdure.upp.turn import Turn
from perdure.upp.usage import aggregate_usage
from tests.conformance.uap_scenarios import (
    FAIL,
    INPUT,
    LOOK,
    ROUND,
    Scenario,
    Seen,
    done,
    planned,
    react_step,
    step,
    written,
)

PROMPT = "Why?  "
CIRCLE = written(
    {"id": "a", "description": "do a.", "tool": None, "dependsOn": ["b"]},
    {"id": "b", "description": "do b.", "tool": None, "dependsOn": ["a"]},
)
TWO_REACT_STEPS = [*react_step(1, "first", acts=True), *react_step(2, "second"), "complete"]


def tells_system_and_runs_tools(seen: Seen, turn: Turn | None) -> None:
    assert turn
    assert [request.system for request in seen.requests] == ["Be kind."] * 2
    assert [(one.tool_name, one.result) for one in turn.tool_executions] == [("look", "seen w")]
    assert turn.usage.total_tokens > 0


def asks_by_the_prompt_alone(seen: Seen, turn: Turn | None) -> None:
    """The last message, exactly as given, also where observations go before it."""
    asked = [seen.requests[place].messages[-1] for place in (0, 2)]
    assert [(type(message), message.text) for message in asked] == [(UserMessage, PROMPT)] * 2


def steps_are_model_calls(seen: Seen, turn: Turn | None) -> None:
    assert turn
    assert [made.cycles for made in seen.step_turns] == [1, 1, 1]
    assert [message.text for made in seen.step_turns for message in made.messages if message.type != "user"] == [
        message.text for message in turn.messages[1:]
    ]
    assert turn.cycles == 3
    assert turn.usage.total_tokens == sum(made.usage.total_tokens for made in seen.step_turns)


def reasons_without_calling(seen: Seen, turn: Turn | None) -> None:
    """The tools are declared all the same, since some vendors refuse a conversation with calls of none."""
    assert [request.tool_choice == "none" for request in seen.requests] == [True, False, True, False]
    assert all([tool.name for tool in request.tools] == ["look", "fail"] for request in seen.requests)


def keeps_reasoning_to_itself(seen: Seen, turn: Turn | None) -> None:
    """It is told to the model again, and counted, and is no part of the turn."""
    assert turn
    texts = [[message.text for message in request.messages] for request in seen.requests]
    assert all("first" in told for told in texts[1:])
    assert "second" in texts[3]
    assert not any(scaffold_of(message) for message in turn.messages)
    assert turn.cycles == 4
    assert turn.usage.total_tokens == aggregate_usage([made.usage for made in seen.step_turns]).total_tokens


def observes_in_json(seen: Seen, turn: Turn | None) -> None:
    """In the next request to reason; the result message itself is as the tool made it."""
    messages = seen.requests[2].messages
    assert '[{"tool":"look","isError":false,"result":"seen w"}]' in messages[-2].text
    assert [message.text for message in messages if isinstance(message, ToolResultMessage)] == ["seen w"]


def plans_by_schema_without_tools(seen: Seen, turn: Turn | None) -> None:
    assert [request.structure is not None for request in seen.requests] == [True, False]
    assert [request.tool_choice == "none" for request in seen.requests] == [True, False]


def says_what_was_wrong(seen: Seen, turn: Turn | None) -> None:
    assert "in a circle" in seen.requests[1].messages[-1].text


def tells_which_step(seen: Seen, turn: Turn | None) -> None:
    prompt = seen.requests[1].messages[-1].text
    assert all(word in prompt for word in ("a", "do a.", "look"))


def begins_fresh(seen: Seen, turn: Turn | None) -> None:
    """The input first, no metadata; messages are only ever added."""
    first = seen.states[0]
    assert (first.step, first.messages[0].text, first.metadata) == (1, INPUT, {})
    for earlier, later in pairwise([message.id for message in state.messages] for state in seen.states):
        assert later[: len(earlier)] == earlier


READING_SCENARIOS = [
    Scenario(
        name="a model is told its system prompt and its tools are run",
        facts="12",
        execution=loop(),
        script=[LOOK, "found"],
        system="Be kind.",
        text="found",
        asked=2,
        hooks=[*step(1), *step(2), "complete"],
        turn=ROUND,
        check=tells_system_and_runs_tools,
    ),
    Scenario(
        name="react asks by its prompt exactly as given",
        facts="28",
        execution=react(reasoning_prompt=PROMPT),
        script=["first", LOOK, "second", "found"],
        text="found",
        asked=4,
        hooks=TWO_REACT_STEPS,
        turn=ROUND,
        reasoning=["first", "second"],
        check=asks_by_the_prompt_alone,
    ),
    Scenario(
        name="as many rounds as the limit are no error",
        facts="",
        execution=loop(max_iterations=2),
        script=[LOOK, LOOK, "found"],
        text="found",
        asked=3,
        hooks=[*step(1), *step(2), *step(3), "complete"],
        turn="user assistant tool_result assistant tool_result assistant",
    ),
    Scenario(
        name="a step of loop is one model call with its tools",
        facts="",
        execution=loop(),
        script=[LOOK, LOOK, "found"],
        text="found",
        asked=3,
        hooks=[*step(1), *step(2), *step(3), "complete"],
        turn="user assistant tool_result assistant tool_result assistant",
        check=steps_are_model_calls,
    ),
    Scenario(
        name="react reasons with tools that it may not call",
        facts="",
        execution=react(),
        script=["first", LOOK, "second", "found"],
        text="found",
        asked=4,
        hooks=TWO_REACT_STEPS,
        turn=ROUND,
        reasoning=["first", "second"],
        check=reasons_without_calling,
    ),
    Scenario(
        name="reasoning is told to the model and is no part of the turn",
        facts="",
        execution=react(),
        script=["first", LOOK, "second", "found"],
        text="found",
        asked=4,
        hooks=TWO_REACT_STEPS,
        turn=ROUND,
        reasoning=["first", "second"],
        check=keeps_reasoning_to_itself,
    ),
    Scenario(
        name="observations are told once more in the form asked for",
        facts="",
        execution=react(observation_format="json"),
        script=["first", LOOK, "second", "found"],
        text="found",
        asked=4,
        hooks=TWO_REACT_STEPS,
        turn=ROUND,
        reasoning=["first", "second"],
        check=observes_in_json,
    ),
    Scenario(
        name="a plan is asked for by schema and without tools",
        facts="",
        execution=plan(),
        script=[planned("a"), "did a"],
        text="did a",
        asked=2,
        hooks=[*step(1), *step(2), "complete"],
        turn="user assistant",
        plan=done("a"),
        check=plans_by_schema_without_tools,
    ),
    Scenario(
        name="a plan step is asked for by its id, description and tool",
        facts="",
        execution=plan(),
        script=[planned("a", tool="look"), LOOK, "did a"],
        text="did a",
        asked=3,
        hooks=[*step(1), *step(2), "complete"],
        turn=ROUND,
        plan=done("a"),
        check=tells_which_step,
    ),
    Scenario(
        name="a plan is made anew three times at most",
        facts="",
        execution=plan(max_plan_steps=50),
        script=[planned("a", "b", tool="fail"), FAIL, "no"] * 4,
        text="no",
        asked=12,
        hooks=[*step(1), *step(2), *step(3), *step(4), *step(5), "complete"],
        turn="user" + " assistant tool_result assistant" * 4,
        plan=[("a", "failed"), ("a-2", "failed"), ("a-3", "failed"), ("a-4", "failed"), ("b-2", "pending")],
    ),
    Scenario(
        name="a plan in a circle is asked for again",
        facts="",
        execution=plan(),
        script=[CIRCLE, planned("a"), "did a"],
        text="did a",
        asked=3,
        hooks=[*step(1), *step(2), "complete"],
        turn="user assistant",
        plan=done("a"),
        check=says_what_was_wrong,
    ),
    Scenario(
        name="a plan that stays in a circle is an error",
        facts="",
        execution=plan(),
        script=[CIRCLE],
        asked=4,
        hooks=["start 1", "error"],
        error=ErrorCode.INVALID_RESPONSE,
    ),
    Scenario(
        name="an empty plan is one plain answer",
        facts="",
        execution=plan(),
        script=[written(), "the answer"],
        text="the answer",
        asked=2,
        hooks=[*step(1), *step(2), "complete"],
        turn="user assistant",
        plan=[],
    ),
    Scenario(
        name="a run begins with its input and a fresh state",
        facts="",
        execution=loop(),
        script=[LOOK, "found"],
        text="found",
        asked=2,
        hooks=[*step(1), *step(2), "complete"],
        turn=ROUND,
        check=begins_fresh,
    ),
]
