"""A driver that shares its work between two processes of a peer that does all in one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.line import Done, Given, ProcessEnded, Ready

_PROCESSES = 2
_END_S = 30
_LINE_BYTES = 64 * 1024 * 1024


class SharedDriver:
    """See `line.Driver`. Each process is a driver too, of half the runs; a session stays with the first."""

    def __init__(self, module: str, start: Given) -> None:
        """Nothing is started yet.

        Args:
            module: of the peer's driver.
            start: whose options, but for "best", are theirs.
        """
        self._module = module
        options = {name: value for name, value in start.options.items() if name != "best"}
        self._environment = {**os.environ, "BENCH_OPTIONS": json.dumps(options)}
        self._processes: list[Process] = []

    async def start(self) -> Ready:
        versions: dict[str, str] = {}
        for _ in range(_PROCESSES):  # one after another: the first makes the tables
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self._module, env=self._environment, stdin=PIPE, stdout=PIPE, limit=_LINE_BYTES
            )
            self._processes.append(process)
            versions = (await _read(process))["versions"]
        return Ready({"worker": [process.pid for process in self._processes]}, versions)

    async def runs(self, work: str, runs: int, at_once: int) -> Done:
        start = time.perf_counter()
        shares = zip(self._processes, _shared(runs), _shared(at_once), strict=True)
        answers = await asyncio.gather(
            *(
                _ask(process, do="runs", work=work, runs=share, at_once=max(lanes, 1))
                for process, share, lanes in shares
                if share
            ),
            return_exceptions=True,  # each answer is read, so that the next one is not taken for it
        )
        answers = [_or_raise(answer) for answer in answers]
        wall_ms = (time.perf_counter() - start) * 1000
        latencies = [latency for answer in answers for latency in answer["latencies_ms"]]
        return Done(latencies, wall_ms, [run for answer in answers for run in answer["ids"]])

    async def turns(self, work: str, turns: int) -> Done:
        return Done(**await _ask(self._processes[0], do="turns", work=work, turns=turns))

    async def stored(self, ids: Sequence[str]) -> Mapping[str, float]:
        return await _ask(self._processes[0], do="stored", ids=list(ids))

    async def stop(self) -> None:
        for process in self._processes:
            assert process.stdin is not None, "a pipe"
            process.stdin.close()
        for process in self._processes:
            try:
                async with asyncio.timeout(_END_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


def _shared(number: int) -> list[int]:
    """Parts that differ by one at most, the larger first."""
    return [number // _PROCESSES + (place < number % _PROCESSES) for place in range(_PROCESSES)]


def _or_raise(answer: dict[str, Any] | BaseException) -> dict[str, Any]:
    if isinstance(answer, BaseException):
        raise answer
    return answer


async def _ask(process: Process, **request: Any) -> dict[str, Any]:
    assert process.stdin is not None, "a pipe"
    process.stdin.write(json.dumps(request).encode() + b"\n")
    await process.stdin.drain()
    return await _read(process)


async def _read(process: Process) -> dict[str, Any]:
    assert process.stdout is not None, "a pipe"
    line = await process.stdout.readline()
    if not line:
        raise ProcessEnded(f"a process of the peer ended with {await process.wait()}")
    answer = json.loads(line)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer
