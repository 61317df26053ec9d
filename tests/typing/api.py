# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Typed calls of the public surface. Nothing runs this file; `make check` reads it.

A right use must be free of errors. A wrong one is marked with the error it is: if it stops being one, the mark is
unnecessary, and that is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, assert_type

from perdure import App, agent, connect, session
from perdure.execution import loop
from perdure.inprocess import InProcessHost
from perdure.runtime.connect import DurableHost
from perdure.runtime.sessions import Controlled, RunHandle, Sessions
from perdure.store.events import Event
from perdure.store.runs import RunRow
from perdure.store.waits import WaitRow
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamResult
from perdure.uap.host import Host
from perdure.uap.options import RunOptions
from perdure.uap.session_limits import SessionLimits
from perdure.uap.spec import StrategySpec
from perdure.uap.strategy import Effects, Strategy, StrategyContext
from perdure.upp import (
    AssistantMessage,
    FunctionTool,
    JSONObject,
    LLMRequest,
    Message,
    ModelReference,
    Thread,
    Tool,
    ToolCall,
    ToolContext,
    ToolEffect,
    ToolExecution,
    ToolResultMessage,
    ToolRetry,
    Turn,
    UserMessage,
    tool,
)
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.workflows.effects import TemporalEffects
from perdure.workflows.strategies.loop import Loop

# -- tools ---------------------------------------------------------------------------------------------------


@tool
def look_up(word: str, language: str = "en") -> str:
    return word + language


@tool(effect="once", timeout=30, sequential=True, description="Open a ticket.")
async def open_ticket(title: str, context: ToolContext) -> int:
    return len(title) + context.attempt


@tool(effect=ToolEffect.IDEMPOTENT, timeout=timedelta(seconds=1), approval=lambda arguments: "title" in arguments)
def close_ticket(title: str) -> None:
    return None


async def tools_keep_their_signature(context: ToolContext) -> None:
    assert_type(look_up("word"), str)
    assert_type(look_up("word", language="de"), str)
    assert_type(await open_ticket("title", context), int)
    tools: list[Tool] = [look_up, open_ticket, close_ticket]
    assert_type(tools[0].timeout, timedelta | None)
    look_up(7)  # pyright: ignore[reportArgumentType]
    look_up("word", lang="de")  # pyright: ignore[reportCallIssue]
    look_up()  # pyright: ignore[reportCallIssue]
    await open_ticket("title")  # pyright: ignore[reportCallIssue]
    await look_up("word")  # pyright: ignore[reportGeneralTypeIssues]


def tools_say_what_they_are() -> None:
    tool(effect="twice")  # pyright: ignore[reportArgumentType]
    tool(timeout="30")  # pyright: ignore[reportArgumentType]
    tool(retries=3)  # pyright: ignore[reportCallIssue]
    tool("look_up")  # pyright: ignore[reportArgumentType]
    tool(approval=lambda: True)  # pyright: ignore[reportArgumentType]


# -- models --------------------------------------------------------------------------------------------------


async def answer(request: LLMRequest) -> Answer:
    return Answer(text=str(len(request.messages)), tool_calls=[ToolCall("1", "look_up", {"word": "a"})])


def models_come_from_providers() -> None:
    assert_type(scripted(["hello", call("look_up", word="a"), ValueError("no")], latency=0.5), ModelReference)
    assert_type(scripted(answer), ModelReference)
    assert_type(scripted(lambda request: "fine"), ModelReference)
    scripted(7)  # pyright: ignore[reportArgumentType]
    scripted([7])  # pyright: ignore[reportArgumentType]
    scripted(answer, latency=timedelta(seconds=1))  # pyright: ignore[reportArgumentType]
    scripted(lambda: "fine")  # pyright: ignore[reportArgumentType]


# -- agents --------------------------------------------------------------------------------------------------

MODEL = scripted(["hello"])


class Own:
    """A strategy of the user's."""

    name = "own"
    options: dict[str, Any] = {}

    async def execute(self, context: StrategyContext) -> Turn:
        assert_type(await context.effects.start_step(), int)
        message = await context.effects.generate()
        assert_type(message, AssistantMessage)
        assert_type(await context.effects.call_tools(message), ToolResultMessage)
        await context.effects.end_step(last=True)
        await context.effects.end_step(True)  # pyright: ignore[reportCallIssue]
        await context.effects.end_step()  # pyright: ignore[reportCallIssue]
        context.options.max_steps = 3  # pyright: ignore[reportAttributeAccessIssue]
        return context.effects.turn()


class Unfinished:
    """No strategy: nothing executes it."""

    name = "unfinished"


def agents_are_defined() -> None:
    coder = agent(
        name="coder",
        model=MODEL,
        system="You fix bugs.",
        tools=[look_up, open_ticket],
        execution=loop(max_iterations=20),
        params={"temperature": 0.2},
    )
    assert_type(coder, Agent)
    assert_type(coder.tool("look_up"), Tool | None)
    agent(model=MODEL, execution=StrategySpec("loop", {"max_iterations": 3}))
    agent(model=MODEL, execution=Own())
    strategy: Strategy = Own()
    strategy = loop()
    assert_type(strategy, Loop)
    agent("coder", MODEL)  # pyright: ignore[reportCallIssue]
    agent(name="inherits its parent's model")
    agent(model="gpt")  # pyright: ignore[reportArgumentType]
    agent(model=MODEL, tools=[print])  # pyright: ignore[reportArgumentType]
    agent(model=MODEL, tools=look_up)  # pyright: ignore[reportArgumentType]
    agent(model=MODEL, execution="loop")  # pyright: ignore[reportArgumentType]
    agent(model=MODEL, execution=Unfinished())  # pyright: ignore[reportArgumentType]
    agent(model=MODEL, instructions="Be kind.")  # pyright: ignore[reportCallIssue]
    strategy = Unfinished()  # pyright: ignore[reportAssignmentType]
    loop(max_iterations="3")  # pyright: ignore[reportArgumentType]
    loop(3)  # pyright: ignore[reportCallIssue]
    coder.name = "other"  # pyright: ignore[reportAttributeAccessIssue]


def apps_hold_agents(coder: Agent) -> None:
    app = App(agents=[coder])
    assert_type(app.agent("coder"), Agent)
    assert_type([item.name for item in app], list[str | None])
    App([coder])
    App(coder)  # pyright: ignore[reportArgumentType]
    App(agents=["coder"])  # pyright: ignore[reportArgumentType]
    App(workflows=[])
    App(workflows=["store"])  # pyright: ignore[reportArgumentType]


async def agents_run(coder: Agent, thread: Thread, message: UserMessage) -> None:
    turn = await coder.run("hello")
    assert_type(turn, Turn)
    assert_type(turn.response, AssistantMessage)
    assert_type(turn.response.text, str)
    assert_type(list(turn.tool_executions), list[ToolExecution])
    await coder.run(message, options=RunOptions(max_steps=3))
    await coder.run(thread, "and then?")
    await coder.run([message, turn.response], message)
    await coder.run(turn.messages, "and then?")
    await coder.run()  # pyright: ignore[reportCallIssue]
    await coder.run([message])  # pyright: ignore[reportArgumentType]
    await coder.run(thread)  # pyright: ignore[reportArgumentType]
    await coder.run("one", "two")  # pyright: ignore[reportArgumentType]
    await coder.run(["one"], "two")  # pyright: ignore[reportArgumentType]
    await coder.run("hello", options={"max_steps": 3})  # pyright: ignore[reportArgumentType]
    await coder.run("hello", max_steps=3)  # pyright: ignore[reportCallIssue]
    await coder.run(7)  # pyright: ignore[reportArgumentType]


def limits_are_typed(coder: Agent) -> None:
    session(coder, limits=SessionLimits(max_steps=9, max_duration=timedelta(hours=1)))
    session(coder, limits={"max_steps": 9})  # pyright: ignore[reportArgumentType]
    SessionLimits(9)  # pyright: ignore[reportCallIssue]
    tool(effect="none", retry=ToolRetry(max_attempts=4))
    tool(effect="none", retry=4)  # pyright: ignore[reportArgumentType]


def options_are_typed() -> None:
    RunOptions(instructions="Be brief.", tool_choice={"name": "look_up"}, modalities=["text"], history=[])
    RunOptions(max_total_tokens=9, max_duration=timedelta(minutes=1))
    RunOptions(max_steps="3")  # pyright: ignore[reportArgumentType]
    RunOptions(maxSteps=3)  # pyright: ignore[reportCallIssue]
    RunOptions(client_tools=["pick_colour"])  # pyright: ignore[reportArgumentType]


# -- connected -----------------------------------------------------------------------------------------------


async def programs_connect(message: UserMessage, coder: Agent) -> None:
    async with connect(temporal_address="localhost:7233", tenant="acme") as sessions:
        assert_type(sessions, Sessions)
        handle = await sessions.submit("coder", "hello", key="k", options=RunOptions(max_steps=3))
        assert_type(handle, RunHandle)
        assert_type(handle.session, str)
        assert_type(await handle.result(), Turn)
        assert_type(await handle.status(), RunRow)
        await sessions.submit("coder", message, session=handle.session, create=True)
        assert_type(await sessions.run(handle.id), RunHandle)
        await sessions.submit(coder, "hello")  # pyright: ignore[reportArgumentType]
        await sessions.submit("coder", ["hello"])  # pyright: ignore[reportArgumentType]
        await sessions.submit("coder", "hello", "session")  # pyright: ignore[reportCallIssue]
        await sessions.submit("coder", "hello", options={"max_steps": 3})  # pyright: ignore[reportArgumentType]
    async with connect("localhost:7233"):  # pyright: ignore[reportCallIssue]
        pass
    with connect():  # pyright: ignore[reportGeneralTypeIssues]
        pass


async def programs_follow_and_control(sessions: Sessions, handle: RunHandle) -> None:
    async for event in handle.events(after=3):
        assert_type(event, Event)
        assert_type(event.seq, int)
        assert_type(event.data, JSONObject)
        assert_type(event.at, datetime)
    for _ in handle.events():  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        pass
    assert_type(await sessions.pause(handle.session), Controlled)
    assert_type((await sessions.cancel(handle.session, run=handle.id, wait_s=0.5)).state, str)
    assert_type(await sessions.answer("wait", {"outcome": "not_run"}, by="me"), WaitRow)
    await sessions.pause(handle)  # pyright: ignore[reportArgumentType]
    await sessions.pause(handle.session, wait_s="5")  # pyright: ignore[reportArgumentType]
    await sessions.cancel(handle.session, handle.id)  # pyright: ignore[reportCallIssue]
    await sessions.answer("wait", "not_run", by="me")  # pyright: ignore[reportArgumentType]
    await sessions.answer("wait", {"outcome": "not_run"})  # pyright: ignore[reportCallIssue]


# -- ports ---------------------------------------------------------------------------------------------------


class Recording:
    """A host of the user's own, as a test may have one."""

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        raise NotImplementedError

    def stream(
        self,
        agent: Agent,
        history: Sequence[Message],
        message: Message,
        options: RunOptions,
        *,
        sub_agents: bool = False,
    ) -> AgentStreamResult:
        raise NotImplementedError


class Forgetful:
    """No host: it takes no history."""

    async def run(self, agent: Agent, message: Message, options: RunOptions) -> Turn:
        raise NotImplementedError


def both_hosts_fill_the_port(sessions: Sessions, effects: TemporalEffects) -> None:
    host: Host = InProcessHost()
    host = DurableHost(sessions)
    host = Recording()
    assert_type(host, Recording)
    port: Effects = effects
    assert_type(port, TemporalEffects)
    host = Forgetful()  # pyright: ignore[reportAssignmentType]
    port = host  # pyright: ignore[reportAssignmentType]


def a_tool_knows_its_function() -> None:
    assert_type(look_up.name, str)
    whole: FunctionTool[[str], None] = close_ticket
    assert_type(whole("title"), None)
    other: FunctionTool[[int], None] = close_ticket  # pyright: ignore[reportAssignmentType]
    assert_type(other.sequential, bool)
