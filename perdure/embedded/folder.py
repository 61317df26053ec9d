"""The layout of `.perdure/`, and the checks that come before anything is started in it."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import EmbeddedError

NAME = ".perdure"
NEEDED_BYTES = 128 * 2**20  # a new PostgreSQL cluster takes 40 MB and its log 16 MB at a time
_LOG_LIMIT_BYTES = 10 * 2**20
_LONGEST_PATH_BYTES = 440  # SQLite refuses paths of more than 512 bytes


@dataclass(frozen=True)
class Folder:
    """The `.perdure` folder of one project.

    Attributes:
        path: the absolute path of `.perdure` itself.
    """

    path: Path

    @classmethod
    def of(cls, project: Path) -> Folder:
        """Return the folder that belongs to a project; nothing is made or checked."""
        return cls(project.resolve() / NAME)

    @property
    def record(self) -> Path:
        """`servers.json`."""
        return self.path / "servers.json"

    @property
    def versions(self) -> Path:
        """`versions.json`: which server version last wrote the data."""
        return self.path / "versions.json"

    @property
    def start_lock(self) -> Path:
        """Held while servers are started or stopped."""
        return self.path / "lock"

    @property
    def owner_lock(self) -> Path:
        """Held for life by the process that will stop the servers."""
        return self.path / "owner"

    def data(self, name: str) -> Path:
        """Return the data folder of the server of that name."""
        return self.path / name

    def data_lock(self, name: str) -> Path:
        """Return the lock that a running server holds itself."""
        return self.path / f"{name}.lock"

    def unfinished(self, name: str) -> Path:
        """Return the mark that says that the data's making was begun and not ended."""
        return self.path / f"{name}.unfinished"

    def log(self, name: str) -> Path:
        """Return the log file of the server of that name."""
        return self.path / "logs" / f"{name}.log"

    def open(self) -> None:
        """Make the folder if it is missing and see that servers can live in it.

        Raises:
            EmbeddedError: it cannot be used; the message says why.
        """
        if not self.path.parent.is_dir():
            raise EmbeddedError(f"{self.path.parent} is no folder. Make it first, or name another one.")
        if len(os.fsencode(self.path)) > _LONGEST_PATH_BYTES:
            raise EmbeddedError(f"The path {self.path} is too long for SQLite. Use a folder with a shorter path.")
        with storage_errors(self.path):
            self.path.mkdir(exist_ok=True)
            (self.path / "logs").mkdir(exist_ok=True, mode=0o700)
            if not (ignored := self.path / ".gitignore").exists():
                ignored.write_text("*\n", encoding="utf-8")

    def open_log(self, name: str) -> int:
        """Return a descriptor that appends to the server's log; a log over 10 MB becomes `<name>.log.1` first."""
        log = self.log(name)
        if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
            log.replace(log.with_suffix(".log.1"))
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def require_space(path: Path, *, free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free) -> None:
    """See that the disk has room for a start.

    Raises:
        EmbeddedError: it has not.
    """
    free = free_bytes(path)
    if free < NEEDED_BYTES:
        raise EmbeddedError(
            f"The disk of {path} is full: {free // 2**20} MB are free, the servers need {NEEDED_BYTES // 2**20} MB. "
            "Free some space, or use a folder on another disk."
        )


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """Turn what the operating system says about `path` into an EmbeddedError with a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EmbeddedError(f"The disk of {path} is full. Free some space. ({error})") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise EmbeddedError(
                f"{path} cannot be read and written by user {_user_name(os.geteuid())}{_owner_of(path)}: {error}. "
                "Use a folder of your own, or run as the user who made it."
            ) from error
        raise EmbeddedError(f"{path} cannot be used: {error}") from error


def _owner_of(path: Path) -> str:
    try:
        return f" (it belongs to {_user_name(path.stat().st_uid)})"
    except OSError:
        return ""


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
