"""Work with a deadline."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from perdure.upp.deadline import CancelledFromWithin, DeadlineExceeded, run_with_deadline

SHORT = timedelta(milliseconds=10)


async def for_ever(cleaned: asyncio.Event | None = None) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        if cleaned is not None:
            cleaned.set()


async def stubborn(begun: asyncio.Event, let_go: asyncio.Event) -> None:
    """Swallows every cancellation until it is let go."""
    begun.set()
    while not let_go.is_set():
        try:
            await let_go.wait()
        except asyncio.CancelledError:
            continue


async def test_the_value_is_returned() -> None:
    """Work that ends in time gives its value."""

    async def work() -> int:
        return 42

    assert await run_with_deadline(work(), None) == 42
    assert await run_with_deadline(work(), timedelta(hours=1)) == 42


async def test_an_exception_is_raised() -> None:
    """Also a TimeoutError of the work's own is just an exception."""

    async def work() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await run_with_deadline(work(), timedelta(hours=1))


async def test_late_work_is_cancelled() -> None:
    """The work cleans up before the error is raised."""
    cleaned = asyncio.Event()
    with pytest.raises(DeadlineExceeded):
        await run_with_deadline(for_ever(cleaned), SHORT)
    assert cleaned.is_set()


async def test_work_that_ignores_its_cancellation_is_left_alone() -> None:
    """The caller goes on after the grace."""
    begun, let_go = asyncio.Event(), asyncio.Event()
    with pytest.raises(DeadlineExceeded):
        await asyncio.wait_for(run_with_deadline(stubborn(begun, let_go), SHORT), 60)
    assert begun.is_set()
    let_go.set()


async def test_a_cancelled_caller_goes_on_too() -> None:
    """Cancelling reaches the work, and ends also if the work ignores it."""
    begun, let_go = asyncio.Event(), asyncio.Event()
    caller = asyncio.create_task(run_with_deadline(stubborn(begun, let_go), None))
    await begun.wait()
    caller.cancel()
    done, _ = await asyncio.wait({caller}, timeout=60)
    assert done
    assert caller.cancelled()
    let_go.set()


async def test_work_that_cancels_itself_does_not_cancel_the_caller() -> None:
    """A leaked CancelledError is no cancellation of ours."""

    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(CancelledFromWithin):
        await run_with_deadline(work(), None)
