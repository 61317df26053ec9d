"""Temporal and PostgreSQL of one project folder: started or reused, watched over, stopped."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import TracebackType

from perdure.embedded import locks, ports
from perdure.embedded.folder import Folder, storage_errors
from perdure.embedded.launch import GRACE, Wish, bring_up, in_thread
from perdure.embedded.postgres import Postgres
from perdure.embedded.process import ServerProcess, end, find, recognise
from perdure.embedded.record import PostgresRecord, ServersRecord, TemporalRecord, read_record, write_private
from perdure.embedded.temporal import Temporal
from perdure.errors import EmbeddedError

_OTHERS_START = timedelta(seconds=120)
_POLL_S = 0.05
_STABLE_S = 1.0
_MOST_FAILURES = 5
_WAIT_S = 0.2
_LONGEST_WAIT_S = 2.0
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Addresses:
    """Where the servers are.

    Attributes:
        temporal: host and port, as `temporalio` takes them.
        database_url: `postgresql://user:password@host:port/database`.
    """

    temporal: str
    database_url: str


class EmbeddedServers:
    """Temporal and PostgreSQL of one folder.

    Several processes may use one folder. The first is the owner and stops the servers when it stops; when it is gone
    without having done so, the next one that starts or supervises becomes the owner. A dead server is started again
    by whichever supervisor is first.

    The servers do not see a Ctrl-C. Whoever runs this turns SIGINT, SIGTERM and SIGHUP into a cancellation of the task
    that holds the `async with` (asyncio does so for SIGINT). If nothing else does, the interpreter's end stops them.

    Args:
        folder: the project's folder; the data are in its `.perdure`.
        temporal_port: the only port that will do; by default the last one, or a free one.
        postgres_port: likewise.

    Attributes:
        addresses: where the servers are; set by `start`, and anew when a restart had to take another port.
        pids: their process ids, by "temporal" and "postgres".
    """

    addresses: Addresses
    pids: dict[str, int]

    def __init__(self, folder: Path, *, temporal_port: int | None = None, postgres_port: int | None = None) -> None:
        self._folder = Folder.of(folder)
        self._fixed = {"temporal": temporal_port, "postgres": postgres_port}
        self._ownership: int | None = None
        self._processes: list[ServerProcess] = []
        self.pids = {}
        self._owning_process = 0
        self._wanted = False  # between start and stop: a supervision that is late brings nothing back

    async def __aenter__(self) -> EmbeddedServers:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> Addresses:
        """Return the addresses once both servers do their work, whether they were started or already ran.

        Raises:
            EmbeddedError: they cannot be had; nothing that this call started is left running.
        """
        await in_thread(self._folder.open)
        self._wanted = True
        try:
            await self._bring_up()
            return self.addresses
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the servers if this object owns them; they get 10 s to end cleanly, then they are killed."""
        self._wanted = False
        if self._ownership is not None:
            waited = "a start is under way and takes too long"
            try:
                async with locks.locked(self._folder.start_lock, within=GRACE, otherwise=waited):
                    await in_thread(self._stop)
            except (EmbeddedError, OSError) as error:
                _logger.warning("embedded.lock_missed path=%s error=%s", self._folder.start_lock, error)
                await in_thread(self._stop)
        self._processes = []

    async def supervise(self) -> None:
        """Start a server again whenever it dies between `start` and `stop`; runs until cancelled.

        Raises:
            EmbeddedError: it could not be started five times in a row, over some three seconds.
        """
        soon = 0  # deaths in a row that came soon after the start
        since = time.monotonic()
        while True:
            while not self._wanted or all(process.is_alive() for process in self._processes):
                if self._wanted:
                    self._become_owner()
                await asyncio.sleep(_POLL_S)
            soon = soon + 1 if time.monotonic() - since < _STABLE_S else 0
            await asyncio.sleep(min(soon * _WAIT_S, _LONGEST_WAIT_S))
            await self._bring_back()
            since = time.monotonic()

    async def _bring_back(self) -> None:
        dead = ",".join(process.kind.program for process in self._processes if not process.is_alive())
        for failures in count(1):
            try:
                await self._bring_up()
            except EmbeddedError:
                if failures == _MOST_FAILURES:
                    raise
                _logger.warning("embedded.restart_failed name=%s failures=%d", dead, failures)
                await asyncio.sleep(min(_WAIT_S * 2 ** (failures - 1), _LONGEST_WAIT_S))
            else:
                if self._wanted:
                    _logger.warning("embedded.server_restarted name=%s", dead)
                return

    async def _bring_up(self) -> None:
        waited = f"Another process has been starting or stopping the servers of {self._folder.path} for too long."
        with storage_errors(self._folder.path):
            async with locks.locked(self._folder.start_lock, within=_OTHERS_START, otherwise=waited):
                if self._wanted:
                    self._become_owner()
                    await self._bring_up_both(await in_thread(lambda: read_record(self._folder.record)))

    async def _bring_up_both(self, last: ServersRecord) -> None:
        postgres = Postgres(self._folder, last.postgres.url if last.postgres else None)
        temporal = Temporal(self._folder)
        # Each goes on if the other fails: all that is wrong is said at once, and a recovery is not broken off.
        first, second = await asyncio.gather(
            self._one(temporal, last.temporal), self._one(postgres, last.postgres), return_exceptions=True
        )
        if isinstance(first, BaseException) or isinstance(second, BaseException):
            raise _merged([error for error in (first, second) if isinstance(error, BaseException)])
        self._processes = [first, second]
        addresses = Addresses(temporal.address(first.port), postgres.url(second.port))
        record = ServersRecord(
            temporal=TemporalRecord(address=addresses.temporal, port=first.port, pid=first.pid),
            postgres=PostgresRecord(url=addresses.database_url, port=second.port, pid=second.pid),
        )
        if record != last:
            await in_thread(lambda: write_private(self._folder.record, record.model_dump_json(indent=2)))
        self.addresses, self.pids = addresses, {"temporal": first.pid, "postgres": second.pid}

    async def _one(self, server: Temporal | Postgres, last: TemporalRecord | PostgresRecord | None) -> ServerProcess:
        wish = Wish(
            fixed_port=self._fixed[server.name],
            last_port=last.port if last else None,
            may_stop=self._ownership is not None,
        )
        return await bring_up(server, self._folder, wish)

    def _become_owner(self) -> None:
        """Take the ownership if nobody has it."""
        if self._ownership is None:
            with storage_errors(self._folder.path):
                self._ownership = locks.try_lock(self._folder.owner_lock)
            if self._ownership is not None:
                self._owning_process = os.getpid()
                atexit.register(self._stop_at_exit)

    def _stop(self) -> None:
        """Stop whatever runs on the data, also what a cancelled start left, and give the ownership up."""
        found = [find(server.kind, self._folder.data(server.name)) for server in (Temporal, Postgres)]
        # What is known besides may work in a folder that has been deleted.
        known = {server.pid: server for server in (*self._processes, *found) if server is not None}
        end(list(known.values()), grace=GRACE)
        record = read_record(self._folder.record)
        try:
            if record != record.stopped():
                write_private(self._folder.record, record.stopped().model_dump_json(indent=2))
        except OSError as error:  # a full disk; the pids that stay in it are recognised as dead
            _logger.warning("embedded.record_not_written path=%s error=%s", self._folder.record, error)
        self._disown()

    def _disown(self) -> None:
        if self._ownership is not None:
            os.close(self._ownership)
            self._ownership = None
        atexit.unregister(self._stop_at_exit)

    def _stop_at_exit(self) -> None:
        if os.getpid() == self._owning_process:  # a forked child is not the owner
            self._stop()


def _merged(errors: Sequence[BaseException]) -> BaseException:
    """Return one error that says all that was refused; anything else goes first, for it is less expected."""
    others = [error for error in errors if not isinstance(error, EmbeddedError)]
    if others or len(errors) == 1:
        return (*others, *errors)[0]
    return EmbeddedError("\n".join(dict.fromkeys(str(error) for error in errors)))


def find_running(folder: Path) -> Addresses | None:
    """Return the addresses of the servers of `folder`, or of the nearest folder above that has any, if they run.

    Raises:
        EmbeddedError: they belong to another user, so their addresses cannot be read.
    """
    start = folder.resolve()
    for project in (start, *start.parents):
        place = Folder.of(project)
        with storage_errors(place.path):
            if place.record.exists():
                return _live_addresses(place, read_record(place.record))
    return None


def _live_addresses(folder: Folder, record: ServersRecord) -> Addresses | None:
    temporal, postgres = record.temporal, record.postgres
    if temporal is None or postgres is None or temporal.pid is None or postgres.pid is None:
        return None
    for kind, pid, port in ((Temporal, temporal.pid, temporal.port), (Postgres, postgres.pid, postgres.port)):
        if not recognise(pid, kind.kind, folder.data(kind.name)) or not ports.answers(port):
            return None
    return Addresses(temporal.address, postgres.url)
