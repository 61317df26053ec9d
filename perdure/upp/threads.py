"""Sync functions on daemon threads of our own.

Not asyncio's executor: the interpreter waits for that one at exit, so one blocked tool would keep a process alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_abandoned: list[threading.Thread] = []
_abandoned_lock = threading.Lock()


async def run_in_daemon_thread(function: Callable[[], T]) -> T:
    """Returns what the function returns, run on a new daemon thread with a copy of the caller's context variables.

    When the caller is cancelled it goes on at once; the thread cannot be stopped and is abandoned, and what it
    returns later is dropped.

    Raises:
        BaseException: what the function raised; StopIteration becomes RuntimeError, since no coroutine may raise it.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(function)
        except BaseException as error:  # noqa: BLE001  # the waiting coroutine raises it
            _post(loop, _fail, outcome, _raisable(error))
        else:
            _post(loop, _succeed, outcome, result)

    thread = threading.Thread(target=work, name="perdure-tool", daemon=True)
    thread.start()
    try:
        return await outcome
    except asyncio.CancelledError:
        if outcome.cancelled():
            _abandon(thread)
        raise


def abandoned_threads() -> int:
    """Returns how many threads still run though nobody waits for them any more."""
    with _abandoned_lock:
        _abandoned[:] = [thread for thread in _abandoned if thread.is_alive()]
        return len(_abandoned)


def _abandon(thread: threading.Thread) -> None:
    with _abandoned_lock:
        _abandoned[:] = [other for other in _abandoned if other.is_alive()]
        _abandoned.append(thread)


def _post(loop: asyncio.AbstractEventLoop, deliver: Callable[..., None], *args: object) -> None:
    try:
        loop.call_soon_threadsafe(deliver, *args)
    except RuntimeError:  # the loop is closed, so nobody waits
        return


def _succeed(outcome: asyncio.Future[T], result: T) -> None:
    if not outcome.done():
        outcome.set_result(result)


def _fail(outcome: asyncio.Future[object], error: BaseException) -> None:
    if not outcome.done():
        outcome.set_exception(error)


def _raisable(error: BaseException) -> BaseException:
    if not isinstance(error, StopIteration):
        return error
    replacement = RuntimeError("the function raised StopIteration")
    replacement.__cause__ = error
    return replacement
