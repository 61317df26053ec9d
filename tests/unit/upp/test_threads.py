"""Sync functions on daemon threads."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from perdure.upp.threads import abandoned_threads, run_in_daemon_thread

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")

BLOCKED = """
import asyncio, threading
from datetime import timedelta
from perdure.upp import Tool, ToolCall, ToolContext, execute_tool
tool = Tool("t", "", {"type": "object"}, lambda _: threading.Event().wait(), timeout=timedelta(milliseconds=10))
print(asyncio.run(execute_tool(tool, ToolCall("c", "t", {}), ToolContext("c", "k", 1))).result)
"""


class Blocker:
    """A function that blocks until it is released, and says when it has begun and ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.thread: threading.Thread | None = None
        self._loop = asyncio.get_running_loop()
        self._release = threading.Event()

    def __call__(self) -> str:
        self.thread = threading.current_thread()
        self._loop.call_soon_threadsafe(self.begun.set)
        self._release.wait(120)
        return "late"

    def finish(self) -> None:
        self._release.set()
        assert self.thread is not None
        self.thread.join(60)


async def test_the_value_is_returned() -> None:
    """What the function returns comes back."""
    assert await run_in_daemon_thread(lambda: 42) == 42


async def test_the_thread_is_a_daemon() -> None:
    """No such thread keeps a process alive."""
    assert await run_in_daemon_thread(lambda: threading.current_thread().daemon)


async def test_an_exception_is_raised() -> None:
    """What the function raises is raised here."""
    with pytest.raises(ZeroDivisionError):
        await run_in_daemon_thread(lambda: 1 // 0)


async def test_stop_iteration_does_not_hang() -> None:
    """No future can hold a StopIteration, so it becomes a RuntimeError."""
    nothing: list[int] = []
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        await run_in_daemon_thread(lambda: next(iter(nothing)))


async def test_context_variables_are_copied() -> None:
    """The function sees the caller's values; what it sets stays its own."""
    VARIABLE.set("caller")

    def change() -> str:
        before = VARIABLE.get()
        VARIABLE.set("thread")
        return before

    assert await run_in_daemon_thread(change) == "caller"
    assert VARIABLE.get() == "caller"


async def test_a_cancelled_caller_does_not_wait() -> None:
    """The thread is abandoned and counted while it runs; its late value is dropped."""
    before = abandoned_threads()
    blocker = Blocker()
    task = asyncio.create_task(run_in_daemon_thread(blocker))
    await asyncio.wait_for(blocker.begun.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert abandoned_threads() == before + 1
    blocker.finish()
    assert abandoned_threads() == before


def test_a_value_after_the_loop_is_dropped() -> None:
    """A thread that outlives its event loop harms nobody."""

    async def abandon() -> Blocker:
        blocker = Blocker()
        task = asyncio.create_task(run_in_daemon_thread(blocker))
        await asyncio.wait_for(blocker.begun.wait(), 60)
        task.cancel()
        return blocker

    asyncio.run(abandon()).finish()


def test_a_blocked_tool_does_not_keep_the_process() -> None:
    """A process with a tool that blocks for ever ends when its program ends."""
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Tool 't' timed out after 0.01 s\n"
