"""The pipeline: which hook is called when, with what, and what comes of it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import StrategyError
from perdure.uap.agent import agent
from perdure.uap.agent_stream import UAPEvent, UAPEventType
from perdure.uap.middleware import (
    Middleware,
    MiddlewareContext,
    enter,
    holds_deltas,
    leave,
    run_pipeline,
    tell,
    wanted,
)
from perdure.uap.middlewares.budget import budget
from perdure.uap.middlewares.guardrails import guardrails
from perdure.uap.middlewares.logging import logging
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, UserMessage
from perdure.upp.providers.scripted import scripted
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage

AGENT = agent(model=scripted(["hi"]), name="a")
OTHER = agent(model=scripted(["hi"]), name="b")
HOOKS = ("before", "after", "on_error")


def turn(text: str = "hi") -> Turn:
    return Turn([UserMessage("go"), AssistantMessage(text)], [], empty_usage(), 1)


def context(*history: Message) -> MiddlewareContext:
    return MiddlewareContext(agent=AGENT, input=UserMessage("go"), history=list(history))


def usage(tokens: int) -> JSONObject:
    return {"usage": {"inputTokens": tokens, "outputTokens": 0}}


@dataclass
class Script:
    """What each hook of each middleware does, and what was done.

    Attributes:
        does: "pass", "raise" or "turn" (a turn of its own), by hook and place.
        run: "raise" or "pass".
        trace: the calls, with what they were given.
    """

    does: list[dict[str, str]]
    run: str
    trace: list[str] = field(default_factory=list[str])

    def hook(self, place: int, hook: str, given: str) -> str:
        """The name of the turn that comes out, empty for none. Raises RuntimeError named so."""
        self.trace.append(f"{place}.{hook}({given})")
        if self.does[place][hook] == "raise":
            raise RuntimeError(f"{place}.{hook}")
        return f"{place}.{hook}" if self.does[place][hook] == "turn" else ""

    def execute(self) -> str:
        self.trace.append("run")
        if self.run == "raise":
            raise RuntimeError("run")
        return "run"

    def onion(self, place: int = 0) -> str:
        """The same, said as middleware that is nested: its own error hook is around its before and all inside it."""
        if place == len(self.does):
            return self.execute()
        try:
            self.hook(place, "before", "")
            inner = self.onion(place + 1)
        except RuntimeError as error:
            recovered = self.hook(place, "on_error", str(error))
            if not recovered:
                raise
            return recovered
        return self.hook(place, "after", inner) or inner


class Scripted(Middleware):
    def __init__(self, script: Script, place: int) -> None:
        self.script, self.place = script, place

    async def before(self, context: MiddlewareContext) -> MiddlewareContext | None:
        return replace(context) if self.script.hook(self.place, "before", "") else None

    def after(self, context: MiddlewareContext, result: Turn) -> Turn:
        made = self.script.hook(self.place, "after", result.response.text)
        return turn(made) if made else result

    async def on_error(self, context: MiddlewareContext, error: Exception) -> Turn | None:
        made = self.script.hook(self.place, "on_error", str(error))
        return turn(made) if made else None


DOES = st.sampled_from(["pass", "pass", "raise", "turn"])


@given(
    does=st.lists(st.fixed_dictionaries(dict.fromkeys(HOOKS, DOES)), max_size=4),
    run=st.sampled_from(["pass", "raise"]),
)
def test_the_pipeline_is_the_onion(does: list[dict[str, str]], run: str) -> None:
    """Whatever the hooks do: same calls with the same arguments in the same order, same outcome."""

    def outcome_of_onion(script: Script) -> str:
        try:
            return script.onion()
        except RuntimeError as error:
            return f"error {error}"

    async def outcome_of_pipeline(script: Script) -> str:
        async def execute(_: MiddlewareContext) -> Turn:
            return turn(script.execute())

        middleware = [Scripted(script, place) for place in range(len(does))]
        try:
            return (await run_pipeline(middleware, context(), execute)).response.text
        except RuntimeError as error:
            return f"error {error}"

    expected, script = Script(does, run), Script(does, run)
    assert (asyncio.run(outcome_of_pipeline(script)), script.trace) == (outcome_of_onion(expected), expected.trace)


async def test_without_middleware_the_turn_is_the_runs() -> None:
    made = turn()

    async def execute(_: MiddlewareContext) -> Turn:
        return made

    assert await run_pipeline([], context(), execute) is made


async def test_without_hooks_everything_goes_through() -> None:
    made, given = turn(), context()
    assert (await enter([Middleware()], given)).context is given
    assert await leave([Middleware()], given, made) is made
    with pytest.raises(KeyError):
        await leave([Middleware()], given, KeyError("x"))


async def test_a_cancelled_run_is_not_an_error() -> None:
    """It ends at once; no hook is asked whether it may."""
    called: list[str] = []

    class Watch(Middleware):
        async def on_error(self, context: MiddlewareContext, error: Exception) -> None:
            called.append("on_error")

    async def execute(_: MiddlewareContext) -> Turn:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run_pipeline([Watch()], context(), execute)
    assert called == []


async def test_a_context_has_a_history_of_its_own() -> None:
    history: list[Message] = [UserMessage("before")]
    made = MiddlewareContext(agent=AGENT, input=UserMessage("go"), history=history)
    made.history.clear()
    assert len(history) == 1


async def test_a_sync_hook_may_block_and_an_async_one_runs_on_the_loop() -> None:
    threads: list[threading.Thread] = []

    class Sync(Middleware):
        def before(self, context: MiddlewareContext) -> None:
            threads.append(threading.current_thread())

    class Async(Middleware):
        async def before(self, context: MiddlewareContext) -> None:
            threads.append(threading.current_thread())

    await enter([Sync(), Async()], context())
    assert threads[0] is not threading.current_thread()
    assert threads[1] is threading.current_thread()


class Returns(Middleware):
    name = "odd"

    def __init__(self, value: object) -> None:
        self.value = value

    def before(self, context: MiddlewareContext) -> MiddlewareContext | None:
        return cast(MiddlewareContext, self.value)

    def after(self, context: MiddlewareContext, result: Turn) -> Turn:
        return cast(Turn, self.value)

    def on_error(self, context: MiddlewareContext, error: Exception) -> Turn | None:
        return cast(Turn, self.value)


async def test_before_must_return_a_context() -> None:
    entered = await enter([Returns({})], context())
    assert isinstance(entered.error, StrategyError)
    assert str(entered.error) == "before of middleware 'odd' returned a dict; it must return the context or None"


@pytest.mark.parametrize("value", [None, "text"])
async def test_after_must_return_a_turn(value: object) -> None:
    with pytest.raises(StrategyError, match=r"after of middleware 'odd' returned a .*; it must return a Turn"):
        await leave([Returns(value)], context(), turn())


async def test_on_error_must_return_a_turn_or_none() -> None:
    with pytest.raises(StrategyError, match="on_error of middleware 'odd' returned a str"):
        await leave([Returns("text")], context(), KeyError("x"))


class Listener(Middleware):
    def __init__(self, heard: list[str], name: str, fails: bool = False) -> None:
        self.heard, self.name, self.fails = heard, name, fails

    def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
        self.heard.append(f"{self.name} {event.type} {event.step} {context.spent.tokens}")
        if self.fails:
            raise KeyError(event.type)


class AsyncListener(Listener):
    async def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.heard.append(f"{self.name} {event.type}")


async def test_events_go_to_all_in_array_order() -> None:
    heard: list[str] = []
    await tell([AsyncListener(heard, "a"), Listener(heard, "b")], context(), UAPEvent(UAPEventType.ACTION, 1, AGENT.id))
    assert heard == ["a action", "b action 1 0"]


async def test_what_a_listener_raises_is_raised() -> None:
    with pytest.raises(KeyError):
        await tell([Listener([], "a", fails=True)], context(), UAPEvent(UAPEventType.ACTION, 1, AGENT.id))


async def test_a_steps_end_is_counted_before_it_is_told() -> None:
    heard: list[str] = []
    await tell([Listener(heard, "a")], context(), UAPEvent(UAPEventType.STEP_END, 1, AGENT.id, usage(7)))
    assert heard == ["a step_end 1 7"]


async def test_a_sub_agents_tokens_count_and_its_steps_do_not() -> None:
    given = context()
    for owner in (OTHER.id, AGENT.id, OTHER.id):
        await tell([], given, UAPEvent(UAPEventType.STEP_END, 1, owner, usage(7)))
    assert (given.spent.tokens, given.spent.steps) == (21, 1)


def test_deltas_are_held_if_one_middleware_says_so() -> None:
    assert not holds_deltas([])
    assert not holds_deltas([Middleware(), guardrails(input=[str])])
    assert holds_deltas([Middleware(), guardrails(output=[str])])


def test_middleware_says_which_events_it_wants() -> None:
    """One that hears of events and names none wants all; the budget wants the beginning of steps only."""
    assert wanted(Middleware()) == frozenset()
    assert wanted(budget(max_steps=1)) == {UAPEventType.STEP_START}
    assert wanted(logging(level="error")) == frozenset()
    assert wanted(logging(level="info")) == {UAPEventType.ACTION}
    assert wanted(logging(level="debug")) == {UAPEventType.STEP_START, UAPEventType.ACTION, UAPEventType.STEP_END}
