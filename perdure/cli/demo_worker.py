"""The demo's worker: a process of its own, which can be stopped dead, looked at, and killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from perdure.cli.demo_project.agents import FOLDER_VARIABLE, WORK_VARIABLE
from perdure.config import Settings
from perdure.embedded.servers import Addresses
from perdure.errors import ServerUnavailable

_APP = "perdure.cli.demo_project.agents:app"
_READY = "worker ready"
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_TAIL_LINES = 15


def worker_environment(folder: Path, work: Path, addresses: Addresses) -> dict[str, str]:
    """This process's environment with the demo's servers and folders, and without the user's settings of Perdure."""
    settings = {f"PERDURE_{name.upper()}" for name in Settings.model_fields}
    kept = {name: value for name, value in os.environ.items() if name.upper() not in settings}
    return {
        **kept,
        "PERDURE_TEMPORAL_ADDRESS": addresses.temporal,
        "PERDURE_DATABASE_URL": addresses.database_url,
        FOLDER_VARIABLE: str(folder),
        WORK_VARIABLE: str(work),
    }


class Worker:
    """One worker process, the only one of its process group."""

    def __init__(self, process: asyncio.subprocess.Process, number: int, lost: asyncio.Event) -> None:
        """Watch a process that has just been started; `lost` is set if it ends without having been told to."""
        self._process = process
        self._lost = lost
        self._told = False
        self._said: list[str] = []
        self._ready = asyncio.Event()
        self._reading = asyncio.create_task(self._read(), name=f"read what worker {number} says")
        self._began = time.monotonic()
        self.number = number
        self.pid = process.pid
        self.start_s = 0.0

    async def _read(self) -> None:
        assert self._process.stderr is not None, "started with a pipe"
        async for line in self._process.stderr:
            self._said.append(line.decode(errors="replace").rstrip())
            if self._said[-1].startswith(_READY):
                self._ready.set()
        self._ready.set()
        if not self._told:
            self._lost.set()

    async def wait_ready(self) -> None:
        """Return when it serves, and note how long that took.

        Raises:
            ServerUnavailable: it has ended, or takes too long; the message holds what it said.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                await self._ready.wait()
        if not any(line.startswith(_READY) for line in self._said):
            raise ServerUnavailable(f"the demo's worker did not start. It said:\n{self.said()}")
        self.start_s = time.monotonic() - self._began

    def said(self) -> str:
        """The last lines that it wrote to its standard error."""
        return "\n".join(self._said[-_TAIL_LINES:]) or "(nothing)"

    async def freeze(self) -> None:
        """Stop the process where it stands; when this returns it does nothing any more."""
        os.killpg(self.pid, signal.SIGSTOP)
        await asyncio.to_thread(os.waitid, os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        os.killpg(self.pid, signal.SIGCONT)

    async def kill(self) -> None:
        """SIGKILL the process group, if it still runs."""
        self._told = True
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        await self._process.wait()
        await self._reading

    async def stop(self) -> None:
        """End it as a deployment does: SIGTERM, and SIGKILL only if that does not help."""
        self._told = True
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._process.wait()


class Workers:
    """The demo's workers; at most one runs at a time.

    Attributes:
        started: all of them, oldest first.
        lost: set once one has ended without having been told to.
    """

    def __init__(self, environment: Mapping[str, str], work: Path) -> None:
        """Start workers in `work` with this environment."""
        self._environment = environment
        self._work = work
        self.lost = asyncio.Event()
        self.started: list[Worker] = []

    @property
    def current(self) -> Worker:
        """The one that was started last."""
        return self.started[-1]

    async def start(self) -> Worker:
        """Start a worker and return it when it serves.

        Raises:
            ServerUnavailable: it does not start; the message says what it said.
        """
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "perdure.cli.main", "worker", _APP),
            cwd=self._work,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self.started.append(Worker(process, len(self.started) + 1, self.lost))
        await self.current.wait_ready()
        return self.current


@asynccontextmanager
async def workers(environment: Mapping[str, str], work: Path) -> AsyncGenerator[Workers]:
    """Workers, none of which outlives the block."""
    crew = Workers(environment, work)
    try:
        yield crew
        for worker in crew.started:
            await worker.stop()
    finally:
        for worker in crew.started:
            await worker.kill()
