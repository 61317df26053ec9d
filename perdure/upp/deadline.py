"""Awaiting work that may not heed its cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

T = TypeVar("T")

CANCEL_GRACE = timedelta(seconds=0.5)
"""How long cancelled work may take to clean up before it is left alone."""


class DeadlineExceeded(Exception):
    """The work took longer than it was allowed to."""


class CancelledFromWithin(Exception):
    """The work ended as cancelled though nobody cancelled it."""


async def run_with_deadline(work: Coroutine[Any, Any, T], timeout: timedelta | None) -> T:
    """Returns what the work returns, run as a task of its own with a copy of the context variables.

    When the time is over, or the caller is cancelled, the work is cancelled and given `CANCEL_GRACE` to end; work
    that does not end by then is abandoned, so that the caller always goes on.

    Args:
        work: what is awaited.
        timeout: None means no limit.

    Raises:
        DeadlineExceeded: the time is over.
        CancelledFromWithin: the work raised CancelledError by itself.
        BaseException: what the work raised.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=None if timeout is None else timeout.total_seconds())
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if not done:
        await _stop(task)
        raise DeadlineExceeded
    if task.cancelled():
        raise CancelledFromWithin
    return task.result()


async def _stop(task: asyncio.Task[Any]) -> None:
    task.add_done_callback(_drop_outcome)
    task.cancel()
    await asyncio.wait({task}, timeout=CANCEL_GRACE.total_seconds())


def _drop_outcome(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # marks it as seen: nobody wants it any more
