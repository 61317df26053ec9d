"""Waiting on behalf of a caller: for so long, and not beyond the end of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from perdure.api.backend import Backend


async def within(backend: Backend, work: Coroutine[Any, Any, None], wait_s: float) -> None:
    """Return when the work is done or failed, when the time is over, or when this process is to end."""
    waiting = asyncio.create_task(work, name="wait for a result")
    leaving = asyncio.create_task(backend.leaving.wait(), name="wait for the process's end")
    try:
        await asyncio.wait([waiting, leaving], timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        leaving.cancel()
        await asyncio.gather(waiting, leaving, return_exceptions=True)
