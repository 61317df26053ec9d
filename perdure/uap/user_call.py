"""Calling a function that the user wrote, sync or async: never in workflow code."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from perdure.upp.threads import run_in_daemon_thread


async def call_user(function: Callable[..., object], *arguments: object) -> object:
    """What the function returns: an async one is awaited, a sync one runs on a thread so that it may block.

    Raises:
        Exception: what the function raised.
    """
    if inspect.iscoroutinefunction(function):
        return cast(object, await function(*arguments))
    returned = await run_in_daemon_thread(partial(function, *arguments))
    return await cast("Awaitable[object]", returned) if inspect.isawaitable(returned) else returned
