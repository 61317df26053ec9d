"""The readings' scenarios as durable runs, all scenarios as durable streams, and facts that are no scenario."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable

import pytest
import pytest_asyncio

from perdure import agent, session
from perdure.inprocess import InProcessHost
from perdure.middleware import logging
from perdure.uap.agent import Agent
from perdure.uap.ids import is_uuid4
from perdure.uap.options import RunOptions
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.providers.scripted import scripted
from perdure.upp.thread import Thread
from perdure.upp.tool_use import AfterCallResult, BeforeCallResult, ToolUseStrategy
from perdure.upp.turn import Turn
from tests.conformance.uap_reading_scenarios import READING_SCENARIOS
from tests.conformance.uap_scenarios import FAIL, INPUT, LOOK, SCENARIOS, Scenario, Seen, check_scenario, fail, look
from tests.conformance.uap_streams import check_order, read
from tests.integration.serving import serving
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUE = "more-scenarios"
ALL = [*SCENARIOS, *READING_SCENARIOS]
Staged = dict[str, tuple[Agent, Seen]]
LINES: list[str] = []
LOGGED = {
    name: agent(
        name=f"logged_{name}",
        model=scripted(script),
        tools=[look],
        middleware=[logging(level=level, include_messages=whole, logger=LINES.append)],
    )
    for name, level, whole, script in [
        ("whole", "debug", True, [LOOK, "found"]),
        ("failing", "info", False, [UPPError("no more", ErrorCode.CONTENT_FILTERED, "scripted")]),
        ("errors_of_none", "error", False, [LOOK, "found"]),
        ("errors_of_one", "error", False, [UPPError("no more", ErrorCode.CONTENT_FILTERED, "scripted")]),
    ]
}
"""What each logs: all with messages, a failure, and, of both kinds of runs, errors alone."""

GUARDED = agent(
    name="guarded_tools",
    model=scripted([[LOOK, FAIL], "end"]),
    tools=[look, fail],
    tool_strategy=ToolUseStrategy(
        on_before_call=lambda used, arguments: (
            used.name == "look" and BeforeCallResult(True, {**arguments, "word": "other"})
        ),
        on_after_call=lambda used, arguments, result: AfterCallResult(f"{result}, after all"),
    ),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def staged(stack: Stack) -> AsyncGenerator[Staged, None]:
    """All scenarios' agents, served by one worker of this process, whose hooks write where the tests can read."""
    made = {scenario.name: scenario.stage() for scenario in ALL}
    agents = [*(one for one, _ in made.values()), *LOGGED.values(), GUARDED]
    async with serving(stack, QUEUE, agents):
        yield made


def play(staged: Staged, name: str) -> tuple[Agent, Seen]:
    """The agent of a scenario, and what it will have been given: nothing yet."""
    made, seen = staged[name]
    for seen_before in (seen.requests, seen.hooks, seen.states, seen.step_turns, seen.completed, seen.errors):
        seen_before.clear()
    return made, seen


@pytest.mark.parametrize("scenario", READING_SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_scenario_of_a_reading_ends_as_it_must(stack: Stack, staged: Staged, scenario: Scenario) -> None:
    made, seen = play(staged, scenario.name)
    turn: Turn | None = None
    async with stack.connect():
        if scenario.error:
            with pytest.raises(UPPError) as raised:
                await made.run(INPUT)
            assert raised.value.code == scenario.error
        else:
            turn = await made.run(INPUT)
    check_scenario(scenario, turn, seen)


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
async def test_facts_42_43_66_a_scenario_streams_as_it_runs(stack: Stack, staged: Staged, scenario: Scenario) -> None:
    """The same turn, state, and calls of hooks."""
    made, seen = play(staged, scenario.name)
    turn: Turn | None = None
    async with stack.connect():
        result = made.stream(INPUT)
        if scenario.error:
            with pytest.raises(UPPError) as raised:
                await read(result)
            assert raised.value.code == scenario.error
        else:
            check_order(scenario.execution.name, await read(result))
            turn = await result.turn
    check_scenario(scenario, turn, seen)


ANSWERS = "loop answers in one step"
HISTORY: list[Message] = [UserMessage("I am Alice.", id="before")]


async def test_fact_03_run_takes_text_or_a_message(stack: Stack, staged: Staged) -> None:
    """Text becomes a user message; a message goes on with its id and metadata."""
    made, seen = play(staged, ANSWERS)
    message = UserMessage(INPUT, id="mine", metadata={"scripted": {"kept": True}})
    async with stack.connect():
        await made.run(INPUT)
        turn = await made.run(message)
    first, second = (request.messages[0] for request in seen.requests)
    assert (type(first), first.text) == (UserMessage, INPUT)
    assert second.to_json() == message.to_json() == turn.messages[0].to_json()


@pytest.mark.parametrize("history", [HISTORY, Thread(HISTORY)], ids=["list", "thread"])
async def test_fact_05_the_history_reaches_the_model_unchanged(
    stack: Stack, staged: Staged, history: list[Message] | Thread
) -> None:
    """And it is as it was, and no part of the turn."""
    made, seen = play(staged, ANSWERS)
    async with stack.connect():
        turn = await made.run(history, INPUT)
    told = seen.requests[0].messages
    assert [message.text for message in told] == ["I am Alice.", INPUT]
    assert told[0].id == "before"
    assert [message.text for message in turn.messages] == [INPUT, "hi"]
    assert [message.id for message in history] == ["before"]


async def test_must_15_2_1_values_are_of_upps_types(stack: Stack, staged: Staged) -> None:
    """Themselves, not subclasses, though in a workflow long ones are previews."""
    made, seen = play(staged, "react goes on after a call")
    async with stack.connect():
        turn = await made.run(INPUT)
    assert type(turn) is Turn
    assert [type(message) for message in turn.messages] == [
        UserMessage,
        AssistantMessage,
        ToolResultMessage,
        AssistantMessage,
    ]
    assert {type(made_by_it) for made_by_it in [*seen.completed, *seen.step_turns]} == {Turn}


async def lines_of(run: Awaitable[Turn], *, fails: bool) -> list[str]:
    """What a run logs, without durations and frames of a stack."""
    LINES.clear()
    if fails:
        with pytest.raises(UPPError, match="no more"):
            await run
    else:
        await run
    return [re.sub(r"[\d.]+m?s\b", "T", line) for line in LINES if "[DEBUG]   " not in line]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "whole",
            ["starting execution (Execution started)", f'Input: "{INPUT}"', "completed in T", 'Response: "found"'],
        ),
        ("failing", ["starting execution", "Execution failed after T: UPPError [CONTENT_FILTERED]: no more"]),
        ("errors_of_none", []),
        ("errors_of_one", ["[UAP:ERROR] [ERROR] Agent"]),
    ],
    ids=list(LOGGED),
)
async def test_facts_49_to_54_logging_is_the_same_in_both_hosts(
    stack: Stack, staged: Staged, name: str, words: list[str]
) -> None:
    """The lines, in order; and at level error there are those of errors alone."""
    made, fails = LOGGED[name], name in ("failing", "errors_of_one")
    here = await lines_of(InProcessHost().run(made, [], UserMessage(INPUT), RunOptions()), fails=fails)
    async with stack.connect():
        there = await lines_of(made.run(INPUT), fails=fails)
    assert there == here
    told = iter(here)
    assert [word for word in words if not any(word in line for line in told)] == []
    assert name != "errors_of_none" or here == []


async def test_reading_4_42_tool_hooks_run_in_both_hosts(stack: Stack, staged: Staged) -> None:
    """In a durable run in the worker: one changes a call and its result, and lets another call not be made."""
    here = await InProcessHost().run(GUARDED, [], UserMessage(INPUT), RunOptions())
    async with stack.connect():
        there = await GUARDED.run(INPUT)
    expected = [("seen other, after all", False), ("Tool execution skipped", True)]
    assert [(one.result, one.is_error) for one in here.tool_executions] == expected
    assert [(one.result, one.is_error) for one in there.tool_executions] == expected


async def test_readings_4_1_4_2_4_4_generated_ids_are_uuids_and_name_their_things(stack: Stack, staged: Staged) -> None:
    """Of a session, its agent, nodes, threads and checkpoints, and of the steps in their metadata."""
    made, _ = play(staged, "loop asks again after tools, and calls no hooks of react")
    async with stack.connect():
        chat = session(made)
        await chat.run(INPUT)
        root, taken = chat.thread_tree.root, chat.checkpoints
    ids = [chat.id, made.id, root.id, root.thread.id, *(item.id for item in taken)]
    steps = [str(item.metadata["stepId"]) for item in taken]
    assert all(is_uuid4(item) for item in [*ids, *steps])
    assert len(set(steps)) == len(taken) == 2
    assert {item.thread_id for item in taken} == {root.id}
