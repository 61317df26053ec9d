"""The line of JSON on which the harness talks to a contestant's driver process.

Standard library only, for the peers run it in an environment of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO, cast


class ProcessEnded(Exception):
    """A process that the driver started has ended by itself."""


@dataclass(frozen=True)
class Given:
    """What the harness gives a driver.

    Attributes:
        temporal: host and port of the common Temporal server.
        database_url: `postgresql://...`, a database of this contestant's own.
        folder: scratch, of this contestant's own.
        options: of the contestant.
    """

    temporal: str
    database_url: str
    folder: str
    options: Mapping[str, Any]


def given() -> Given:
    """What the harness gave this driver process."""
    value = os.environ
    options = json.loads(value.get("BENCH_OPTIONS", "{}"))
    return Given(value["BENCH_TEMPORAL"], value["BENCH_DATABASE_URL"], value["BENCH_FOLDER"], options)


@dataclass(frozen=True)
class Ready:
    """What a driver says first.

    Attributes:
        pids: of what it started, by role: "worker" (its own if the work is done in it), "api".
        versions: of the contestant's packages.
    """

    pids: Mapping[str, Sequence[int]]
    versions: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Done:
    """Runs that are done: their latencies in order of ending, all their time, and the ids that `stored` takes."""

    latencies_ms: Sequence[float]
    wall_ms: float
    ids: Sequence[str]


class Driver(Protocol):
    """A contestant. Each method raises what goes wrong; the harness is told and stops."""

    async def start(self) -> Ready:
        """Return once the workers take work."""
        ...

    async def runs(self, work: str, runs: int, at_once: int) -> Done:
        """Do `runs` runs of a work, `at_once` at a time. See `closed_loop`."""
        ...

    async def turns(self, work: str, turns: int) -> Done:
        """Do `turns` turns of one session, one after another. See `one_by_one`."""
        ...

    async def stored(self, ids: Sequence[str]) -> Mapping[str, float]:
        """Per run on average: "history_bytes", "events" of Temporal (0 without), once all that settles has settled."""
        ...

    async def stop(self) -> None:
        """End everything that was started; also called after a start that failed."""
        ...


async def closed_loop(one: Callable[[int], Awaitable[str]], runs: int, at_once: int) -> Done:
    """Do `one(number)` for each run, `at_once` of them in flight; it returns the run's id once its answer is checked."""
    latencies: list[float] = []
    ids: list[str] = []
    numbers = iter(range(runs))

    async def lane() -> None:
        for number in numbers:
            start = time.perf_counter()
            ids.append(await one(number))
            latencies.append((time.perf_counter() - start) * 1000)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as lanes:
        for _ in range(min(at_once, runs)):
            lanes.create_task(lane())
    return Done(latencies, (time.perf_counter() - start) * 1000, ids)


async def one_by_one(one: Callable[[int], Awaitable[str]], turns: int) -> Done:
    """Do `one(turn)` for each turn in order; it returns the session's or run's id."""
    done = await closed_loop(one, turns, 1)
    return Done(done.latencies_ms, done.wall_ms, list(dict.fromkeys(done.ids)))


def serve(driver: Driver) -> None:
    """Serve the harness on standard input and output until it says stop or is gone; logs go to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    sys.exit(asyncio.run(_serve(driver, answers)))


async def _serve(driver: Driver, answers: TextIO) -> int:
    try:
        ready = await driver.start()
    except Exception as error:  # noqa: BLE001 - whatever it is, the harness is told
        traceback.print_exc()
        _say(answers, {"error": explained(error)})
        await driver.stop()
        return 1
    _say(
        answers, {"ready": True, "pids": {k: list(v) for k, v in ready.pids.items()}, "versions": dict(ready.versions)}
    )
    lines = await _standard_input()
    while (line := await lines.readline()) and (asked := json.loads(line))["do"] != "stop":
        try:
            answer = await _answer(driver, asked)
        except Exception as error:  # noqa: BLE001 - likewise
            traceback.print_exc()
            answer = {"error": explained(error)}
        _say(answers, answer)
    await driver.stop()
    return 0


async def _answer(driver: Driver, asked: dict[str, Any]) -> dict[str, Any]:
    match asked["do"]:
        case "runs":
            return vars(await driver.runs(asked["work"], asked["runs"], asked["at_once"]))
        case "turns":
            return vars(await driver.turns(asked["work"], asked["turns"]))
        case "stored":
            return dict(await driver.stored(asked["ids"]))
        case other:
            raise ValueError(f"a driver cannot {other!r}")


async def _standard_input() -> asyncio.StreamReader:
    lines = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    return lines


def _say(answers: TextIO, answer: Mapping[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def explained(error: BaseException) -> str:
    """What went wrong, in one line: of a group its first error."""
    if isinstance(error, BaseExceptionGroup):
        return explained(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return f"{type(error).__name__}: {error}"
