"""The product's own processes for W6 to W10: `perdure worker` and `perdure serve`, started, waited for, killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import BenchServers
from benchmarks.w_agents import TARGET
from perdure.migrations.migrate import migrate
from perdure.runtime.connect import connect
from perdure.runtime.sessions import Sessions
from perdure.store.database import Database

ROOT = Path(__file__).parents[1]
_READY_S = 120
_END_S = 60
_API_READY = re.compile(r"API ready: (https?://\S+)/api")
_LAST_LINES = 40


@dataclass(frozen=True)
class Place:
    """Where a work is done: the common servers, a database of the work's own with our schema, and a task queue.

    Attributes:
        name: of the work.
        temporal: host and port.
        database_url: `postgresql://...`.
    """

    name: str
    temporal: str
    database_url: str

    @property
    def environment(self) -> dict[str, str]:
        """By which the product's processes find it."""
        return {
            "PERDURE_TEMPORAL_ADDRESS": self.temporal,
            "PERDURE_DATABASE_URL": self.database_url,
            "PERDURE_TASK_QUEUE": f"bench-{self.name}",
        }

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Sessions, None]:
        """A connection of the library."""
        async with connect(temporal_address=self.temporal, database_url=self.database_url) as sessions:
            yield sessions

    async def prepare(self) -> None:
        """Make the schema."""
        database = Database(self.database_url)
        await migrate(database)
        await database.close()


async def prepared(servers: BenchServers, name: str) -> Place:
    """A place of that name with our schema."""
    place = Place(name, servers.temporal, await servers.create_database(name))
    await place.prepare()
    return place


class Served:
    """A process of the product that is ready.

    Attributes:
        pid: its id; it leads a process group.
        ready_line: what it said when it was ready.
    """

    def __init__(self, process: asyncio.subprocess.Process, ready_line: str, said: list[str]) -> None:
        """Hold a process that `_start` started."""
        self._process = process
        self._said = said
        self._reading = asyncio.create_task(_read(process, said), name="read what a process says")
        self.pid = process.pid
        self.ready_line = ready_line

    @property
    def said(self) -> str:
        """The last lines that it wrote to standard error."""
        return "".join(self._said[-_LAST_LINES:])

    @property
    def url(self) -> str:
        """Of `perdure serve`: where the API is, without `/api`."""
        found = _API_READY.search(self.ready_line)
        if found is None:
            raise ValueError(f"no API said {self.ready_line!r}")
        return found[1]

    async def kill(self) -> None:
        """SIGKILL to the whole process group."""
        if self._process.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
        await self._ended()

    async def stop(self) -> None:
        """SIGTERM, and the process's own end."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(_END_S):
                await self._ended()
        except TimeoutError:
            await self.kill()

    async def _ended(self) -> None:
        await self._process.wait()
        await self._reading


async def start_worker(place: Place, environment: Mapping[str, str] | None = None) -> Served:
    """Start `perdure worker` for the agents of `w_agents`; returns once it serves.

    Args:
        place: where.
        environment: settings besides.

    Raises:
        RuntimeError: it ended, or was not ready within two minutes.
    """
    return await _start(["worker", TARGET], "worker ready", {**place.environment, **(environment or {})})


async def start_api(place: Place, environment: Mapping[str, str] | None = None) -> Served:
    """Start `perdure serve` on a free port; returns once it serves. Arguments and errors are those of `start_worker`."""
    return await _start(["serve", "--port", "0"], "API ready", {**place.environment, **(environment or {})})


@asynccontextmanager
async def serving(place: Place, *, api: bool = False) -> AsyncGenerator[tuple[Served, Served | None]]:
    """A worker, and an API if asked for; both are stopped at the end."""
    worker = await start_worker(place)
    try:
        front = await start_api(place) if api else None
        try:
            yield worker, front
        finally:
            if front is not None:
                await front.stop()
    finally:
        await worker.stop()


async def _start(arguments: list[str], marker: str, environment: Mapping[str, str]) -> Served:
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "perdure"),
        *arguments,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    said: list[str] = []
    try:
        async with asyncio.timeout(_READY_S):
            ready = await _read(process, said, until=marker)
    except TimeoutError:
        ready = ""
    if not ready:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        raise RuntimeError(f"perdure {' '.join(arguments)} did not become ready: {''.join(said[-_LAST_LINES:])}")
    return Served(process, ready, said)


async def _read(process: asyncio.subprocess.Process, said: list[str], until: str = "") -> str:
    """Note the lines that a process says, up to the one that has `until` in it or to the end, which is ""."""
    assert process.stderr is not None, "a pipe"
    while line := (await process.stderr.readline()).decode(errors="replace"):
        said.append(line)
        if until and until in line:
            return line
    return ""
