# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Typed uses of `perdure.types`. Nothing runs this file; `make check` reads it.

A right use must be free of errors. A wrong one is marked with the error it is: if it stops being one, the mark is
unnecessary, and that is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_type

import perdure.types
from perdure import agent, query, session
from perdure.execution import loop, plan, react
from perdure.middleware import logging
from perdure.types import (
    Agent,
    AgentOptions,
    AgentStrategy,
    AgentStreamEvent,
    AgentStreamResult,
    Checkpoint,
    ExecutionContext,
    ExecutionState,
    ExecutionStrategy,
    LoggingOptions,
    LoopOptions,
    Middleware,
    MiddlewareContext,
    PersistenceAdapter,
    PlanOptions,
    PlanStep,
    QueryResult,
    ReactOptions,
    Session,
    StepResult,
    ThreadNode,
    ThreadTree,
    ToToolOptions,
    UAPEvent,
    UAPEventType,
)
from perdure.upp import Message, StreamEvent, Thread, Tool, Turn
from perdure.upp.providers.scripted import scripted

MODEL = scripted(["hello"])

# -- options -------------------------------------------------------------------------------------------------


def options_are_given_by_name(looping: LoopOptions, reacting: ReactOptions, planning: PlanOptions) -> None:
    options: AgentOptions = {"model": MODEL, "system": "Be kind.", "execution": loop(**looping)}
    assert_type(agent(**options), Agent)
    agent(model=MODEL, execution=react(**reacting))
    agent(model=MODEL, execution=plan(**planning))
    logged: LoggingOptions = {"level": "debug", "logger": print}
    assert_type(logging(**logged), Middleware)
    named: ToToolOptions = {"name": "helper"}
    tool: Tool = agent(**options).to_tool(**named)
    agent(model=MODEL, tools=[tool, agent(**options)])


def wrong_options_are_errors() -> None:
    model: AgentOptions = {"model": "gpt"}  # pyright: ignore[reportAssignmentType]
    misspelled: LoopOptions = {"maxIterations": 3}  # pyright: ignore[reportAssignmentType]
    text: ReactOptions = {"max_steps": "3"}  # pyright: ignore[reportAssignmentType]
    loop(**text)  # pyright: ignore[reportCallIssue]
    agent(**model, model=MODEL)  # pyright: ignore[reportCallIssue]
    loop(**misspelled)


# -- strategies ----------------------------------------------------------------------------------------------


class Custom:
    """As in the specification's section 5.5."""

    name = "custom"

    async def execute(self, context: ExecutionContext) -> Turn:
        assert_type(context.history, Sequence[Message])
        assert_type(context.state, ExecutionState)
        assert_type(context.signal.aborted, bool)
        assert_type(context.agent.id, str)
        assert_type([tool.name for tool in context.tools], list[str])
        turn = await context.llm.generate(context.history, context.input)
        assert_type(turn, Turn)
        context.state.messages.extend(turn.messages)
        return turn

    def stream(self, context: ExecutionContext) -> AgentStreamResult:
        raise NotImplementedError


class Unfinished:
    """No strategy: it does not stream."""

    name = "unfinished"

    async def execute(self, context: ExecutionContext) -> Turn:
        raise NotImplementedError


def strategies_are_structural() -> None:
    custom: ExecutionStrategy = Custom()
    agent(model=MODEL, execution=custom)
    custom = Unfinished()  # pyright: ignore[reportAssignmentType]
    agent(model=MODEL, execution=Unfinished())  # pyright: ignore[reportArgumentType]


def hooks_are_typed() -> None:
    def on_step_end(step: int, result: StepResult) -> None:
        assert_type(result.turn, Turn)
        assert_type(result.state.plan, list[PlanStep] | None)

    async def stop(state: ExecutionState) -> bool:
        return state.metadata.get("taskComplete") is True

    AgentStrategy(on_step_end=on_step_end, stop_condition=stop)
    AgentStrategy(on_step_end=stop)  # pyright: ignore[reportArgumentType]
    AgentStrategy(onStepEnd=on_step_end)  # pyright: ignore[reportCallIssue]


class Timing(Middleware):
    name = "timing"

    async def before(self, context: MiddlewareContext) -> MiddlewareContext:
        assert_type(context.agent, Agent)
        context.metadata["startTime"] = 0
        return context

    async def after(self, context: MiddlewareContext, result: Turn) -> Turn:
        return result


class Silent(Middleware):
    async def after(self, context: MiddlewareContext, result: Turn) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]


# -- sessions, queries and streams ---------------------------------------------------------------------------


class Files:
    """An adapter of the user's own."""

    async def save(self, key: str, data: str) -> None: ...
    async def load(self, key: str) -> str | None: ...
    async def delete(self, key: str) -> None: ...


async def sessions_have_trees_and_checkpoints(coder: Agent) -> None:
    adapter: PersistenceAdapter = Files()
    made = session(coder, persistence=adapter, checkpoint_interval="turn")
    assert_type(made, Session)
    assert_type(await made.run("hello"), Turn)
    assert_type(made.thread_tree, ThreadTree)
    assert_type(made.thread_tree.current, ThreadNode)
    assert_type(made.thread_tree.current.thread, Thread)
    assert_type(made.checkpoints, list[Checkpoint])
    assert_type(made.current_checkpoint, Checkpoint | None)
    assert_type(Session.from_json(made.to_json(), coder), Session)
    session(coder, checkpoint_interval="never")  # pyright: ignore[reportArgumentType]
    session(coder, persistence=coder)  # pyright: ignore[reportArgumentType]


async def queries_go_on(coder: Agent) -> None:
    result = await query(coder, "hello")
    assert_type(result, QueryResult)
    assert_type(await result.continue_("and then?"), QueryResult)


async def streams_have_two_sources(coder: Agent) -> None:
    result = coder.stream("hello")
    assert_type(result, AgentStreamResult)
    async for event in result:
        assert_type(event, AgentStreamEvent)
        if event.uap is not None:
            assert_type(event.uap, UAPEvent)
            assert_type(event.uap.type, UAPEventType)
            data: dict[str, Any] = event.uap.data
            data.clear()
        else:
            assert_type(event.upp, StreamEvent | None)
    assert_type(await result.turn, Turn)
    for _ in result:  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        pass


def upp_is_elsewhere() -> None:
    perdure.types.Turn  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
