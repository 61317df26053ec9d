"""Real servers and real worker processes for tests: started, killed, and read by fresh connections."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from perdure.embedded.servers import Addresses, EmbeddedServers
from perdure.errors import ServerUnavailable
from perdure.migrations.migrate import migrate
from perdure.runtime.connect import connect
from perdure.runtime.sessions import Sessions
from perdure.store.database import Database
from tests.acceptance.terminal import Forks
from tests.integration.agents import release_mark

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
FAULTS = ("sweep.round_failed", "remote.follow_failed")
"""What a process logs where its work beside its own raised an error."""


class Stack:
    """Temporal and PostgreSQL of one folder, supervised: a server that is killed comes back by itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers = EmbeddedServers(folder)
        self.forks = Forks()
        self.ledger = folder / "ledger.jsonl"
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="servers", daemon=True)
        self._supervisor: Any = None

    async def _serve(self) -> None:
        """A loop that `asyncio.run` makes and ends, so that nothing of it is left to the collector."""
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._ending.wait()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "started"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(180)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(30)
        assert self._loop is not None
        self._call(self.servers.start())
        self._call(self._migrate())
        self._supervisor = asyncio.run_coroutine_threadsafe(self.servers.supervise(), self._loop)

    async def _migrate(self) -> None:
        database = Database(self.addresses.database_url)
        await migrate(database)
        await database.close()

    def stop(self) -> None:
        assert self._loop is not None
        assert self._ending is not None
        self._supervisor.cancel()
        self._call(self.servers.stop())
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(30)
        self.forks.close()
        said = {path.name: path.read_text() for path in self.folder.glob("*.log")}
        failed = {
            name: text[text.index(fault) :][:4000] for name, text in said.items() for fault in FAULTS if fault in text
        }
        assert not failed, f"a round of a process's work beside its own raised an error: {failed}"

    @property
    def addresses(self) -> Addresses:
        return self.servers.addresses

    def kill(self, name: str) -> None:
        """SIGKILL "temporal" or "postgres"."""
        os.kill(self.servers.pids[name], signal.SIGKILL)

    @property
    def addressing(self) -> dict[str, str]:
        """The environment by which a process finds these servers."""
        return {
            "PERDURE_TEMPORAL_ADDRESS": self.addresses.temporal,
            "PERDURE_DATABASE_URL": self.addresses.database_url,
            "PERDURE_TEST_LEDGER": str(self.ledger),
        }

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Sessions, None]:
        """A connection of its own, as another process would have."""
        async with connect(
            temporal_address=self.addresses.temporal, database_url=self.addresses.database_url
        ) as sessions:
            yield sessions

    @asynccontextmanager
    async def reconnect(self) -> AsyncGenerator[Sessions, None]:
        """A connection, made as soon as both servers are back."""
        end = time.monotonic() + 90
        while True:
            try:
                async with self.connect() as sessions:
                    yield sessions
                    return
            except ServerUnavailable:
                assert time.monotonic() < end, "the servers did not come back"

    def entries(self, run: str, kind: str | None = None) -> list[dict[str, Any]]:
        """What models and tools of one test wrote into the ledger, in order."""
        if not self.ledger.exists():
            return []
        lines = [json.loads(line) for line in self.ledger.read_text().splitlines()]
        return [line for line in lines if line["name"] == run and kind in (None, line["kind"])]

    def release(self, values: dict[str, Any]) -> None:
        """Let the calls go on that a spec of `agents` holds."""
        release_mark(self.ledger, values["name"]).touch()

    async def until_entries(self, run: str, kind: str, count: int = 1) -> None:
        """Return once that many lines of a kind are in the ledger."""

        async def found() -> bool:
            return len(self.entries(run, kind)) >= count

        await eventually(found, what=f"{count} times {kind}")


class WorkerProcess:
    """`perdure worker` in a process group of its own."""

    started: ClassVar[list[WorkerProcess]] = []
    """All of this process, so that one that a failing test leaves can be ended: workers serve one task queue."""

    def __init__(self, stack: Stack, app: str = "tests.integration.agents:app", **environment: str) -> None:
        self.started.append(self)
        self._stack = stack
        self._app = app
        self._log = stack.folder / f"worker-{uuid.uuid4().hex}.log"
        self._log.touch()
        self._child = stack.forks.fork(
            arguments=["worker", app],
            environment={**os.environ, **stack.addressing, **environment},
            folder=str(ROOT),
            stdin=os.devnull,
            stdout=os.devnull,
            stderr=str(self._log),
        )
        self.pid = self._child.pid

    @property
    def said(self) -> str:
        """What it has written to standard error."""
        return self._log.read_text()

    @property
    def code(self) -> int | None:
        """Its exit code once it has ended."""
        return self._child.code

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._child.code is None

    def wait_ready(self) -> WorkerProcess:
        """Return once it serves."""
        end = time.monotonic() + 120
        while "worker ready" not in self.said:
            assert self.alive, self.said
            assert time.monotonic() < end, self.said
            time.sleep(0.02)
        return self

    def kill(self) -> None:
        """SIGKILL to the whole process group."""
        if self.alive:
            os.killpg(self.pid, signal.SIGKILL)
        self.wait_dead(30)

    def wait_dead(self, seconds: float = 90) -> None:
        """Wait until the process has ended by itself, as at a crash point."""
        self._child.wait(seconds)

    @asynccontextmanager
    async def replaced_when_dead(self) -> AsyncGenerator[WorkerProcess, None]:
        """Another worker of the same app, from when this one has ended by itself."""
        await asyncio.to_thread(self.wait_dead)
        other = WorkerProcess(self._stack, self._app).wait_ready()
        try:
            yield other
        finally:
            other.kill()

    def terminate(self, seconds: float = 60) -> int:
        """SIGTERM, and the exit code."""
        self._child.send(signal.SIGTERM)
        return self._child.wait(seconds)


async def eventually(check: Callable[[], Coroutine[Any, Any, T | None]], *, seconds: float = 90, what: str = "") -> T:
    """The first thing that is not None (or False) that `check` returns before the deadline."""
    end = time.monotonic() + seconds
    while True:
        found = await check()
        if found:
            return found
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.05)
