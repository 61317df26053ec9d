"""Middleware of `llm()`: order, what it may change, and what it is told of an end."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from perdure.upp.content import ImageBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONValue
from perdure.upp.llm import LLMInstance, llm
from perdure.upp.llm_middleware import LLMMiddleware, LLMMiddlewareContext
from perdure.upp.media_source import Base64Source
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.provider import LLMCapabilities
from perdure.upp.stream import StreamEvent, StreamEventType, text_delta
from perdure.upp.tools import Tool
from perdure.upp.turn import Turn
from tests.unit.upp.models import FakeModel, calls, says, tool_named

WAYS = pytest.mark.parametrize("way", ["generate", "stream"])


async def infer(instance: LLMInstance, way: str) -> Turn:
    return await instance.generate("hi") if way == "generate" else await instance.stream("hi")


class Recorder(LLMMiddleware):
    """Writes every hook but those of events into a log."""

    def __init__(self, name: str, log: list[str], contexts: list[LLMMiddlewareContext] | None = None) -> None:
        self.name = name
        self.log = log
        self.contexts = [] if contexts is None else contexts

    def _note(self, hook: str, context: LLMMiddlewareContext) -> None:
        self.log.append(f"{self.name} {hook}")
        self.contexts.append(context)

    def on_start(self, context: LLMMiddlewareContext) -> None:
        self._note("start", context)

    async def on_request(self, context: LLMMiddlewareContext) -> None:
        await asyncio.sleep(0)
        self._note("request", context)

    def on_response(self, context: LLMMiddlewareContext) -> None:
        self._note("response", context)

    async def on_turn(self, turn: Turn, context: LLMMiddlewareContext) -> None:
        await asyncio.sleep(0)
        self._note(f"turn of {turn.cycles}", context)

    def on_end(self, context: LLMMiddlewareContext) -> None:
        self._note("end", context)

    async def on_error(self, error: Exception, context: LLMMiddlewareContext) -> None:
        self._note(f"error {error}", context)

    def on_abort(self, error: Exception, context: LLMMiddlewareContext) -> None:
        self._note("abort", context)

    def on_stream_end(self, context: LLMMiddlewareContext) -> None:
        self._note("stream end", context)

    def on_tool_call(self, tool: Tool, params: JSONValue, context: LLMMiddlewareContext) -> None:
        self._note(f"calls {tool.name} with {params}", context)

    async def on_tool_result(self, tool: Tool, result: JSONValue, context: LLMMiddlewareContext) -> None:
        self._note(f"{tool.name} gave {result}", context)


@WAYS
async def test_hooks_run_in_order_and_back(way: str) -> None:
    """Once per inference, whatever the number of model calls; an unknown tool is no tool."""
    log: list[str] = []
    model = FakeModel(calls("t"), calls("unknown"), says("ok"))
    middleware = [Recorder("a", log), Recorder("b", log)]
    await infer(llm(model=model.reference(), tools=[tool_named("t")], middleware=middleware), way)
    stream_end = ["a stream end", "b stream end"] if way == "stream" else []
    assert log == [
        *("a start", "b start", "a request", "b request"),
        *("a calls t with {}", "b calls t with {}", "a t gave done", "b t gave done"),
        *stream_end,
        *("b response", "a response", "b turn of 3", "a turn of 3", "b end", "a end"),
    ]


@WAYS
async def test_all_hooks_of_an_inference_see_one_context(way: str) -> None:
    """The next inference has another."""
    contexts: list[LLMMiddlewareContext] = []
    instance = llm(
        model=FakeModel(says("ok"), says("ok")).reference(),
        middleware=[Recorder("a", [], contexts), Recorder("b", [], contexts)],
    )
    await infer(instance, way)
    assert all(context is contexts[0] for context in contexts)
    context = contexts[0]
    assert (context.modality, context.model_id, context.provider) == ("llm", "fake-1", "fake")
    assert context.streaming is (way == "stream")
    assert context.end_time is not None
    assert 1_600_000_000_000 < context.start_time <= context.end_time
    await infer(instance, way)
    assert contexts[-1] is not context


class Change(LLMMiddleware):
    """Puts a message before the others and its own answer in place of the model's."""

    async def on_request(self, context: LLMMiddlewareContext) -> None:
        context.state["change:count"] = len(context.request.messages)
        messages = [UserMessage("earlier"), *context.request.messages]
        context.request = dataclasses.replace(context.request, messages=messages, system="Be kind.")

    def on_response(self, context: LLMMiddlewareContext) -> None:
        assert context.response is not None
        message = AssistantMessage(f"{context.response.message.text}!")
        context.response = dataclasses.replace(context.response, message=message)


@WAYS
async def test_a_changed_request_holds_for_every_model_call(way: str) -> None:
    """What was added is history: the turn does not have it."""
    model = FakeModel(calls("t"), says("ok"))
    turn = await infer(llm(model=model.reference(), tools=[tool_named("t")], middleware=[Change()]), way)
    assert [request.system for request in model.requests] == ["Be kind.", "Be kind."]
    assert [[message.text for message in request.messages][:2] for request in model.requests] == [["earlier", "hi"]] * 2
    assert turn.messages[0].text == "hi"


@WAYS
async def test_a_changed_response_is_the_turns(way: str) -> None:
    """With the usage of all model calls."""
    model = FakeModel(calls("t"), says("ok"))
    turn = await infer(llm(model=model.reference(), tools=[tool_named("t")], middleware=[Change()]), way)
    assert turn.response.text == "ok!"
    assert turn.usage.total_tokens == 4
    assert len(turn.messages) == 4


class AddImage(LLMMiddleware):
    def on_request(self, context: LLMMiddlewareContext) -> None:
        image = ImageBlock(Base64Source("aa=="), "image/png")
        context.request = dataclasses.replace(context.request, messages=[UserMessage([image])])


async def test_a_changed_request_is_checked_again() -> None:
    """Middleware cannot send what the provider does not take."""
    model = FakeModel(capabilities=LLMCapabilities())
    with pytest.raises(UPPError, match="takes no image input"):
        await llm(model=model.reference(), middleware=[AddImage()]).generate("hi")
    assert model.requests == []


@WAYS
async def test_a_failure_is_told_to_everybody(way: str) -> None:
    """In order, and raised as it was; nothing ends."""
    log: list[str] = []
    error = UPPError("gone", ErrorCode.PROVIDER_ERROR, "fake")
    instance = llm(model=FakeModel(error).reference(), middleware=[Recorder("a", log), Recorder("b", log)])
    with pytest.raises(UPPError) as caught:
        await infer(instance, way)
    assert caught.value is error
    assert log[-2:] == [f"a error {error}", f"b error {error}"]
    assert "b end" not in log


class Faulty(LLMMiddleware):
    name = "faulty"

    def __init__(self, *hooks: str) -> None:
        for hook in hooks:
            setattr(self, hook, self._fail)

    def _fail(self, *_: object) -> None:
        raise ValueError("hook is broken")


@WAYS
@pytest.mark.parametrize(
    "hook", ["on_start", "on_request", "on_response", "on_turn", "on_end", "on_tool_call", "on_tool_result"]
)
async def test_a_hook_that_fails_makes_the_inference_fail(way: str, hook: str) -> None:
    """The others are told as of any failure."""
    log: list[str] = []
    model = FakeModel(calls("t"), says("ok"))
    middleware = [Recorder("a", log), Faulty(hook)]
    with pytest.raises(ValueError, match="hook is broken"):
        await infer(llm(model=model.reference(), tools=[tool_named("t")], middleware=middleware), way)
    assert log[-1] == "a error hook is broken"


@pytest.mark.parametrize("hook", ["on_stream_event", "on_stream_end"])
async def test_a_hook_of_streams_that_fails_makes_the_stream_fail(hook: str) -> None:
    """Whoever reads is told."""
    stream = llm(model=FakeModel(says("ok")).reference(), middleware=[Faulty(hook)]).stream("hi")
    with pytest.raises(ValueError, match="hook is broken"):
        [event async for event in stream]


async def test_an_error_hook_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It hides neither the error nor keeps the others from being told."""
    log: list[str] = []
    instance = llm(model=FakeModel(KeyError("gone")).reference(), middleware=[Faulty("on_error"), Recorder("b", log)])
    with caplog.at_level(logging.ERROR), pytest.raises(KeyError, match="gone"):
        await instance.generate("hi")
    assert log[-1] == "b error 'gone'"
    assert "llm.middleware_hook_failed middleware=faulty hook=on_error" in caplog.text


async def test_an_abort_is_told_as_an_abort() -> None:
    """It is no error."""
    log: list[str] = []
    model = FakeModel(says("hello"))
    async for _ in llm(model=model.reference(), middleware=[Recorder("a", log)]).stream("hi"):
        break
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    assert log == ["a start", "a request", "a abort"]


async def test_a_cancelled_generate_is_told_as_an_abort() -> None:
    """The error hooks are not called."""
    log: list[str] = []
    begun = asyncio.Event()

    async def wait(_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    model = FakeModel(calls("w"))
    instance = llm(model=model.reference(), tools=[tool_named("w", wait)], middleware=[Recorder("a", log)])
    task = asyncio.create_task(instance.generate("hi"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log[-1] == "a abort"


async def test_a_provider_that_was_cancelled_is_told_as_an_abort() -> None:
    """By its error code."""
    log: list[str] = []
    model = FakeModel(UPPError("stopped", ErrorCode.CANCELLED, "fake"))
    with pytest.raises(UPPError, match="stopped"):
        await llm(model=model.reference(), middleware=[Recorder("a", log)]).generate("hi")
    assert log[-1] == "a abort"


class Texts(LLMMiddleware):
    """Passes text on, in capitals, twice or not at all."""

    def on_stream_event(
        self, event: StreamEvent, context: LLMMiddlewareContext
    ) -> StreamEvent | Sequence[StreamEvent] | None:
        if event.type is not StreamEventType.TEXT_DELTA:
            return None if event.type.startswith("content_block") else event
        text = event.delta.text or ""
        return None if text == "-" else [text_delta(text.upper()), text_delta(text)]


class Seen(LLMMiddleware):
    def __init__(self) -> None:
        self.events: list[StreamEvent] = []

    def on_stream_event(self, event: StreamEvent, context: LLMMiddlewareContext) -> StreamEvent:
        self.events.append(event)
        return event


async def test_events_can_be_changed_dropped_and_multiplied() -> None:
    """One middleware after another, the tools' events too; the turn is not touched."""
    seen = Seen()
    model = FakeModel(calls("t"), says("a-b"))
    stream = llm(model=model.reference(), tools=[tool_named("t")], middleware=[Texts(), seen]).stream("hi")
    events = [event async for event in stream]
    assert [event.delta.text for event in events if event.delta.text] == ["A", "a", "B", "b"]
    assert seen.events == events
    assert {event.type for event in events} >= {StreamEventType.MESSAGE_STOP, StreamEventType.TOOL_EXECUTION_END}
    assert StreamEventType.CONTENT_BLOCK_START not in {event.type for event in events}
    assert (await stream).response.text == "a-b"


async def test_middleware_that_does_nothing_changes_nothing() -> None:
    """Every hook is optional."""
    plain = llm(model=FakeModel(says("ok")).reference()).stream("hi")
    with_middleware = llm(model=FakeModel(says("ok")).reference(), middleware=[LLMMiddleware()]).stream("hi")
    assert [event async for event in plain] == [event async for event in with_middleware]
