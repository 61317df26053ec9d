"""Streams of durable runs: what they tell is what a stream in process tells, and leaving one cancels its run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from perdure.errors import InvalidInput, RunCancelled, ServerError, UnknownAgent
from perdure.execution import loop, plan, react
from perdure.inprocess import InProcessHost
from perdure.runtime.sessions import Sessions
from perdure.store.agents import register_agents
from perdure.store.runs import TERMINAL
from perdure.uap.agent import Agent, agent
from perdure.uap.agent_stream import AgentStreamEvent
from perdure.uap.options import RunOptions
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.function_tool import tool
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import Answer, ScriptedAnswer
from perdure.upp.providers.scripted import cut_after, scripted
from perdure.upp.tool_call import ToolCall
from tests.conformance import uamp_agents
from tests.conformance.uap_scenarios import planned
from tests.conformance.uap_streams import check_order, events_json, kind, letters, read, shown, text_of, turn_json
from tests.integration.facts import check_session
from tests.integration.serving import agent_row, serving
from tests.integration.stack import Stack, WorkerProcess, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUE = "streams"
TEXT = "a text that comes in pieces"
DEADLINE_S = 90


@tool(effect="none")
async def look(size: int, why: str = "") -> str:
    """Look, and see so much."""
    return "s" * size


@tool(effect="none")
async def fail() -> str:
    """Fail."""
    raise ValueError("broken")


@tool(effect="none")
async def wait() -> str:
    """Wait."""
    WAITING.set()
    await asyncio.Event().wait()
    return "never"


GATE = asyncio.Event()
"""Set by the test that holds a run; `hold` and the worker that runs it are in this process."""
WAITING = asyncio.Event()
"""Set while `wait` waits."""


@tool(effect="none")
async def hold() -> str:
    """Wait until the gate is open."""
    await GATE.wait()
    return "let go"


def _answer(request: LLMRequest) -> ScriptedAnswer:
    """Follow the input's script: texts, and lists of calls {"tool", "arguments"}."""
    script: list[str | list[dict[str, Any]]] = json.loads(request.messages[0].text)
    number = sum(isinstance(message, AssistantMessage) for message in request.messages)
    item = script[number]
    if item == "error":
        return UPPError("no more", ErrorCode.CONTEXT_LENGTH_EXCEEDED, "scripted")
    if isinstance(item, str):
        return item
    calls = [ToolCall(f"{number}.{n}", one["tool"], one.get("arguments", {})) for n, one in enumerate(item)]
    return Answer("I call", tool_calls=calls)


def _made(name: str, execution: Any, **model: Any) -> Agent:
    return agent(name=name, model=scripted(_answer, **model), tools=[look, fail, wait, hold], execution=execution)


LOOPER = _made("stream_looper", loop(), chunk_size=20)
REACTOR = _made("stream_reactor", react(), chunk_size=20)
PLANNER = _made("stream_planner", plan(), chunk_size=20)
BUSY = UPPError("busy", ErrorCode.RATE_LIMITED, "scripted")
FALTERING = _made("stream_faltering", loop(), chunk_size=3, failures=[BUSY, cut_after(0), BUSY, cut_after(5)])
SLOW = _made("stream_slow", loop(), chunk_size=3, chunk_delay=0.2)
UNSERVED = _made("stream_unserved", loop())
AGENTS = [LOOPER, REACTOR, PLANNER, FALTERING, SLOW]

BIG = {"tool": "look", "arguments": {"size": 5000, "why": "w" * 3000}}
SMALL = {"tool": "look", "arguments": {"size": 3}}


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def worker(stack: Stack) -> AsyncGenerator[None, None]:
    """One worker in this process."""
    async with serving(stack, QUEUE, AGENTS) as sessions:
        await register_agents(sessions.database, "default", [agent_row(UNSERVED, "nobody")])
        yield


def said(*script: Any) -> UserMessage:
    return UserMessage(json.dumps(script))


async def last_run(sessions: Sessions, agent_name: str) -> dict[str, Any]:
    """The row of an agent's last run."""
    sql = (
        "select r.id, r.session_id, r.status from perdure.runs r join perdure.sessions s on s.id = r.session_id "
        "where s.agent = $1 order by r.started_at desc limit 1"
    )
    async with sessions.database.driver() as connection:
        return dict(await connection.fetchrow(sql, agent_name) or {})


@pytest.mark.parametrize(
    ("made", "script"),
    [
        (LOOPER, ["hi"]),
        (LOOPER, [[SMALL, {"tool": "fail"}, {"tool": "unknown"}], [SMALL], TEXT]),
        (LOOPER, [[BIG, BIG], "x" * 3000]),
        (REACTOR, ["I think " * 300, [BIG, SMALL], "enough", TEXT]),
        (PLANNER, [planned("a", "b", tool="look"), [SMALL], [BIG], "did a", "did b"]),
        (PLANNER, ["no plan", planned("a"), [SMALL], TEXT]),
    ],
)
async def test_both_hosts_tell_the_same(stack: Stack, made: Agent, script: list[Any]) -> None:
    """S06: All events but checkpoints, in order and whole, though the log holds long parts as previews; and the turn."""
    message = said(*script)
    here = InProcessHost().stream(made, [], message, RunOptions())
    expected = await read(here)
    async with stack.connect() as sessions:
        there = made.stream(message)
        events = await read(there)
        turn = await there.turn
        row = await last_run(sessions, str(made.name))
    assert events_json(events) == events_json(expected)
    assert turn_json(turn) == turn_json(await here.turn)
    check_order(str(made.execution.name), events)
    await check_session(stack, row["session_id"])


async def test_a_step_ends_with_its_checkpoint(stack: Stack) -> None:
    async with stack.connect():
        events = await read(LOOPER.stream(said([SMALL], "done")))
    uap = [event.uap for event in events if event.uap is not None]
    assert [(str(event.type), event.step) for event in uap] == [
        *(("step_start", 1), ("action", 1), ("observation", 1), ("step_end", 1), ("checkpoint", 1)),
        *(("step_start", 2), ("step_end", 2), ("checkpoint", 2)),
    ]
    assert {event.agent_id for event in uap} == {LOOPER.id}
    assert [set(event.data) for event in uap if event.type == "checkpoint"] == [
        {"checkpointId", "stepId", "turnId"}
    ] * 2
    assert len({str(event.data["stepId"]) for event in uap}) == 2


async def test_a_turn_needs_no_iteration_and_its_events_are_kept(stack: Stack) -> None:
    async with stack.connect():
        result = LOOPER.stream(said([SMALL], "done"))
        assert (await result.turn).response.text == "done"
        assert text_of(await read(result)) == "I calldone"


async def test_a_history_goes_first(stack: Stack) -> None:
    """As with run."""
    script = said("first", "second")
    async with stack.connect():
        turn = await LOOPER.stream([script, AssistantMessage("first")], "go on").turn
    assert [message.text for message in turn.messages] == ["go on", "second"]


async def test_a_call_that_is_tried_again_says_what_is_void(stack: Stack) -> None:
    """A reader who heeds the resets has every text once; a try that gave nothing needs none."""
    async with stack.connect():
        result = FALTERING.stream(said(TEXT))
        events = await read(result)
        turn = await result.turn
    resets = [event.uap for event in events if event.uap is not None and event.uap.type == "reset"]
    assert [event.data["events"] for event in resets] == [2, 7]
    assert len(text_of(events)) > len(TEXT)
    assert text_of(shown(events)) == turn.response.text == TEXT
    assert [kind(event) for event in shown(events)].count("message_start") == 1
    assert {(event.step, event.agent_id) for event in resets} == {(1, FALTERING.id)}


async def test_a_worker_that_dies_in_the_middle_leaves_no_text_twice(stack: Stack, tmp_path: Path) -> None:
    """The next one buys the answer anew, and says so to who reads."""
    app = "tests.conformance.uamp_agents:app"
    environment = {"PERDURE_UAMP_GATES": str(tmp_path), "PERDURE_PRICES": json.dumps(uamp_agents.PRICES)}
    first, then = WorkerProcess(stack, app, **environment).wait_ready(), None
    events: list[AgentStreamEvent] = []
    try:
        async with stack.connect(), asyncio.timeout(2 * DEADLINE_S):  # a worker's start is in it
            said_in_two = ["word " * 10, uamp_agents.gate("middle"), "word " * 20]
            result = uamp_agents.assistant.stream(uamp_agents.plan({"say": said_in_two}))
            async for event in result:
                events.append(event)
                if text_of(events) == "word " * 10 and then is None:
                    first.kill()
                    (tmp_path / "middle").touch()
                    then = WorkerProcess(stack, app, **environment)
            turn = await result.turn
    finally:
        first.kill()
        if then is not None:
            then.kill()
    assert letters(events).count("X") == 1
    assert text_of(shown(events)) == turn.response.text == "word " * 30
    assert letters(events).count("S") == letters(events).count("E") == 1


async def test_leaving_early_cancels_the_run(stack: Stack) -> None:
    """The turn has the text so far, which is what the thread keeps, and says that it was aborted."""
    async with stack.connect() as sessions:
        result = SLOW.stream(said(TEXT * 100))
        async for event in result:
            if kind(event) == "text_delta":
                break
        async with asyncio.timeout(DEADLINE_S):
            turn = await result.turn

        async def cancelled() -> dict[str, Any] | None:
            row = await last_run(sessions, "stream_slow")
            return row if row["status"] == "cancelled" else None

        row = await eventually(cancelled, what="the run's end")
    assert turn.response.text
    assert (TEXT * 100).startswith(turn.response.text)
    assert (turn.response.metadata or {})["uap"] == {"aborted": True}
    assert [message.type for message in turn.messages] == ["user", "assistant"]
    await check_session(stack, row["session_id"])


async def test_aborting_answers_the_calls_that_run(stack: Stack) -> None:
    """Iterating ends quietly."""
    read_: list[AgentStreamEvent] = []
    async with stack.connect() as sessions, asyncio.timeout(DEADLINE_S):
        result = LOOPER.stream(said([SMALL, {"tool": "wait"}], "never"))
        async for event in result:
            read_.append(event)
            if kind(event) == "tool_execution_end":
                await WAITING.wait()
                result.abort()
        turn = await result.turn
        row = await last_run(sessions, "stream_looper")
    assert kind(read_[-1]) == "tool_execution_end"
    assert row["status"] == "cancelled"
    results = turn.messages[-1]
    assert isinstance(results, ToolResultMessage)
    assert [item.is_error for item in results.results] == [False, True]
    assert "cancelled while this tool was running" in results.results[1].text
    assert [execution.is_error for execution in turn.tool_executions] == [False, True]
    assert (turn.response.metadata or {})["uap"] == {"aborted": True}


async def test_the_connection_waits_for_runs_whose_readers_left(stack: Stack) -> None:
    """They are cancelled although nobody asks for their turns."""
    async with stack.connect():
        async for event in SLOW.stream(said("y" * 1000)):
            if kind(event) == "text_delta":
                break
    async with stack.connect() as sessions:
        assert (await last_run(sessions, "stream_slow"))["status"] == "cancelled"


async def test_a_stream_ends_with_its_connection(stack: Stack) -> None:
    """One that was not left is told so behind what had come, and its run goes on."""
    async with stack.connect():
        result = LOOPER.stream(said([{"tool": "hold"}], "done"))
        iterator = aiter(result)
        await anext(iterator)
    with pytest.raises(ServerError, match="the run goes on"):
        [event async for event in iterator]
    GATE.set()
    async with stack.connect() as sessions:

        async def ended() -> bool:
            return (await last_run(sessions, "stream_looper"))["status"] in TERMINAL

        await eventually(ended, what="the run's end")
        assert (await last_run(sessions, "stream_looper"))["status"] == "completed"


async def test_aborting_before_reading_submits_nothing(stack: Stack) -> None:
    async with stack.connect() as sessions:
        before = await last_run(sessions, "stream_slow")
        result = SLOW.stream(said(TEXT))
        result.abort()
        assert await read(result) == []
        assert (await result.turn).response.text == ""
        assert await last_run(sessions, "stream_slow") == before


async def test_aborting_withdraws_a_run_that_nobody_has_begun(stack: Stack) -> None:
    async with stack.connect() as sessions, asyncio.timeout(DEADLINE_S):
        result = UNSERVED.stream(said("hi"))
        reader = asyncio.create_task(read(result))

        async def state() -> str | None:
            sql = (
                "select i.state from perdure.inputs i join perdure.sessions s on s.id = i.session_id where s.agent = $1"
            )
            async with sessions.database.driver() as connection:
                return await connection.fetchval(sql, "stream_unserved")

        assert await eventually(state, what="the input's row") == "queued"
        result.abort()
        turn = await result.turn
        assert await reader == []
        assert await state() == "withdrawn"
    assert [message.text for message in turn.messages] == [json.dumps(["hi"]), ""]


async def test_a_run_that_somebody_cancels_is_an_error(stack: Stack) -> None:
    """It is not this reader who aborted."""
    async with stack.connect() as sessions:
        result = SLOW.stream(said("z" * 1000))
        iterator = aiter(result)
        while kind(await anext(iterator)) != "text_delta":
            pass
        await sessions.cancel((await last_run(sessions, "stream_slow"))["session_id"])
        with pytest.raises(RunCancelled):
            await result.turn
        with pytest.raises(RunCancelled):
            [event async for event in iterator]


@pytest.mark.parametrize("drained", [True, False])
async def test_an_error_is_raised_to_who_reads_and_who_awaits(stack: Stack, drained: bool) -> None:
    async with stack.connect():
        result = LOOPER.stream(said([SMALL], "error"))
        if not drained:
            with pytest.raises(UPPError, match="no more"):
                await read(result)
        with pytest.raises(UPPError, match="no more"):
            await result.turn


async def test_an_input_that_cannot_be_submitted_is_an_error_of_reading(stack: Stack) -> None:
    async with stack.connect():
        for made, error in [
            (agent(model=scripted(["x"])), InvalidInput),
            (agent(name="stream_nobody", model=scripted(["x"])), UnknownAgent),
        ]:
            result = made.stream("go")
            with pytest.raises(error):
                await read(result)
