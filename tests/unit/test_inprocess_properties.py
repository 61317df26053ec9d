"""Whatever a model answers: no message is lost, every call has its result, steps and hooks are in order."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.execution import loop, plan, react
from perdure.inprocess import InProcessHost
from perdure.uap.agent_execution import NamedStrategy
from perdure.uap.options import RunOptions
from perdure.uap.scaffold import PROMPT, scaffold_of
from perdure.upp.errors import UPPError
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import Answer, call
from perdure.upp.turn import Turn
from tests.conformance.uap_scenarios import FAIL, INPUT, LOOK, Scenario, Seen

REACT_STEP = r"start (\d+)\n(?:reason \1 .*\n)(?:act \1 .*\nobserve \1 .*\n)?end \1\nstop \1\n"
OTHER_STEP = r"start (\d+)\nend \1\nstop \1\n"

answers: st.SearchStrategy[ScriptedAnswer] = st.builds(
    Answer, st.sampled_from(["", "text"]), st.lists(st.sampled_from([LOOK, FAIL, call("unknown")]), max_size=3)
)


@st.composite
def plans(draw: st.DrawFn) -> ScriptedAnswer:
    """Plans that may be empty or bad."""
    names = draw(st.lists(st.sampled_from("abcd"), max_size=4))
    tools = st.sampled_from([None, "look", "fail"])
    depends_on = st.lists(st.sampled_from("abcd"), max_size=1)
    return json.dumps(
        {
            "steps": [
                {"id": name, "description": "d", "tool": draw(tools), "dependsOn": draw(depends_on)} for name in names
            ]
        }
    )


good_plan = st.integers(1, 4).map(
    lambda count: json.dumps({"steps": [{"id": str(n), "description": "d", "tool": "fail"} for n in range(count)]})
)


@dataclass
class Ran:
    """What a run came to; no turn if it failed."""

    turn: Turn | None
    seen: Seen


def run(execution: NamedStrategy, script: list[ScriptedAnswer], stop: int) -> Ran:
    """Run a script that ends in plain text, to a stop condition at a step."""
    scenario = Scenario(
        name="generated",
        facts="",
        execution=execution,
        script=[*script, "end"],
        stop=lambda state: state.step == stop,
        asked=0,
        hooks=[],
    )
    made, seen = scenario.stage()
    try:
        turn = asyncio.run(InProcessHost().run(made, [], UserMessage(INPUT), RunOptions()))
    except UPPError:
        assert "error" in seen.hooks
        return Ran(None, seen)
    return Ran(turn, seen)


executions: st.SearchStrategy[NamedStrategy] = st.one_of(
    st.builds(loop, max_iterations=st.integers(1, 12)),
    st.builds(react, max_steps=st.integers(1, 6)),
    st.builds(plan, max_plan_steps=st.integers(1, 6), allow_replan=st.booleans()),
)
scripts = st.tuples(plans() | good_plan | answers, st.lists(answers | good_plan, max_size=10)).map(
    lambda parts: [parts[0], *parts[1]]
)
stops = st.integers(0, 6)


def told(messages: list[Message]) -> list[Message]:
    """What is said to the model for good."""
    return [message for message in messages if scaffold_of(message) != PROMPT]


@given(executions, scripts, stops)
def test_no_message_is_lost(execution: NamedStrategy, script: list[ScriptedAnswer], stop: int) -> None:
    """Each request begins with all of the one before it; the turn is what the state has but for scaffolding."""
    ran = run(execution, script, stop)
    requests = [told([*request.messages]) for request in ran.seen.requests]
    for earlier, later in pairwise(requests):
        assert later[: len(earlier)] == earlier
        assert isinstance(later[len(earlier)], AssistantMessage)
    if ran.turn is not None:
        kept = ran.seen.states[-1].messages
        assert sum(isinstance(message, AssistantMessage) for message in kept) == len(requests)
        spoken = [message for message in kept if not scaffold_of(message)]
        assert ran.turn.messages == spoken or len(spoken) == 1  # stopped behind its planning: the plan stands in
        assert ran.turn.cycles == len(requests) == len(ran.turn.usage.cycles or [])


@given(executions, scripts)
def test_every_tool_call_is_answered(execution: NamedStrategy, script: list[ScriptedAnswer]) -> None:
    """Also in what the model is told; in loop, calls beyond the limit fail the run."""
    ran = run(execution, script, 0)
    conversations = [[*request.messages] for request in ran.seen.requests]
    for messages in [*conversations, [*ran.turn.messages] if ran.turn else []]:
        for place, message in enumerate(messages):
            if isinstance(message, AssistantMessage) and message.has_tool_calls:
                results = messages[place + 1]
                assert isinstance(results, ToolResultMessage)
                assert [item.tool_call_id for item in results.results] == [
                    item.tool_call_id for item in message.tool_calls or []
                ]


@given(executions, scripts, stops)
def test_steps_are_counted_and_add_up(execution: NamedStrategy, script: list[ScriptedAnswer], stop: int) -> None:
    ran = run(execution, script, stop)
    assert [state.step for state in ran.seen.states] == list(range(1, len(ran.seen.states) + 1))
    if ran.turn is not None:
        steps = ran.seen.step_turns
        assert sum(step.cycles for step in steps) == ran.turn.cycles
        assert sum(step.usage.total_tokens for step in steps) == ran.turn.usage.total_tokens
        assert [item for step in steps for item in step.tool_executions] == ran.turn.tool_executions


@given(executions, scripts, stops)
def test_hooks_are_in_the_order_of_the_specification(
    execution: NamedStrategy, script: list[ScriptedAnswer], stop: int
) -> None:
    """Source: UAP-1.0 section 11.4."""
    ran = run(execution, script, stop)
    lines = "".join(f"{line}\n" for line in ran.seen.hooks)
    one = REACT_STEP if execution.name == "react" else OTHER_STEP
    whole = re.sub(one, "", lines)
    assert whole == "complete\n" if ran.turn is not None else whole.endswith("error\n")


@pytest.mark.parametrize(
    "text", ["start 1\nend 1\nstop 1\n", "start 1\nreason 1 x\nact 1 a\nobserve 1 b\nend 1\nstop 1\n"]
)
def test_the_orders_above_can_be_told_apart(text: str) -> None:
    assert (re.fullmatch(REACT_STEP, text) is None) == ("reason" not in text)
    assert (re.fullmatch(OTHER_STEP, text) is None) == ("reason" in text)
