"""A contestant's worker process: started by its driver, which it outlives by nothing.

The driver holds the other end of the worker's standard input; the worker says a line when it takes work and ends when
that input ends. Needs the standard library only, for the peers run it in an environment of their own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from benchmarks.line import ProcessEnded

T = TypeVar("T")
_READY = b"ready\n"
_READY_S = 180
_END_S = 20


async def start_workers(module: str, count: int, environment: Mapping[str, str]) -> list[Process]:
    """Start `python -m module` so many times; return them once all take work.

    Args:
        module: its main ends in `until_told`.
        count: of processes.
        environment: beside this process's own.

    Raises:
        ProcessEnded: one ended instead; the others are ended too.
        TimeoutError: likewise, one was not ready in three minutes.
    """
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, stdin=PIPE, stdout=PIPE, env={**os.environ, **environment}
        )
        for _ in range(count)
    ]
    try:
        async with asyncio.timeout(_READY_S):
            for worker in workers:
                await _ready(worker, module)
    except BaseException:
        await end_workers(workers)
        raise
    return workers


async def _ready(worker: Process, module: str) -> None:
    assert worker.stdout is not None, "it is a pipe"
    while (line := await worker.stdout.readline()) != _READY:
        sys.stderr.buffer.write(line)  # what a library prints
        if not line:
            raise ProcessEnded(f"the worker {module} ended with {await worker.wait()} before it was ready")


async def while_alive(workers: Sequence[Process], doing: Coroutine[Any, Any, T]) -> T:
    """Do it as long as all workers live: what waits for a dead one would wait without end.

    Raises:
        ProcessEnded: one has ended.
    """
    task = asyncio.create_task(doing)
    ends = [asyncio.create_task(worker.wait()) for worker in workers]
    await asyncio.wait([task, *ends], return_when=asyncio.FIRST_COMPLETED)
    dead = [end.result() for end in ends if end.done()]
    for waiting in (*ends, *([task] if dead else [])):
        waiting.cancel()
    if dead:
        raise ProcessEnded(f"a worker ended with {dead[0]}")
    return await task


async def end_workers(workers: Sequence[Process]) -> None:
    """End them: each finishes what it has begun, and is killed after 20 s."""
    for worker in workers:
        assert worker.stdin is not None, "it is a pipe"
        worker.stdin.close()
    for worker in workers:
        try:
            async with asyncio.timeout(_END_S):
                await worker.wait()
        except TimeoutError:
            worker.kill()
            await worker.wait()


async def until_told() -> None:
    """Called in a worker process once it takes work: says so, and returns when the driver ends it or is gone."""
    told = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    sys.stdout.buffer.write(_READY)
    sys.stdout.flush()
    os.dup2(2, 1)  # nobody reads on
    await told.read()
