"""Facts and readings of UAP's streaming, by their numbers in the reference, and section 12.5; in process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from hypothesis import given, settings

from perdure.errors import RunCancelled
from perdure.execution import loop, plan, react
from perdure.inprocess import InProcessHost
from perdure.uap import host
from perdure.uap.agent import Agent, agent
from perdure.uap.agent_execution import NamedStrategy
from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult, UAPEventType, of_step
from perdure.uap.hooks import AgentStrategy
from perdure.uap.options import RunOptions
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.event_flow import Flow
from perdure.upp.function_tool import tool
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import Answer, Script, ScriptedAnswer
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.stream import text_delta
from perdure.upp.thread import Thread
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage
from tests.conformance.uap_scenarios import FAIL, INPUT, LOOK, SCENARIOS, Scenario, Seen, check_scenario, planned
from tests.conformance.uap_streams import check_order, events_json, kind, letters, read, text_of, turn_json
from tests.unit.test_inprocess_properties import executions, scripts

ABORTED = {"aborted": True}
TEXT = "a text that comes in pieces"
DEADLINE_S = 60


@tool
async def look(word: str) -> str:
    """Look a word up."""
    return f"seen {word}"


def stream(made: Agent, history: list[Message] | None = None) -> AgentStreamResult:
    return InProcessHost().stream(made, history or [], UserMessage(INPUT), RunOptions())


def of(
    script: Script, execution: NamedStrategy | None = None, strategy: AgentStrategy | None = None, **options: Any
) -> Agent:
    return agent(model=scripted(script, **options), tools=[look], execution=execution, strategy=strategy)


def data_of(events: list[AgentStreamEvent], wanted: str) -> list[dict[str, Any]]:
    """Data of the UAP events of a type, without the step's id."""
    found = [event.uap for event in events if event.uap is not None and event.uap.type == wanted]
    return [{name: value for name, value in event.data.items() if name not in ("stepId", "turnId")} for event in found]


async def read_until(result: AgentStreamResult, wanted: str) -> list[AgentStreamEvent]:
    """Read, and leave at the first event of a type."""
    events: list[AgentStreamEvent] = []
    async for event in result:
        events.append(event)
        if kind(event) == wanted:
            break
    return events


def test_fact_07_stream_returns_at_once() -> None:
    """Not a coroutine, and without a running loop: an async iterable with an awaitable turn and an abort."""
    with host.connected(InProcessHost()):
        result = of(["hi"]).stream(INPUT)
    assert isinstance(result.turn, Awaitable)
    assert callable(result.abort)
    assert hasattr(result, "__aiter__")


async def test_fact_07_stream_takes_what_run_takes() -> None:
    """An input, or a history and an input; neither is changed."""
    asked: list[LLMRequest] = []

    def answer(request: LLMRequest) -> str:
        asked.append(request)
        return "hi"

    made, history = of(answer), [UserMessage("before"), AssistantMessage("there")]
    with host.connected(InProcessHost()):
        await made.stream(INPUT)
        await made.stream(history, UserMessage(INPUT))
        await made.stream(Thread(history), INPUT)
    assert [[message.text for message in request.messages] for request in asked] == [
        ["go"],
        *[["before", "there", "go"]] * 2,
    ]


async def test_fact_08_a_stream_gives_exactly_what_its_work_sends() -> None:
    """In order, none added: a strategy's own stream is handed on as it is."""
    sent = [of_step(UAPEventType.STEP_START, "r", 1, "a", {}), AgentStreamEvent(upp=text_delta("x"))]
    turn = Turn([AssistantMessage("x")], [], empty_usage(), 1)

    async def work(flow: Flow[AgentStreamEvent]) -> Turn:
        await flow.send(sent)
        return turn

    result = AgentStreamResult(work)
    assert await read(result) == sent
    assert await result.turn is turn


async def test_fact_20_a_loop_streams_its_steps() -> None:
    result = stream(of([LOOK, "done"], loop()))
    events = await read(result)
    assert letters(events) == "SmmmmmAteOESmmmmmE"
    assert (await result.turn).response.text == "done"


async def test_fact_20_abort_can_be_called_at_once() -> None:
    result = stream(of(["hi"]))
    result.abort()
    assert (await result.turn).response.text == ""


async def test_fact_29_react_streams_its_reasoning() -> None:
    """The specification's key, not upstream's."""
    events = await read(stream(of(["I think", "done"], react())))
    assert data_of(events, "reasoning") == [{"text": "I think"}]
    assert letters(events) == "SmmmmmRmmmmmE"


async def test_facts_39_40_plan_streams_its_steps_by_the_specifications_names() -> None:
    result = stream(of([planned("a", "b"), "did a", "did b"], plan()))
    assert [item["stepNumber"] for item in data_of(await read(result), "step_end")] == [1, 2, 3]
    assert (await result.turn).response.text == "did b"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_facts_42_43_66_a_scenario_streams_as_it_runs(scenario: Scenario) -> None:
    """The same turn, state, and calls of hooks."""
    made, seen = scenario.stage()
    result, turn = stream(made), None
    if scenario.error:
        with pytest.raises(UPPError):
            await read(result)
    else:
        check_order(scenario.execution.name, await read(result))
        turn = await result.turn
    check_scenario(scenario, turn, seen)


@settings(max_examples=150, deadline=None)
@given(executions, scripts)
def test_facts_42_43_66_streaming_changes_nothing(execution: NamedStrategy, script: list[ScriptedAnswer]) -> None:
    """Whatever the model says: turn or error, requests, states and hooks are those of `run`; and events are in order."""

    def scenario() -> tuple[Agent, Seen]:
        return Scenario(
            name="generated", facts="", execution=execution, script=[*script, "end"], asked=0, hooks=[]
        ).stage()

    (ran_agent, ran), (streamed_agent, streamed) = scenario(), scenario()

    async def play() -> tuple[object, object, list[AgentStreamEvent]]:
        outcomes: list[object] = []
        result, events = stream(streamed_agent), list[AgentStreamEvent]()
        try:
            outcomes.append(turn_json(await InProcessHost().run(ran_agent, [], UserMessage(INPUT), RunOptions())))
        except UPPError as error:
            outcomes.append((error.code, error.message))
        try:
            async for event in result:
                events.append(event)
            outcomes.append(turn_json(await result.turn))
        except UPPError as error:
            outcomes.append((error.code, error.message))
        return outcomes[0], outcomes[1], events

    by_run, by_stream, events = asyncio.run(play())
    assert by_run == by_stream
    assert ran.hooks == streamed.hooks
    assert [[m.text for m in request.messages] for request in ran.requests] == [
        [m.text for m in request.messages] for request in streamed.requests
    ]
    assert [(s.step, len(s.messages), s.reasoning, s.plan) for s in ran.states] == [
        (s.step, len(s.messages), s.reasoning, s.plan) for s in streamed.states
    ]
    if isinstance(by_stream, dict):
        check_order(execution.name, events)


async def test_reading_4_50_abort_keeps_the_text_that_came() -> None:
    """The turn says that it was aborted, on_complete is not called, and the iteration ends quietly."""
    completed: list[Turn] = []
    result = stream(of([TEXT], strategy=AgentStrategy(on_complete=completed.append), chunk_size=3))
    read_ = 0
    async for event in result:
        read_ += kind(event) == "text_delta"
        if read_ == 2:
            result.abort()
    turn = await result.turn
    assert turn.response.text == TEXT[:6]
    assert (turn.response.metadata or {})["uap"] == ABORTED
    assert [message.type for message in turn.messages] == ["user", "assistant"]
    assert turn.cycles == 1
    assert Turn.from_json(turn.to_json()) == turn
    assert completed == []


async def test_reading_4_50_only_the_text_of_the_answer_in_hand_is_new() -> None:
    """What was said before is in its own message."""
    result = stream(of([Answer("first", tool_calls=[LOOK]), TEXT], chunk_size=5))
    async for event in result:
        if event.upp is not None and event.upp.delta.text == TEXT[:5]:
            break
    assert [message.text for message in (await result.turn).messages] == ["go", "first", "seen w", TEXT[:5]]


async def test_reading_4_55_a_run_that_is_cancelled_from_within_is_an_error() -> None:
    """Its reader did not abort it."""

    async def cancel(step: int, state: object) -> None:
        raise asyncio.CancelledError

    with pytest.raises(RunCancelled):
        await read(stream(of(["hi"], strategy=AgentStrategy(on_step_start=cancel))))


async def test_reading_4_50_calls_that_never_became_whole_are_dropped() -> None:
    result = stream(of([Answer("I will look", tool_calls=[LOOK]), "done"]))
    await read_until(result, "tool_call_delta")
    turn = await result.turn
    assert (turn.response.text, turn.response.tool_calls) == ("I will look", None)


async def test_reading_4_50_calls_that_were_to_run_are_answered() -> None:
    """None of them is run: the reader left at the action."""
    result = stream(of([[LOOK, call("look", word="x")], "done"]))
    await read_until(result, "action")
    turn = await result.turn
    assert turn.tool_executions == []
    last = turn.messages[-1]
    assert isinstance(last, ToolResultMessage)
    assert [(item.is_error, "no result" in item.text) for item in last.results] == [(True, True)] * 2


async def test_reading_4_50_of_a_batch_what_has_ended_is_kept() -> None:
    """What was running is told as unknown, what had not begun as not run."""
    running, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    @tool(sequential=True)
    async def last() -> str:
        """Go last."""
        raise AssertionError

    script = [[call("look", word="w"), call("wait"), call("last")], "done"]
    result = stream(agent(model=scripted(script), tools=[look, wait, last]))
    async with asyncio.timeout(DEADLINE_S):
        await read_until(result, "tool_execution_end")
        assert running.is_set()
        turn = await result.turn
    assert cancelled.is_set()
    results = turn.messages[-1]
    assert isinstance(results, ToolResultMessage)
    assert [(item.is_error, item.text.partition(":")[0]) for item in results.results] == [
        (False, "seen w"),
        (True, "The run was cancelled while this tool was running; whether it had its effect is not known."),
        (True, "This tool has no result"),
    ]
    assert [execution.is_error for execution in turn.tool_executions] == [False, True]
    assert (turn.response.metadata or {})["uap"] == ABORTED


async def test_reading_4_51_a_turn_needs_no_iteration() -> None:
    assert (await stream(of([LOOK, "done"])).turn).response.text == "done"


async def test_reading_4_51_leaving_early_is_aborting() -> None:
    """Nothing more is asked of the model."""
    asked: list[LLMRequest] = []

    def answer(request: LLMRequest) -> ScriptedAnswer:
        asked.append(request)
        return LOOK

    result = stream(of(answer))
    await read_until(result, "observation")
    turn = await result.turn
    assert len(asked) == 1
    assert [message.type for message in turn.messages] == ["user", "assistant", "tool_result"]
    assert [execution.result for execution in turn.tool_executions] == ["seen w"]


async def test_reading_4_51_the_reader_sets_the_pace() -> None:
    """A tool runs when its start has been read and more is wanted."""
    ran: list[str] = []

    @tool
    def note() -> None:
        """Note."""
        ran.append("note")

    result = stream(agent(model=scripted([call("note"), "done"]), tools=[note]))
    iterator = aiter(result)
    while kind(await anext(iterator)) != "tool_execution_start":
        pass
    await asyncio.sleep(0)
    assert ran == []
    assert kind(await anext(iterator)) == "tool_execution_end"
    assert ran == ["note"]
    await iterator.aclose()


async def test_reading_4_52_data_has_the_specifications_keys() -> None:
    """Usage is the whole step's: reasoning and acting."""
    result = stream(of(["I think", LOOK, "enough", "done"], react()))
    events = await read(result)
    keys = {kind(event): set(event.uap.data) - {"stepId", "turnId"} for event in events if event.uap is not None}
    assert keys == {
        "step_start": {"stepNumber"},
        "step_end": {"stepNumber", "usage"},
        "reasoning": {"text"},
        "action": {"toolCalls"},
        "observation": {"results"},
    }
    assert data_of(events, "action") == [
        {"toolCalls": [{"toolCallId": "call_scripted_1_0", "toolName": "look", "arguments": {"word": "w"}}]}
    ]
    assert data_of(events, "observation") == [
        {"results": [{"toolCallId": "call_scripted_1_0", "result": "seen w", "isError": False}]}
    ]
    used = sum(item["usage"]["totalTokens"] for item in data_of(events, "step_end"))
    assert used == (await result.turn).usage.total_tokens > 0


async def test_reading_4_53_tools_run_between_action_and_observation() -> None:
    events = await read(stream(of([[LOOK, FAIL], "done"])))
    assert letters(events[events.index(next(e for e in events if kind(e) == "action")) :]) == "AtteeOESmmmmmE"


async def test_reading_4_55_errors_are_raised_to_both() -> None:
    """With the events before them."""
    error = UPPError("no more", ErrorCode.CONTEXT_LENGTH_EXCEEDED, "scripted")
    result = stream(of([LOOK, error]))
    with pytest.raises(UPPError) as awaited:
        await result.turn
    iterator = aiter(result)
    assert letters([await anext(iterator) for _ in range(12)]) == "SmmmmmAteOES"
    with pytest.raises(UPPError) as raised:
        await anext(iterator)
    assert raised.value is awaited.value is error


async def test_reading_4_55_an_error_that_is_recovered_is_not_raised() -> None:
    sorry = Turn([UserMessage(INPUT), AssistantMessage("sorry")], [], empty_usage(), 1)
    strategy = AgentStrategy(on_error=lambda error, state: sorry)
    result = stream(of([UPPError("no", ErrorCode.INVALID_REQUEST, "scripted")], strategy=strategy))
    await read(result)
    assert (await result.turn).messages == sorry.messages


async def test_must_12_5_1_upp_events_are_unchanged() -> None:
    """They are the very events that the model's own stream has."""
    model = scripted([TEXT], chunk_size=4).bind()
    own = [event async for event in model.stream(LLMRequest(messages=[UserMessage(INPUT)]))]
    events = await read(stream(of([TEXT], chunk_size=4)))
    assert [event.upp for event in events if event.source == "upp"] == own
    assert text_of(events) == TEXT


async def test_must_12_5_4_the_turn_is_the_one_that_run_gives() -> None:
    made = of(["hi", "hi"])
    ran = await InProcessHost().run(made, [], UserMessage(INPUT), RunOptions())
    assert turn_json(await stream(made).turn) == turn_json(ran)


@pytest.mark.parametrize("execution", [loop(), react()])
async def test_must_12_5_6_uap_events_have_step_and_agent(execution: NamedStrategy) -> None:
    made = of(["a", LOOK, "b", "c"] if execution.name == "react" else [LOOK, "a"], execution)
    found = [event.uap for event in await read(stream(made)) if event.uap is not None]
    assert {event.agent_id for event in found} == {made.id}
    assert [event.step for event in found] == sorted(event.step for event in found)
    assert {event.step for event in found} == {1, 2}
    assert len({str(event.data["stepId"]) for event in found}) == 2


def test_events_of_all_types_are_compared() -> None:
    """A type that nobody put in order would pass for the model's."""
    assert {str(item) for item in UAPEventType} <= {
        *("step_start", "reasoning", "action", "observation", "step_end", "checkpoint", "reset")
    }
    assert events_json([of_step(UAPEventType.CHECKPOINT, "r", 1, "a", {})]) == []
