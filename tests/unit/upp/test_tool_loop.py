"""Carrying out one tool call."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.json_value import JSONObject, JSONValue, dumps
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from perdure.upp.tool_loop import execute_tool, request_approval
from perdure.upp.tools import Tool, ToolContext
from tests.unit.upp import strategies as upp

Run = Callable[[Any], object]

CONTEXT = ToolContext("c", "key", 1)
SHORT = timedelta(milliseconds=10)


class Panic(BaseException):
    """What a Rust extension raises when it panics is no Exception either."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def make(run: Run, **options: Any) -> Tool:
    return Tool("t", "", {"type": "object"}, run, **options)


async def execute(run: Run, arguments: JSONValue = None, **options: Any) -> ToolExecution:
    return await execute_tool(make(run, **options), ToolCall("c", "t", {} if arguments is None else arguments), CONTEXT)


def raising(error: BaseException) -> Run:
    def run(_: JSONObject) -> None:
        raise error

    return run


def raising_async(error: BaseException) -> Run:
    async def run(_: JSONObject) -> None:
        raise error

    return run


async def test_a_sync_tool_gives_its_value() -> None:
    """The record has name, id, arguments, value and time."""
    execution = await execute(lambda params: params["x"] + 1, {"x": 1})
    assert execution == ToolExecution("t", "c", {"x": 1}, 2, False, execution.duration_ms, None)
    assert execution.duration_ms >= 0


async def test_an_async_tool_gives_its_value() -> None:
    """Coroutines run on the event loop."""

    async def run(params: JSONObject) -> JSONValue:
        await asyncio.sleep(0)
        return params

    assert (await execute(run, {"x": 1})).result == {"x": 1}


async def test_a_sync_tool_may_return_an_awaitable() -> None:
    """A lambda around an async function is awaited."""

    async def inner() -> int:
        return 42

    assert (await execute(lambda _: inner())).result == 42


async def test_a_sync_tool_does_not_block_the_event_loop() -> None:
    """It runs on another thread, and a daemon."""

    def run(_: JSONObject) -> list[bool]:
        thread = threading.current_thread()
        return [thread is threading.main_thread(), thread.daemon]

    assert (await execute(run)).result == [False, True]


async def test_a_tool_that_takes_a_context_gets_it() -> None:
    """The context comes after the arguments."""

    def run(params: JSONObject, context: ToolContext) -> list[object]:
        return [params, context.idempotency_key]

    tool = Tool("t", "", {"type": "object"}, run, takes_context=True)
    assert (await execute_tool(tool, ToolCall("c", "t", {"x": 1}), CONTEXT)).result == [{"x": 1}, "key"]


async def test_an_unknown_tool_is_an_error_result() -> None:
    """The text is UPP's."""
    execution = await execute_tool(None, ToolCall("c", "a\x00b", {}), CONTEXT)
    assert execution == ToolExecution("a\x00b", "c", {}, "Tool 'a\x00b' not found", True, 0)


@pytest.mark.parametrize("arguments", [[], "x", '{"a":', 5, True, math.nan, "\ud83c", "x" * 2_000_000, [10**5000]])
async def test_arguments_that_are_no_object_are_an_error_result(arguments: Any) -> None:
    """The tool is not called, the text says what came and stays short."""
    execution = await execute(raising(AssertionError("called")), arguments)
    assert execution.is_error
    assert isinstance(execution.result, str)
    assert execution.result.startswith("The arguments of tool 't' must be a JSON object, got ")
    assert len(execution.result) < 300
    assert execution.arguments is arguments


async def test_no_arguments_at_all_are_an_error_result() -> None:
    """Null is named as JSON names it."""
    execution = await execute_tool(make(dict), ToolCall("c", "t", None), CONTEXT)
    assert execution.result == "The arguments of tool 't' must be a JSON object, got null"


async def test_arguments_with_nan_are_an_error_result() -> None:
    """What could not be stored is not run."""
    execution = await execute(raising(AssertionError("called")), {"x": math.nan})
    assert (
        execution.result
        == "The arguments of tool 't' are not JSON: $.x: float nan has no JSON form; use None or a string"
    )


async def test_a_tool_cannot_change_the_stored_arguments() -> None:
    """It gets a copy: the message that holds the call is shared."""
    arguments: JSONObject = {"x": [1]}

    def run(params: dict[str, Any]) -> None:
        params["x"].append(2)
        params.clear()

    execution = await execute(run, arguments)
    assert not execution.is_error
    assert arguments == {"x": [1]}


@pytest.mark.parametrize("make_run", [raising, raising_async])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such city"), "no such city"),
        (ValueError(), "ValueError"),
        (ValueError(" \n"), "ValueError"),
        (KeyError("x"), "'x'"),
        (Unprintable(), "Unprintable"),
        (ExceptionGroup("several", [ValueError("a")]), "several (1 sub-exception)"),
        (TimeoutError("socket"), "socket"),
        (ValueError("\ud83c\x00"), "\ud83c\x00"),
        (SystemExit(3), "Tool 't' raised SystemExit: 3"),
        (Panic(), "Tool 't' raised Panic: Panic"),
        (Panic("index out of bounds"), "Tool 't' raised Panic: index out of bounds"),
        (BaseExceptionGroup("g", [Panic()]), "Tool 't' raised BaseExceptionGroup: g (1 sub-exception)"),
        (asyncio.CancelledError(), "Tool 't' was cancelled from within"),
    ],
)
async def test_an_exception_is_an_error_result(
    make_run: Callable[[BaseException], Run], error: BaseException, text: str
) -> None:
    """Whatever a tool raises, the model gets its message and the run goes on."""
    execution = await execute(make_run(error), timeout=timedelta(minutes=1))
    assert (execution.result, execution.is_error) == (text, True)


async def test_stop_iteration_is_an_error_result() -> None:
    """The one exception that coroutines cannot carry."""
    assert (await execute(raising(StopIteration()))).is_error


def test_an_interrupt_of_the_user_propagates() -> None:
    """Ctrl-C ends the program, not the tool call."""
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(execute(raising_async(KeyboardInterrupt())))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(datetime(2026, 1, 6, tzinfo=UTC), "2026-01-06T00:00:00Z"), ((1, 2), [1, 2]), (b"a", "YQ==")],
)
async def test_values_of_the_library_become_json(value: object, expected: JSONValue) -> None:
    """What a tool usually returns is turned into JSON."""
    assert (await execute(lambda _: value)).result == expected


def test_a_value_that_is_not_json_is_an_error_result() -> None:
    """The text names the tool, the type and where it is, for an open file too."""
    with Path(sys.executable).open("rb") as file:
        execution = asyncio.run(execute(lambda _: {"log": [file]}))
    assert execution.is_error
    assert execution.result == (
        "Tool 't' returned a value that is not JSON: $.log[0]: a value of type _io.BufferedReader has no JSON form"
    )


@pytest.mark.parametrize("value", [math.nan, {1: 2}, object(), iter([])])
async def test_nothing_is_changed_in_silence(value: object) -> None:
    """NaN, integer keys, objects and iterators are errors."""
    assert (await execute(lambda _: value)).is_error


async def test_a_sync_tool_times_out() -> None:
    """The thread is abandoned; the text says after how long."""
    release = threading.Event()
    execution = await execute(lambda _: release.wait(120), timeout=SHORT)
    release.set()
    assert (execution.result, execution.is_error) == ("Tool 't' timed out after 0.01 s", True)


async def test_an_async_tool_times_out() -> None:
    """The coroutine is cancelled and can clean up."""
    cleaned: list[bool] = []

    async def run(_: JSONObject) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    execution = await execute(run, timeout=SHORT)
    assert (execution.result, execution.is_error) == ("Tool 't' timed out after 0.01 s", True)
    assert cleaned == [True]


@pytest.mark.parametrize("is_async", [False, True])
async def test_cancelling_propagates(is_async: bool) -> None:
    """A cancelled run is cancelled, whatever the tool is doing."""
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    release = threading.Event()

    def block(_: JSONObject) -> None:
        loop.call_soon_threadsafe(begun.set)
        release.wait(120)

    async def wait(_: JSONObject) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(execute(wait if is_async else block))
    await asyncio.wait_for(begun.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


def approve(_: JSONObject) -> bool:
    return True


async def approve_later(_: JSONObject) -> bool:
    return True


def deny(_: JSONObject) -> bool:
    return False


def say_nothing(_: JSONObject) -> None: ...


async def deny_later(_: JSONObject) -> bool:
    return False


@pytest.mark.parametrize("approval", [approve, approve_later])
async def test_an_approved_call_runs(approval: Any) -> None:
    """Sync and async handlers decide; the record says that one did."""
    execution = await execute(lambda _: "done", approval=approval)
    assert (execution.result, execution.approved) == ("done", True)


@pytest.mark.parametrize("approval", [deny, deny_later, say_nothing])
async def test_a_denied_call_does_not_run(approval: Any) -> None:
    """The model is told; a handler that says nothing does not approve."""
    execution = await execute(raising(AssertionError("called")), approval=approval)
    assert execution == ToolExecution("t", "c", {}, "Tool execution denied by approval handler", True, 0, False)


async def test_a_handler_that_fails_decides_nothing() -> None:
    """Its exception propagates, and the tool is not run."""
    with pytest.raises(ValueError, match="handler is broken"):
        await execute(raising(AssertionError("called")), approval=raising(ValueError("handler is broken")))


async def test_the_handler_cannot_change_what_runs() -> None:
    """What is approved is what was asked for."""

    def approval(params: JSONObject) -> bool:
        params["x"] = "changed-value"
        return True

    execution = await execute(lambda params: params, {"x": "reviewed-value"}, approval=approval)
    assert execution.result == {"x": "reviewed-value"}


async def test_without_a_handler_nobody_is_asked() -> None:
    """None is not the same as yes."""
    assert await request_approval(make(dict), {}) is None


@given(st.dictionaries(upp.texts(5), upp.json_values(), max_size=3))
def test_every_execution_can_be_stored(arguments: JSONObject) -> None:
    """Arguments and values with NUL and lone surrogates come through unchanged."""
    execution = asyncio.run(execute(lambda params: params, arguments))
    assert execution.to_result() == ToolResult("c", arguments)
    dumps(execution.to_json())
