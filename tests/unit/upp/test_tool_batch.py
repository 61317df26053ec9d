"""Batches of tool calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.tool_batch import execute_batch, group_calls
from perdure.upp.tool_call import ToolCall

Plan = list[tuple[bool, int]]
"""Per call: whether it is sequential, and how many turns of the event loop it takes."""

plans: st.SearchStrategy[Plan] = st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=12)


def calls_of(count: int) -> list[ToolCall]:
    return [ToolCall(f"c{index}", "t", index) for index in range(count)]


def position(call: ToolCall) -> int:
    assert isinstance(call.arguments, int)
    return call.arguments


def run_plan(plan: Plan) -> tuple[list[int], list[tuple[str, int]]]:
    """The results, and what began and ended in which order."""
    log: list[tuple[str, int]] = []

    async def run_one(call: ToolCall) -> int:
        index = position(call)
        log.append(("begin", index))
        for _ in range(plan[index][1]):
            await asyncio.sleep(0)
        log.append(("end", index))
        return index

    results = asyncio.run(execute_batch(calls_of(len(plan)), run_one, lambda call: plan[position(call)][0]))
    return results, log


@given(plans)
def test_results_stand_in_call_order(plan: Plan) -> None:
    """Whoever ends first, the order is the model's."""
    results, _ = run_plan(plan)
    assert results == list(range(len(plan)))


@given(plans)
def test_a_sequential_call_is_a_barrier(plan: Plan) -> None:
    """All before it have ended when it begins, and none after it begins before it ends."""
    _, log = run_plan(plan)
    for index in (index for index, (sequential, _) in enumerate(plan) if sequential):
        begin, end = log.index(("begin", index)), log.index(("end", index))
        assert end == begin + 1
        assert {other for what, other in log[:begin] if what == "end"} == set(range(index))
        assert all(other > index for _, other in log[end + 1 :])


@given(plans)
def test_calls_between_barriers_start_together(plan: Plan) -> None:
    """Every call of a group has begun, in call order, before any of it ends."""
    _, log = run_plan(plan)
    begun = [index for what, index in log if what == "begin"]
    assert begun == list(range(len(plan)))
    for group in group_calls(calls_of(len(plan)), lambda call: plan[position(call)][0]):
        last_begin = max(log.index(("begin", position(call))) for call in group)
        assert all(log.index(("end", position(call))) > last_begin for call in group)


@given(plans)
def test_the_order_of_events_is_the_same_each_time(plan: Plan) -> None:
    """Nothing but the calls decides it, so a workflow can replay it."""
    assert run_plan(plan) == run_plan(plan)


async def run(failing: Sequence[int], sequential: int | None = None) -> tuple[BaseException, list[int]]:
    """Runs four calls of which some fail; gives the error and the calls that ended."""
    ended: list[int] = []

    async def run_one(call: ToolCall) -> None:
        index = position(call)
        for _ in range(4 - index):  # the last ends first
            await asyncio.sleep(0)
        ended.append(index)
        if index in failing:
            raise ValueError(f"call {index}")

    with pytest.raises(ValueError, match="call") as caught:
        await execute_batch(calls_of(4), run_one, lambda call: position(call) == sequential)
    return caught.value, sorted(ended)


async def test_the_first_error_in_call_order_is_raised() -> None:
    """Not the first in time; the others are awaited."""
    error, ended = await run([1, 3])
    assert str(error) == "call 1"
    assert ended == [0, 1, 2, 3]


async def test_nothing_starts_after_an_error() -> None:
    """Calls behind the next barrier are not begun."""
    error, ended = await run([0], sequential=2)
    assert str(error) == "call 0"
    assert ended == [0, 1]


async def test_a_function_that_raises_at_once_leaves_nothing_unawaited() -> None:
    """An error before the first await is an error like others."""

    def run_one(call: ToolCall) -> Awaitable[None]:
        if position(call) == 1:
            raise ValueError("at once")
        return asyncio.sleep(0)

    with pytest.raises(ValueError, match="at once"):
        await execute_batch(calls_of(3), run_one, lambda _: False)


async def test_cancelling_reaches_every_call() -> None:
    """All calls are cancelled and have ended before the caller goes on."""
    begun, ended = 0, 0
    all_begun = asyncio.Event()

    async def run_one(_: ToolCall) -> None:
        nonlocal begun, ended
        begun += 1
        if begun == 3:
            all_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1

    task = asyncio.create_task(execute_batch(calls_of(3), run_one, lambda _: False))
    await all_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == 3


@pytest.mark.parametrize("count", [2, 8, 64])
async def test_many_parallel_calls_are_all_paired(count: int) -> None:
    """64 at once are no different from two."""

    async def run_one(call: ToolCall) -> str:
        await asyncio.sleep(0)
        return call.tool_call_id

    calls = calls_of(count)
    assert await execute_batch(calls, run_one, lambda _: False) == [call.tool_call_id for call in calls]
