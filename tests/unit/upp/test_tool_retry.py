"""A tool that has failed is called again, if it says so and may be."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.upp.function_tool import tool
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.tool_loop import execute_tool
from perdure.upp.tool_retry import ToolRetry
from perdure.upp.tool_use import ToolUseStrategy
from perdure.upp.tools import Tool, ToolContext, client_tool

SOON = ToolRetry(max_attempts=3, initial=timedelta(milliseconds=1))


async def called(made: Tool, strategy: ToolUseStrategy | None = None, **arguments: Any) -> ToolExecution:
    return await execute_tool(made, ToolCall("c", made.name, arguments), ToolContext("c", "k", 1), strategy)


def failing(times: int, seen: list[int], retry: ToolRetry | None = SOON) -> Tool:
    @tool(effect="idempotent", retry=retry)
    async def flaky(context: ToolContext) -> str:
        """Fail so often."""
        seen.append(context.attempt)
        if len(seen) <= times:
            raise RuntimeError(f"failure {len(seen)}")
        return "worked"

    return flaky


async def test_a_failure_is_tried_again_and_the_model_sees_the_result() -> None:
    """Each call knows which it is."""
    seen: list[int] = []
    made = await called(failing(2, seen))
    assert (made.result, made.is_error, seen) == ("worked", False, [1, 2, 3])


async def test_the_last_failure_is_what_the_model_and_the_hook_are_told() -> None:
    """Once, after as many calls as may be."""
    seen: list[int] = []
    told: list[str] = []
    hooks = ToolUseStrategy(on_error=lambda tool, arguments, error: told.append(str(error)))
    made = await called(failing(9, seen), hooks)
    assert (made.result, made.is_error, seen, told) == ("failure 3", True, [1, 2, 3], ["failure 3"])


async def test_without_a_retry_a_failure_is_final() -> None:
    seen: list[int] = []
    assert (await called(failing(1, seen, None))).result == "failure 1"
    assert seen == [1]


async def test_each_call_has_the_whole_timeout_and_one_that_is_over_is_tried_again() -> None:
    seen: list[float] = []

    @tool(effect="none", retry=SOON, timeout=1)
    async def slow_at_first() -> str:
        """Take long, once."""
        seen.append(1)
        if len(seen) == 1:
            await asyncio.Event().wait()
        return "in time"

    assert (await called(slow_at_first)).result == "in time"


async def test_arguments_that_do_not_fit_are_the_models_to_correct() -> None:
    """At once: trying again would take an hour."""
    slow = ToolRetry(initial=timedelta(hours=1), longest=timedelta(hours=1))

    @tool(effect="none", retry=slow)
    def typed(number: int) -> int:
        """Take a number."""
        return number

    async with asyncio.timeout(30):
        assert (await called(typed, number="many")).is_error


async def test_a_call_that_waits_to_be_tried_again_can_be_cancelled() -> None:
    seen: list[int] = []
    made = failing(9, seen, ToolRetry(initial=timedelta(hours=1), longest=timedelta(hours=1)))
    calling = asyncio.create_task(called(made))
    while not seen:  # noqa: ASYNC110  # the tool has no event to give
        await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


@pytest.mark.parametrize("effect", ["at_most_once", "once"])
def test_a_tool_that_may_not_run_again_takes_no_retry(effect: Any) -> None:
    with pytest.raises(InvalidInput, match="retry needs effect 'none' or 'idempotent'"):
        tool(name="work", effect=effect, retry=SOON)(lambda: None)


def test_a_tool_of_the_client_takes_no_retry() -> None:
    made = client_tool("ask", "Ask.")
    with pytest.raises(InvalidInput, match="run by the client"):
        Tool(made.name, made.description, made.parameters, None, retry=SOON)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 1}, {"max_attempts": 101}, {"max_attempts": True}, {"factor": 0.5}, {"factor": float("inf")},
        {"initial": timedelta(seconds=-1)}, {"longest": timedelta(seconds=-1)},
    ],
)  # fmt: skip
def test_a_retry_that_cannot_be_used_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        ToolRetry(**wrong)


@given(st.integers(2, 100), st.floats(1, 1e6), st.timedeltas(timedelta(0), timedelta(days=9)), st.booleans())
def test_waits_grow_up_to_the_longest(attempts: int, factor: float, initial: timedelta, jitter: bool) -> None:
    """And all of them together are no longer than the workflow is told."""
    longest = timedelta(minutes=5)
    retry = ToolRetry(max_attempts=attempts, factor=factor, initial=initial, longest=longest, jitter=jitter)
    waits = [retry.wait(attempt) for attempt in range(1, attempts)]
    assert all(timedelta(0) <= wait <= longest for wait in waits)
    assert sum(waits, timedelta(0)) <= retry.waits + timedelta(microseconds=attempts)
    if not jitter:
        assert waits == sorted(waits)
