# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Typed calls of `llm()`. Nothing runs this file; `make check` reads it.

A right use must be free of errors. A wrong one is marked with the error it is: if it stops being one, the mark is
unnecessary, and that is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, assert_type

from perdure.upp import (
    AssistantMessage,
    BoundLLMModel,
    ImageBlock,
    JSONObject,
    JSONValue,
    LLMCapabilities,
    Message,
    ReasoningBlock,
    StreamEvent,
    TextBlock,
    Thread,
    Tool,
    Turn,
    UserMessage,
    tool,
)
from perdure.upp.llm import LLMInstance, llm
from perdure.upp.llm_middleware import LLMMiddleware, LLMMiddlewareContext
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.scripted import scripted
from perdure.upp.stream_result import StreamResult
from perdure.upp.tool_use import AfterCallResult, BeforeCallResult, ToolUseStrategy

MODEL = scripted(["hello"])


@tool
def look_up(word: str) -> str:
    return word


# -- defining ------------------------------------------------------------------------------------------------


def instances_are_defined() -> None:
    instance = llm(
        model=MODEL,
        config=ProviderConfig(api_key="key"),
        params={"temperature": 0.2},
        system="Be brief.",
        tools=[look_up],
        tool_strategy=ToolUseStrategy(max_iterations=3),
        structure={"type": "object"},
        tool_choice={"name": "look_up"},
        response_format={"type": "text"},
        modalities=["text"],
        middleware=[Counting()],
    )
    assert_type(instance, LLMInstance)
    assert_type(instance.model, BoundLLMModel)
    assert_type(instance.capabilities, LLMCapabilities)
    assert_type(instance.system, str | list[JSONValue] | None)
    assert_type(instance.params, JSONObject | None)
    llm(model=MODEL, system=[{"type": "text", "text": "Be brief."}])
    llm()  # pyright: ignore[reportCallIssue]
    llm(MODEL)  # pyright: ignore[reportCallIssue]
    llm(model="gpt")  # pyright: ignore[reportArgumentType]
    llm(model=MODEL, tools=look_up)  # pyright: ignore[reportArgumentType]
    llm(model=MODEL, tools=[print])  # pyright: ignore[reportArgumentType]
    llm(model=MODEL, toolStrategy=ToolUseStrategy())  # pyright: ignore[reportCallIssue]
    llm(model=MODEL, config={"api_key": "key"})  # pyright: ignore[reportArgumentType]
    llm(model=MODEL, middleware=[Unfinished()])  # pyright: ignore[reportArgumentType]
    instance.system = "Be long."  # pyright: ignore[reportAttributeAccessIssue]


# -- inferring -----------------------------------------------------------------------------------------------


async def inputs_are_texts_messages_and_blocks(
    instance: LLMInstance, image: ImageBlock, thread: Thread, history: Sequence[Message]
) -> None:
    assert_type(await instance.generate("hello"), Turn)
    await instance.generate("hello", image, UserMessage("see"), TextBlock("look"))
    await instance.generate(thread)
    await instance.generate(thread, "and then?", image)
    await instance.generate(history, "and then?")
    await instance.generate([], "hello")
    await instance.generate([UserMessage("one"), AssistantMessage("two")], "three")
    await instance.generate()  # pyright: ignore[reportCallIssue]
    await instance.generate(7)  # pyright: ignore[reportArgumentType, reportCallIssue]
    await instance.generate(None)  # pyright: ignore[reportArgumentType, reportCallIssue]
    await instance.generate(["one", "two"])  # pyright: ignore[reportArgumentType, reportCallIssue]
    await instance.generate("one", history)  # pyright: ignore[reportArgumentType, reportCallIssue]
    await instance.generate(ReasoningBlock("hm"))  # pyright: ignore[reportArgumentType, reportCallIssue]
    await instance.generate(input="hello")  # pyright: ignore[reportCallIssue]
    await instance.stream("hello", 7)  # pyright: ignore[reportArgumentType, reportCallIssue]


async def streams_are_iterated_and_awaited(instance: LLMInstance, thread: Thread) -> None:
    stream = instance.stream(thread, "hello")
    assert_type(stream, StreamResult)
    async for event in stream:
        assert_type(event, StreamEvent)
    assert_type(await stream.turn, Turn)
    assert_type(await stream, Turn)
    assert_type(await asyncio.wait_for(stream.turn, 5), Turn)
    stream.abort()
    for _ in stream:  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        pass
    stream.turn.response  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
    await stream.abort()  # pyright: ignore[reportGeneralTypeIssues]


# -- hooks ---------------------------------------------------------------------------------------------------


def note(tool: Tool, params: JSONObject) -> None: ...


async def note_later(tool: Tool, params: JSONObject) -> None: ...


async def decide_later(tool: Tool, params: JSONObject) -> bool | BeforeCallResult:
    return BeforeCallResult(True, {**params, "user": "me"})


async def replace_later(tool: Tool, params: JSONObject, result: Any) -> AfterCallResult | None:
    return AfterCallResult(str(result))


def note_error(tool: Tool, params: JSONObject, error: Exception) -> None: ...


async def note_limit(iterations: int) -> None: ...


def hooks_are_typed() -> None:
    ToolUseStrategy(on_tool_call=note, on_before_call=lambda tool, params: "user" in params)
    ToolUseStrategy(on_tool_call=note_later, on_before_call=decide_later, on_after_call=replace_later)
    ToolUseStrategy(on_error=note_error, on_max_iterations=note_limit)
    ToolUseStrategy(on_after_call=lambda tool, params, result: AfterCallResult(len(result)))
    ToolUseStrategy(3)  # pyright: ignore[reportCallIssue]
    ToolUseStrategy(max_iterations="3")  # pyright: ignore[reportArgumentType]
    ToolUseStrategy(on_before_call=note)  # pyright: ignore[reportArgumentType]
    ToolUseStrategy(on_error=note)  # pyright: ignore[reportArgumentType]
    ToolUseStrategy(on_before_call=lambda tool, params: "yes")  # pyright: ignore[reportArgumentType]


class Counting(LLMMiddleware):
    """Hooks of both kinds."""

    name = "counting"

    def on_start(self, context: LLMMiddlewareContext) -> None:
        context.state["counting:events"] = 0

    async def on_turn(self, turn: Turn, context: LLMMiddlewareContext) -> None: ...

    def on_stream_event(self, event: StreamEvent, context: LLMMiddlewareContext) -> list[StreamEvent]:
        return [event, event]


class Wrong(LLMMiddleware):
    """Hooks that cannot be called as they must be."""

    def on_end(self) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    async def on_stream_event(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, event: StreamEvent, context: LLMMiddlewareContext
    ) -> StreamEvent:
        return event


class Unfinished:
    """No middleware."""

    def on_start(self, context: LLMMiddlewareContext) -> None: ...
