"""All tool calls of one assistant message: which start together, and in what order their results stand.

Deterministic (no clock, no threads, no sets), since it also runs inside a Temporal workflow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from perdure.upp.tool_call import ToolCall

T = TypeVar("T")


async def execute_batch(
    calls: Sequence[ToolCall],
    run_one: Callable[[ToolCall], Awaitable[T]],
    is_sequential: Callable[[ToolCall], bool],
) -> list[T]:
    """Returns one result per call, in call order.

    Calls start together, in call order. A sequential call is a barrier: those before it finish first, it runs
    alone, then the rest start. When a call raises, those that were started are awaited and no others are started;
    when the caller is cancelled, those that were started are cancelled and awaited.

    Raises:
        BaseException: what `run_one` raised; of several, the first in call order.
    """

    async def start(call: ToolCall) -> T:
        return await run_one(call)

    results: list[T] = []
    for group in group_calls(calls, is_sequential):
        outcomes = await asyncio.gather(*(start(call) for call in group), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            results.append(outcome)
    return results


def group_calls(calls: Sequence[ToolCall], is_sequential: Callable[[ToolCall], bool]) -> list[list[ToolCall]]:
    """Returns the calls in groups that run one after another; a sequential call is a group of its own."""
    groups: list[list[ToolCall]] = []
    open_group: list[ToolCall] | None = None
    for call in calls:
        if is_sequential(call):
            groups.append([call])
            open_group = None
        elif open_group is None:
            open_group = [call]
            groups.append(open_group)
        else:
            open_group.append(call)
    return groups
