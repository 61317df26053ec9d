"""`@tool`."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from perdure.errors import InvalidInput
from perdure.upp.function_tool import FunctionTool, tool
from perdure.upp.tool_call import ToolCall
from perdure.upp.tool_loop import execute_tool
from perdure.upp.tools import Tool, ToolContext, ToolEffect

CONTEXT = ToolContext("call_1", "key_1", 1)


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@tool(effect="once", timeout=30, sequential=True, metadata={"openai": {"strict": True}})
async def open_ticket(title: str, context: ToolContext) -> str:
    """Open a ticket."""
    await asyncio.sleep(0)
    return f"{title} for {context.idempotency_key}, attempt {context.attempt}"


def test_a_function_becomes_a_tool() -> None:
    """Name, description and schema come from the function."""
    assert isinstance(add, Tool)
    assert (add.name, add.description) == ("add", "Add two numbers.")
    assert add.parameters["required"] == ["a"]


def test_a_tool_is_called_like_its_function() -> None:
    """Tests and other code use the function as ever."""
    assert add(1) == 3
    assert add(a=1, b=1) == 2


async def test_an_async_tool_is_called_like_its_function() -> None:
    """Calling gives the coroutine."""
    assert await open_ticket("a", CONTEXT) == "a for key_1, attempt 1"


def test_options_are_kept() -> None:
    """Effect, timeout in seconds, barrier and metadata."""
    assert open_ticket.effect is ToolEffect.ONCE
    assert open_ticket.timeout == timedelta(seconds=30)
    assert open_ticket.sequential
    assert open_ticket.metadata == {"openai": {"strict": True}}


def test_name_and_description_can_be_given() -> None:
    """The model may see other words than the code."""

    @tool(name="other", description="Else.", timeout=timedelta(minutes=1))
    def function() -> None: ...

    assert (function.name, function.description) == ("other", "Else.")
    assert function.timeout == timedelta(minutes=1)


def test_a_type_of_the_enclosing_function_is_found() -> None:
    """Annotations are strings here, and the type is local."""

    class Place(BaseModel):
        city: str

    @tool
    def travel(place: Place) -> str:
        return place.city

    @tool(effect="none")
    def stay(place: Place) -> str:
        return place.city

    assert travel.parameters["required"] == stay.parameters["required"] == ["place"]


async def test_the_models_arguments_are_coerced() -> None:
    """A number in a string is a number."""
    execution = await execute_tool(add, ToolCall("c", "add", {"a": "40"}), CONTEXT)
    assert (execution.result, execution.is_error) == (42, False)


async def test_a_misfit_is_an_error_result() -> None:
    """The text lists what is wrong; the function is not called."""
    execution = await execute_tool(add, ToolCall("c", "add", {"b": "x"}), CONTEXT)
    assert execution.is_error
    assert execution.result == (
        "a: Field required; b: Input should be a valid integer, unable to parse string as an integer"
    )


async def test_the_context_is_injected() -> None:
    """The tool learns its key and attempt."""
    execution = await execute_tool(open_ticket, ToolCall("c", "open_ticket", {"title": "x"}), CONTEXT)
    assert execution.result == "x for key_1, attempt 1"


async def test_a_context_cannot_be_given_by_the_model() -> None:
    """The injected parameter is no argument."""
    call = ToolCall("c", "open_ticket", {"title": "x", "context": {"call_id": "forged"}})
    execution = await execute_tool(open_ticket, call, CONTEXT)
    assert execution.result == "context: Extra inputs are not permitted"


async def test_run_works_without_a_context() -> None:
    """UPP's own form, run(params), serves tools that need no context."""
    assert add.run is not None
    assert open_ticket.run is not None
    assert add.run({"a": 1}) == 3
    with pytest.raises(InvalidInput, match="context: this tool needs a ToolContext"):
        await open_ticket.run({"title": "x"})  # pyright: ignore[reportGeneralTypeIssues]


def numbers() -> Iterator[int]:
    yield 1


async def streamed() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "message"),
    [(numbers, "generator"), (streamed, "generator"), (int, "takes a function"), (3, "takes a function")],
)
def test_what_is_no_plain_function_is_refused(function: Any, message: str) -> None:
    """The mistake shows at definition."""
    with pytest.raises(InvalidInput, match=message):
        tool(function)


def test_a_function_without_a_name_needs_one() -> None:
    """A partial has no name of its own."""

    def greet(greeting: str, name: str) -> str:
        return f"{greeting} {name}"

    partial = functools.partial(greet, "hi")
    with pytest.raises(InvalidInput, match=r"use tool\(name="):
        tool(partial)
    with pytest.raises(InvalidInput, match="tool name '<lambda>'"):
        tool(lambda: 1)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "soon"])
def test_a_timeout_that_cannot_be_used_is_refused(timeout: Any) -> None:
    """Only a time above zero is a limit."""
    with pytest.raises(InvalidInput, match="timeout"):

        @tool(timeout=timeout)
        def function() -> None: ...  # pyright: ignore[reportUnusedFunction]


def test_calls_are_type_checked() -> None:
    """A tool keeps its function's signature: a wrong call is a type error, and a TypeError."""
    typed: FunctionTool[..., int] = add
    with pytest.raises(TypeError):
        add("x", c=1)  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert typed is add
