"""A contestant's driver process, as the harness holds it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks.results import ROOT

_PEERS = ROOT / "benchmarks" / "peers"
_PEERS_PYTHON = _PEERS / ".venv" / "bin" / "python"
_OUR_DRIVERS = {"perdure": "benchmarks.perdure_driver", "floor": "benchmarks.floor_driver"}
_READY_S = 300
_ANSWER_S = 3600
_END_S = 60
_LOG_BYTES = 3000
_LINE_BYTES = 64 * 1024 * 1024


class DriverFailed(Exception):
    """A contestant did not do its work, or its driver died. What it said last is in the message."""


@dataclass(frozen=True)
class Contestant:
    """Who is measured.

    Attributes:
        name: as `parse_contestant` reads it.
        module: of its driver.
        python: the interpreter.
        options: what the driver is told.
    """

    name: str
    module: str
    python: Path
    options: Mapping[str, Any]


def parse_contestant(name: str) -> Contestant:
    """The contestant that a name means.

    Args:
        name: of the driver, and behind it options: "floor+rows" is the option {"rows": true}, "floor+workers=2" is
            {"workers": 2}, "perdure+PERDURE_MAX_CACHED_WORKFLOWS=10" sets a variable of its processes.
    """
    kind, *given = name.split("+")
    options: dict[str, Any] = {}
    environment: dict[str, str] = {}
    for item in given:
        key, is_value, value = item.partition("=")
        if key.isupper():
            environment[key] = value
        else:
            options[key] = _value(value) if is_value else True
    if environment:
        options["environment"] = environment
    if kind in _OUR_DRIVERS:
        return Contestant(name, _OUR_DRIVERS[kind], Path(sys.executable), options)
    if not (_PEERS / f"{kind}.py").exists():
        raise ValueError(f"there is no contestant {kind!r}")
    return Contestant(name, f"benchmarks.peers.{kind}", _PEERS_PYTHON, options)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class Place:
    """Where a contestant works: the common Temporal, a database of its own, and a folder of its own."""

    temporal: str
    database_url: str
    folder: Path


class DriverProcess:
    """A driver that is ready.

    Attributes:
        roles: process ids by role, the driver's own too.
        versions: of the contestant's packages.
    """

    def __init__(self, contestant: Contestant, process: asyncio.subprocess.Process, log: Path) -> None:
        """Hold a process; `start` makes it ready."""
        self._contestant = contestant
        self._process = process
        self._log = log
        self.roles: Mapping[str, Sequence[int]] = {}
        self.versions: dict[str, str] = {}

    async def start(self) -> None:
        """Wait until it takes work.

        Raises:
            DriverFailed: it does not.
        """
        ready = await self._read(_READY_S)
        self.versions = ready["versions"]
        pids = {role: given for role, given in cast("dict[str, list[int]]", ready["pids"]).items() if given}
        own = self._process.pid
        self.roles = pids if any(own in given for given in pids.values()) else {**pids, "driver": [own]}

    async def ask(self, **request: Any) -> dict[str, Any]:
        """Have it do something, and return its answer.

        Raises:
            DriverFailed: it could not, or has ended, or took more than an hour.
        """
        assert self._process.stdin is not None, "a pipe"
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            await self._process.stdin.drain()
        except OSError as error:
            raise self._failed(f"does not listen: {error}") from error
        return await self._read(_ANSWER_S)

    async def stop(self) -> None:
        """Have it end what it started, and itself.

        Raises:
            DriverFailed: it does not, or not cleanly.
        """
        assert self._process.stdin is not None, "a pipe"
        self._process.stdin.write(b'{"do": "stop"}\n')
        try:
            async with asyncio.timeout(_END_S):
                code = await self._process.wait()
        except TimeoutError as error:
            raise self._failed(f"did not stop within {_END_S} s") from error
        if code:
            raise self._failed(f"ended with {code}")

    def kill(self) -> None:
        """SIGKILL to whatever is left of its process group."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    async def _read(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None, "a pipe"
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.stdout.readline()
        except TimeoutError as error:
            raise self._failed(f"did not answer within {seconds:.0f} s") from error
        if not line:
            raise self._failed("has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise self._failed(answer["error"])
        return answer

    def _failed(self, what: str) -> DriverFailed:
        said = self._log.read_text(encoding="utf-8", errors="replace")[-_LOG_BYTES:]
        return DriverFailed(f"{self._contestant.name}: {what}\n{said}")


@asynccontextmanager
async def running(contestant: Contestant, place: Place) -> AsyncGenerator[DriverProcess, None]:
    """A driver that is ready; nothing of it is left at the end.

    Raises:
        DriverFailed: it does not start, or does not stop.
    """
    place.folder.mkdir(parents=True, exist_ok=True)
    log = place.folder / "driver.log"
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            str(contestant.python), "-m", contestant.module, cwd=place.folder, env=_environment(contestant, place),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors,
            limit=_LINE_BYTES, start_new_session=True,
        )  # fmt: skip
    driver = DriverProcess(contestant, process, log)
    try:
        await driver.start()
        yield driver
        await driver.stop()
    finally:
        driver.kill()
        await process.wait()


def _environment(contestant: Contestant, place: Place) -> dict[str, str]:
    """Ours without Perdure's settings, so that everything is measured as it comes."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "BENCH_"))}
    return {
        **ours,
        "PYTHONPATH": str(ROOT),
        "BENCH_TEMPORAL": place.temporal,
        "BENCH_DATABASE_URL": place.database_url,
        "BENCH_FOLDER": str(place.folder),
        "BENCH_OPTIONS": json.dumps(contestant.options),
    }
