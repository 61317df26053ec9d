"""Facts that UAP's own tests assert of its middleware, and readings of what its specification leaves open; in process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

import perdure.middleware
from perdure.middleware import logging, memory
from perdure.uap.agent import Agent, agent
from perdure.uap.agent_stream import AgentStreamEvent, UAPEvent
from perdure.uap.hooks import AgentStrategy
from perdure.uap.host import connected
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.upp.function_tool import tool
from perdure.upp.messages import AssistantMessage, Message, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.upp.thread import Thread
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, empty_usage
from tests.unit.middleware.pipeline_host import PipelineHost

USAGE = TokenUsage(100, 50, 150)


def turn(text: str) -> Turn:
    return Turn([AssistantMessage(text)], [], empty_usage(), 1)


@tool
def look(word: str) -> str:
    """Look a word up."""
    return f"seen {word}"


def answering(*script: ScriptedAnswer, strategy: AgentStrategy | None = None) -> Agent:
    return agent(model=scripted([*script]), name="coder", tools=[look], strategy=strategy)


def failing(strategy: AgentStrategy | None = None) -> Agent:
    def fail(_: LLMRequest) -> Answer:
        raise ValueError("broken")

    return agent(model=scripted(fail), name="coder", strategy=strategy)


async def run(made: Agent, *middleware: Middleware, said: str = "go", history: Sequence[Message] = ()) -> Turn:
    with connected(PipelineHost(*middleware)):
        return await made.run(list(history), said)


class Trace(Middleware):
    """Writes down its calls; `raises` and `recovers` are names of hooks."""

    def __init__(self, name: str, trace: list[str], raises: str = "", recovers: bool = False) -> None:
        self.name, self.trace, self.raises, self.recovers = name, trace, raises, recovers

    def _note(self, hook: str) -> None:
        self.trace.append(f"{self.name}.{hook}")
        if self.raises == hook:
            raise RuntimeError(f"{self.name}.{hook}")

    async def before(self, context: MiddlewareContext) -> None:
        self._note("before")

    async def after(self, context: MiddlewareContext, result: Turn) -> Turn:
        self._note("after")
        return result

    async def on_error(self, context: MiddlewareContext, error: Exception) -> Turn | None:
        self._note("on_error")
        return turn(f"{self.name} recovered") if self.recovers else None


def traced(script: str, trace: list[str]) -> list[Middleware]:
    """One per word: a name, with `!hook` if that hook raises, `+` if its error hook recovers."""
    made: list[Middleware] = []
    for word in script.split():
        name, _, raises = word.rstrip("+").partition("!")
        made.append(Trace(name, trace, raises, word.endswith("+")))
    return made


async def test_fact_45_before_in_array_order_then_the_run_then_after_in_reverse() -> None:
    trace: list[str] = []
    strategy = AgentStrategy(on_complete=lambda _: trace.append("run"))
    await run(answering("hi", strategy=strategy), *traced("a b c", trace))
    assert trace == ["a.before", "b.before", "c.before", "run", "c.after", "b.after", "a.after"]


async def test_fact_46_after_may_replace_the_turn() -> None:
    other = turn("other")

    class Replace(Middleware):
        async def after(self, context: MiddlewareContext, result: Turn) -> Turn:
            return other

    assert await run(answering("hi"), Middleware(), Replace()) is other


async def test_fact_47_none_keeps_the_context_and_another_one_goes_downstream() -> None:
    seen: list[MiddlewareContext] = []

    class Keep(Middleware):
        async def before(self, context: MiddlewareContext) -> None:
            seen.append(context)

    class Replace(Middleware):
        async def before(self, context: MiddlewareContext) -> MiddlewareContext:
            return replace(context, input=UserMessage("other"), history=[])

    made = await run(answering("hi"), Keep(), Keep(), Replace(), Keep(), history=[UserMessage("old")])
    assert seen[0] is seen[1]
    assert [len(context.history) for context in seen] == [1, 1, 0]
    assert [message.text for message in made.messages] == ["other", "hi"]


async def test_fact_47_on_error_in_reverse_and_the_first_turn_recovers() -> None:
    trace: list[str] = []
    made = await run(failing(), *traced("a+ b+ c", trace))
    assert made.response.text == "b recovered"
    assert trace == ["a.before", "b.before", "c.before", "c.on_error", "b.on_error", "a.after"]


def lines_of(**options: object) -> tuple[Middleware, list[str]]:
    lines: list[str] = []
    return logging(logger=lines.append, **options), lines  # pyright: ignore[reportArgumentType]


def test_fact_48_logging_has_its_name_and_takes_level_and_logger() -> None:
    item, lines = lines_of(level="warn")
    assert (item.name, lines) == ("logging", [])


async def test_fact_49_the_first_line_has_the_agents_id_and_both_wordings() -> None:
    item, lines = lines_of()
    made = answering("hi")
    await run(made, item)
    assert "Execution started" in lines[0]
    assert f"[INFO] Agent {made.id} starting execution" in lines[0]


async def test_fact_50_timing_is_kept_in_the_metadata_and_the_context_stays() -> None:
    context = MiddlewareContext(agent=answering("hi"), input=UserMessage("go"))
    returned = logging(logger=str).before(context)
    assert asyncio.iscoroutine(returned)
    assert await returned is context
    assert isinstance(context.metadata["_logging_startTime"], int)
    assert context.metadata["_logging_startTime"] > 1.6e12


async def test_fact_50_without_timing_there_is_none() -> None:
    item, lines = lines_of(include_timing=False)
    host = PipelineHost(item)
    with connected(host):
        await answering("hi").run("go")
    assert host.contexts[0].metadata == {}
    assert "ms" not in lines[-1]


async def test_fact_51_the_last_line_has_time_and_tokens_and_the_turn_stays() -> None:
    lines: list[str] = []
    seen: list[Turn] = []
    made = answering(Answer("hi", usage=USAGE), strategy=AgentStrategy(on_complete=seen.append))
    assert await run(made, logging(logger=lines.append)) is seen[0]
    assert "Execution completed" in lines[-1]
    assert re.search(r"\d+ms", lines[-1])
    assert "tokens=150" in lines[-1]
    assert re.search(rf"\[INFO\] Agent {made.id} completed in \d+\.\ds \(150 tokens\)", lines[-1])


async def test_fact_52_messages_are_there_at_debug_with_include_messages() -> None:
    item, lines = lines_of(level="debug", include_messages=True)
    await run(answering("hi"), item, said="Hello")
    assert any('Input: "Hello"' in line for line in lines)
    assert any('Response: "hi"' in line for line in lines)


async def test_fact_53_an_error_is_logged_at_error_level_and_goes_on() -> None:
    item, lines = lines_of(level="error")
    with pytest.raises(ValueError, match="broken"):
        await run(failing(), item)
    assert len(lines) == 1
    assert lines[0].startswith("[UAP:ERROR]")
    assert re.search(r"Execution failed after \d+ms: broken", lines[0])


async def test_fact_54_level_error_leaves_info_out() -> None:
    item, lines = lines_of(level="error")
    await run(answering("hi"), item)
    assert lines == []


@pytest.mark.parametrize(
    ("level", "kinds"),
    [("debug", {"DEBUG", "INFO", "ERROR"}), ("info", {"INFO", "ERROR"}), ("warn", {"ERROR"}), ("error", {"ERROR"})],
)
async def test_fact_54_levels_have_an_order(level: str, kinds: set[str]) -> None:
    item, lines = lines_of(level=level)
    with pytest.raises(ValueError, match="broken"):
        await run(failing(), item)
    assert {line.removeprefix("[UAP:").partition("]")[0] for line in lines} == kinds


async def test_specification_10_3_the_sample_at_debug_without_messages() -> None:
    """Its three lines are there, in its order, as it has them but for the id and the time."""
    item, lines = lines_of(level="debug", include_timing=True)
    made = answering(Answer("hi", usage=USAGE))
    await run(made, item, said="Hello")
    sample = [
        rf"\[INFO\] Agent {made.id} starting execution",
        r'\[DEBUG\] Input: "Hello"',
        rf"\[INFO\] Agent {made.id} completed in \d+\.\ds \(150 tokens\)",
    ]
    assert re.search(".*".join(sample), "\n".join(lines), re.DOTALL)


async def test_reading_4_44_the_agents_own_error_hook_comes_first() -> None:
    """A turn of its own is completed, and every after hook gets it."""
    trace: list[str] = []
    strategy = AgentStrategy(
        on_error=lambda error, state: turn("sorry"), on_complete=lambda _: trace.append("on_complete")
    )
    made = await run(failing(strategy), *traced("a b", trace))
    assert made.response.text == "sorry"
    assert trace == ["a.before", "b.before", "on_complete", "b.after", "a.after"]


async def test_reading_4_44_the_agents_error_hook_that_raises_goes_to_the_middleware() -> None:
    trace: list[str] = []

    def worse(*_: object) -> Turn:
        raise RuntimeError("worse")

    with pytest.raises(RuntimeError, match="worse"):
        await run(failing(AgentStrategy(on_error=worse)), *traced("a", trace))
    assert trace == ["a.before", "a.on_error"]


@pytest.mark.parametrize(
    ("middleware", "trace", "outcome"),
    [
        ("a b!before c", "a.before b.before b.on_error a.on_error", "error b.before"),
        ("a b!before+ c", "a.before b.before b.on_error a.after", "b recovered"),
        ("a+ b!before c", "a.before b.before b.on_error a.on_error", "a recovered"),
        ("a b!after c", "a.before b.before c.before c.after b.after a.on_error", "error b.after"),
        ("a+ b!after+ c+", "a.before b.before c.before c.after b.after a.on_error", "a recovered"),
    ],
)
async def test_reading_4_44_only_what_is_outside_of_an_error_hears_of_it(
    middleware: str, trace: str, outcome: str
) -> None:
    """A before that raises has its own error hook called; an after that raises has not."""
    called: list[str] = []
    try:
        made = (await run(answering("hi"), *traced(middleware, called))).response.text
    except RuntimeError as error:
        made = f"error {error}"
    assert (" ".join(called), made) == (trace, outcome)


async def test_reading_4_44_what_an_error_hook_raises_goes_on_in_its_place() -> None:
    trace: list[str] = []
    with pytest.raises(RuntimeError, match=r"b\.on_error"):
        await run(failing(), *traced("a b!on_error", trace))
    assert trace == ["a.before", "b.before", "b.on_error", "a.on_error"]


async def test_reading_4_45_hooks_may_be_sync_or_async_and_run_in_series() -> None:
    trace: list[str] = []

    class Sync(Middleware):
        def before(self, context: MiddlewareContext) -> MiddlewareContext:
            trace.append("sync before")
            return context

        def after(self, context: MiddlewareContext, result: Turn) -> Turn:
            trace.append("sync after")
            return result

        def on_error(self, context: MiddlewareContext, error: Exception) -> Turn:
            trace.append("sync on_error")
            return turn("recovered")

    class Slow(Middleware):
        async def before(self, context: MiddlewareContext) -> None:
            await asyncio.sleep(0)
            trace.append("slow before")

        async def after(self, context: MiddlewareContext, result: Turn) -> Turn:
            await asyncio.sleep(0)
            trace.append("slow after")
            return result

    await run(answering("hi"), Slow(), Sync(), Slow())
    assert trace == ["slow before", "sync before", "slow before", "slow after", "sync after", "slow after"]
    assert (await run(failing(), Sync())).response.text == "recovered"


async def test_reading_4_47_logging_shows_steps_and_tool_calls() -> None:
    item, lines = lines_of(level="debug")
    made = answering(Answer(tool_calls=[call("look", word="w")], usage=USAGE), Answer("found", usage=USAGE))
    await run(made, item)
    steps = [line.partition(f"Agent {made.id} ")[2] for line in lines if " step " in line]
    assert steps == [
        *("step 1 started", 'step 1 calls tool look with {"word":"w"}', "step 1 ended (150 tokens)"),
        *("step 2 started", "step 2 ended (150 tokens)"),
    ]


async def test_reading_4_47_any_middleware_may_hear_of_events() -> None:
    heard: list[str] = []

    class Listener(Middleware):
        async def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
            heard.append(f"{event.type} {event.step}")

    await run(answering(call("look", word="w"), "found"), Listener())
    assert heard == [
        *("step_start 1", "action 1", "observation 1", "step_end 1"),
        *("step_start 2", "step_end 2"),
    ]


@pytest.mark.parametrize("include_messages", [False, True])
async def test_reading_4_47_the_input_is_cut_unless_messages_are_asked_for(include_messages: bool) -> None:
    item, lines = lines_of(level="debug", include_messages=include_messages)
    await run(answering("hi"), item, said="x" * 5000)
    assert any("x" * 5000 in line for line in lines) is include_messages
    assert any("Input: " in line for line in lines)


async def test_reading_4_47_a_stack_trace_is_there_at_debug_only() -> None:
    for level, shown in (("debug", True), ("info", False)):
        item, lines = lines_of(level=level)
        with pytest.raises(ValueError, match="broken"):
            await run(failing(), item)
        assert any("Traceback" in line for line in lines) is shown


@pytest.mark.parametrize("iterates", [True, False])
async def test_reading_4_48_a_stream_begins_with_before_and_its_turn_comes_after_after(iterates: bool) -> None:
    trace: list[str] = []
    with connected(PipelineHost(*traced("a", trace))):
        stream = answering("hi").stream("go")
        await asyncio.sleep(0)
        assert trace == []
        events: list[AgentStreamEvent] = []
        if iterates:
            async for event in stream:
                events.append(event)
                assert trace == ["a.before"]
        await stream.turn
    assert trace == ["a.before", "a.after"]
    assert bool(events) is iterates


async def test_reading_4_49_a_changed_history_is_what_the_model_sees_and_nothing_else() -> None:
    asked: list[int] = []

    def answer(request: LLMRequest) -> Answer:
        asked.append(len(request.messages))
        return Answer("hi")

    thread = Thread([UserMessage("old"), AssistantMessage("older"), UserMessage("x"), AssistantMessage("y")])
    made = await run(agent(model=scripted(answer)), memory(max_messages=2), history=thread.messages)
    thread.append(made)
    assert asked == [3]
    assert [message.text for message in thread] == ["old", "older", "x", "y", "go", "hi"]


def test_no_type_of_upp_is_exported() -> None:
    assert not any(hasattr(perdure.middleware, name) for name in ("Turn", "Message", "UserMessage", "Thread"))
