"""The one-command server: Temporal, PostgreSQL, a worker and the API of one folder, watched over, stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from perdure.embedded.folder import NAME
from perdure.embedded.servers import Addresses, EmbeddedServers, find_running
from perdure.migrations.migrate import migrate
from perdure.runtime.filterable import apply_filterable
from perdure.store.database import Database
from perdure.store.keyring import NO_KEYS, Keyring

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 10.0
_STABLE_S = 10.0
_POLL_S = 0.2

Say = Callable[[str], None]


@dataclass(frozen=True)
class Development:
    """What `develop` is to run.

    Attributes:
        folder: the project; the servers' data are in its `.perdure`.
        worker: the command line of the worker, which finds its servers by the environment.
        patience: how long a process that was told to stop may take; then it is killed.
        api: the command line of the HTTP API, likewise; None for none.
        filterable: the keys of sessions' metadata that lists are filtered by; None leaves them as they are.
        keyring: opens what is sealed.
    """

    folder: Path
    worker: Sequence[str]
    patience: timedelta
    api: Sequence[str] | None = None
    filterable: Collection[str] | None = None
    keyring: Keyring = NO_KEYS

    def processes(self, say: Say) -> list[Kept]:
        """What is to be kept beside the servers, not started yet.

        Args:
            say: told, a line at a time, what becomes of them.
        """
        kept = [Kept("worker", self.worker, self.patience, say, "its runs go on with the next one")]
        if self.api is not None:
            kept.append(Kept("API", self.api, self.patience, say, "its readers go on at the next one"))
        return kept


async def develop(development: Development, say: Say) -> None:
    """Run servers, worker and API until SIGINT, SIGTERM or SIGHUP; then stop worker and API, then the servers.

    A second signal kills what takes its time.

    Args:
        development: what to run.
        say: told, a line at a time, what a person should know.

    Raises:
        EmbeddedError: the servers cannot be had.
        SchemaOutdated: the folder's database belongs to a newer version.
    """
    processes = development.processes(say)
    task = asyncio.current_task()
    assert task is not None, "called in a task"

    def stop() -> None:
        if not task.cancelling():
            task.cancel()
            say("stopping the worker, then the servers")
            return
        for process in processes:
            if process.is_stopping:
                process.kill()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    with contextlib.suppress(asyncio.CancelledError):
        async with _servers(development, say) as servers:
            await watch(servers, processes)
    say("stopped")


@asynccontextmanager
async def _servers(development: Development, say: Say) -> AsyncGenerator[EmbeddedServers]:
    """The folder's servers, migrated; stopped at the end of the block unless another process owns them."""
    folder = development.folder
    place = folder / NAME
    before = await asyncio.to_thread(find_running, folder) if place.is_dir() else None
    say(f"starting Temporal and PostgreSQL in {place}")
    async with EmbeddedServers(folder) as servers:
        if before == servers.addresses:
            say("they were running already and are used as they are; another `perdure dev` here may share them")
        database = Database(servers.addresses.database_url, keyring=development.keyring)
        try:
            old, new = await migrate(database)
            await apply_filterable(database, development.filterable)
        finally:
            await database.close()
        if old != new:
            say(f"the schema went from {old or 'nothing'} to revision {new}")
        say(f"Temporal    {servers.addresses.temporal}")
        say(f"PostgreSQL  {database.address}")
        yield servers


async def watch(servers: EmbeddedServers, processes: Sequence[Kept]) -> None:
    """Keep servers and processes running until cancelled; the processes have ended when this returns.

    Raises:
        EmbeddedError: a server could not be started again.
    """
    try:
        async with asyncio.TaskGroup() as watches:
            watches.create_task(servers.supervise(), name="supervise servers")
            for process in processes:
                watches.create_task(process.keep(lambda: servers.addresses), name=f"keep {process.name}")
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        await asyncio.gather(*(process.stop() for process in processes))


class Kept:
    """A process of ours, started again whenever it ends or the servers have moved."""

    def __init__(self, name: str, command: Sequence[str], patience: timedelta, say: Say, lost: str) -> None:
        """Prepare; nothing is started yet.

        Args:
            name: what people call it.
            command: its command line.
            patience: how long it may take to stop.
            say: told what becomes of it.
            lost: what becomes of its work if it is killed.
        """
        self.name = name
        self._command = command
        self._patience = patience
        self._say = say
        self._lost = lost
        self._process: asyncio.subprocess.Process | None = None
        self.is_stopping = False

    async def keep(self, addresses: Callable[[], Addresses]) -> None:
        """Keep it running, until cancelled. One that ends soon after its start is waited with longer and longer."""
        wait = _FIRST_WAIT_S
        while True:
            started = time.monotonic()
            given = addresses()
            process = self._process = await self._start(given)
            while addresses() == given and not await _ended(process):
                pass
            if process.returncode is None:
                self._say(f"the servers have moved; the {self.name} starts again")
                await self.stop()
                continue
            wait = _FIRST_WAIT_S if time.monotonic() - started > _STABLE_S else wait
            self._say(f"the {self.name} {_how(process.returncode)}; it starts again in {wait:g} s")
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_S)

    async def stop(self) -> None:
        """Ask it to end what it has begun, and kill it if it takes too long."""
        process, self.is_stopping = self._process, True
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(self._patience.total_seconds()):
                    await process.wait()
            except TimeoutError:
                self._say(f"the {self.name} takes too long and is killed; {self._lost}")
                self.kill()
                await process.wait()
        self._process, self.is_stopping = None, False

    def kill(self) -> None:
        """Kill it and what it has started."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _start(self, addresses: Addresses) -> asyncio.subprocess.Process:
        """Start it in a session of its own: a Ctrl-C in the terminal must not stop it before we say so."""
        environment = os.environ | {
            "PERDURE_TEMPORAL_ADDRESS": addresses.temporal,
            "PERDURE_DATABASE_URL": addresses.database_url,
        }
        return await asyncio.create_subprocess_exec(
            *self._command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )


async def _ended(process: asyncio.subprocess.Process) -> bool:
    """Wait a moment for the end of a process; tell whether it came."""
    try:
        async with asyncio.timeout(_POLL_S):
            await process.wait()
    except TimeoutError:
        return False
    return True


def _how(status: int) -> str:
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with exit code {status}"
