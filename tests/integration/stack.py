"""Real servers and real worker processes for tests: started, killed, and read by fresh connections."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from perdure.embedded.servers import Addresses, EmbeddedServers
from perdure.errors import ServerUnavailable
from perdure.migrations.migrate import migrate
from perdure.runtime.connect import connect
from perdure.runtime.sessions import Sessions
from perdure.store.database import Database

T = TypeVar("T")
ROOT = Path(__file__).parents[2]


class Stack:
    """Temporal and PostgreSQL of one folder, supervised: a server that is killed comes back by itself."""

    def __init__(self, folder: Path) -> None:
        self.servers = EmbeddedServers(folder)
        self.ledger = folder / "ledger.jsonl"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="servers", daemon=True)
        self._supervisor: Any = None

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(90)

    def start(self) -> None:
        self._thread.start()
        self._call(self.servers.start())
        self._call(self._migrate())
        self._supervisor = asyncio.run_coroutine_threadsafe(self.servers.supervise(), self._loop)

    async def _migrate(self) -> None:
        database = Database(self.addresses.database_url)
        await migrate(database)
        await database.close()

    def stop(self) -> None:
        self._supervisor.cancel()
        self._call(self.servers.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def addresses(self) -> Addresses:
        return self.servers.addresses

    def kill(self, name: str) -> None:
        """SIGKILL "temporal" or "postgres"."""
        os.kill(self.servers.pids[name], signal.SIGKILL)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PERDURE_TEMPORAL_ADDRESS": self.addresses.temporal,
            "PERDURE_DATABASE_URL": self.addresses.database_url,
            "PERDURE_TEST_LEDGER": str(self.ledger),
            "PYTHONPATH": str(ROOT),
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
        end = time.monotonic() + 30
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


class WorkerProcess:
    """A worker in a process group of its own."""

    def __init__(self, stack: Stack, app: str = "tests.integration.agents:app", **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "perdure.cli.main", "worker", app],
            env={**stack.environment, **environment},
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        self.said: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.said.append(line)
                if line.startswith("worker ready"):
                    self._ready.set()
        self._ready.set()

    def wait_ready(self) -> WorkerProcess:
        assert self._ready.wait(40), "the worker did not become ready"
        assert self._process.poll() is None, "".join(self.said)
        return self

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL to the whole process group."""
        if self.alive:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        self._reader.join(10)

    def wait_dead(self, seconds: float = 30) -> None:
        """Wait until the process has ended by itself, as at a crash point."""
        self._process.wait(seconds)
        self._reader.join(10)

    def terminate(self) -> int:
        """SIGTERM, and the exit code."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(20)
        self._reader.join(10)
        return code


async def eventually(check: Callable[[], Coroutine[Any, Any, T | None]], *, seconds: float = 30, what: str = "") -> T:
    """The first thing that is not None (or False) that `check` returns before the deadline."""
    end = time.monotonic() + seconds
    while True:
        found = await check()
        if found:
            return found
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.05)
