"""A run's time in a plain process, by the monotonic clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from perdure.uap.lineage import current

T = TypeVar("T")


async def in_time(work: Coroutine[Any, Any, T], run: str) -> T:
    """What the strategy of the run that this code is part of returns, if it does in the run's time.

    Raises:
        LimitExceeded: with code "max_duration" or "session_max_duration"; the work was cancelled.
        Exception: what it raised.
    """
    here = current()
    left = None if here is None else here.seconds_left()
    if here is None or here.timed is None or left is None:
        return await work
    clock = asyncio.timeout(left)
    try:
        async with clock:
            return await work
    except TimeoutError as error:
        if not clock.expired():
            raise
        raise here.timed.time_over(run) from error
