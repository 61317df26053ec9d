"""Server processes: spawned, recognised again by a later process, and ended.

A server is known by (pid, start time), which no other process can have, and is recognised by its command line and
its data folder. A zombie is dead: it holds no data and no port.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

from perdure.embedded.account import Account, running_as

_POLL_S = 0.02


@dataclass(frozen=True)
class Kind:
    """How a server's command line looks.

    Attributes:
        program: the executable's name.
        data_flag: the option that only a server of ours has, followed by its data.
        port_flag: the option followed by the port.
        stop_signal: asks for a clean end.
    """

    program: str
    data_flag: str
    port_flag: str
    stop_signal: signal.Signals


@dataclass(frozen=True)
class ServerProcess:
    """A server that runs, or ran."""

    kind: Kind
    pid: int
    started_ticks: int
    port: int
    child: subprocess.Popen[bytes] | None = field(default=None, compare=False, repr=False)

    def is_alive(self) -> bool:
        """Tell whether it still runs."""
        return _started_ticks(self.pid) == self.started_ticks

    def exit_status(self) -> int | None:
        """Return how it ended (negative: the signal), or None if it is not our child or still runs."""
        if self.child is None or self.is_alive():
            return None
        return self.child.wait()  # it is dead, but the thread that reaps it may not have done so yet


@dataclass(frozen=True)
class Launch:
    """All that is needed to spawn a server.

    Attributes:
        kind: what is spawned.
        arguments: the command line, with the executable's path first.
        data: its data folder and working directory.
        account: the user it runs as; None is the user of this process.
        port: where it will listen.
    """

    kind: Kind
    arguments: Sequence[str]
    data: Path
    account: Account | None
    port: int


def spawn(launch: Launch, *, log: int, lock: int) -> ServerProcess:
    """Start a server in a session of its own, so that a Ctrl-C in the terminal does not reach it.

    Args:
        launch: what to start.
        log: the descriptor of its log.
        lock: the descriptor of its data lock, which it inherits and so holds until its last child is gone.
    """
    child = subprocess.Popen(
        list(launch.arguments),
        cwd=launch.data,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        pass_fds=(lock,),
        **running_as(launch.account),
    )
    started = _started_ticks(child.pid, even_zombie=True) or 0
    # The thread reaps the child the moment it ends, whatever the event loop does, and outlives this call's caller.
    threading.Thread(target=child.wait, name=f"reap-{launch.kind.program}", daemon=True).start()
    return ServerProcess(launch.kind, child.pid, started, launch.port, child)


def clean_environment() -> dict[str, str]:
    """Return our environment without what would silently change a server: PGDATA, PGPORT, TEMPORAL_*, files in a home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "TEMPORAL_", "XDG_"))}
    return kept | {"HOME": "/nonexistent"}


def find(kind: Kind, data: Path) -> ServerProcess | None:
    """Return the server that runs on `data`, whoever started it."""
    found = [server for pid in pids() if (server := recognise(pid, kind, data)) is not None]
    # PostgreSQL's children carry its command line for a moment after the fork.
    ids = {server.pid for server in found}
    return next((server for server in found if _parent(server.pid) not in ids), None)


def recognise(pid: int, kind: Kind, data: Path) -> ServerProcess | None:
    """Return the process if it is a live server on this data folder that was started as we start one."""
    started, arguments = _started_ticks(pid), _command_line(pid)
    port = _value(arguments, kind.port_flag)
    if started is None or port is None or not port.isdecimal() or _value(arguments, kind.data_flag) is None:
        return None
    return ServerProcess(kind, pid, started, int(port)) if works_on(pid, kind, data) else None


def pids() -> list[int]:
    """Return the ids of all processes."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def works_on(pid: int, kind: Kind, data: Path) -> bool:
    """Tell whether a live process of this kind works on `data`, however it was started.

    The working directory decides, by inode, so that a renamed or deleted folder is noticed. In a container root may
    not look into another user's process; then the command line has to do, and in doubt the answer is yes.
    """
    arguments = _command_line(pid)
    if _started_ticks(pid) is None or not arguments or Path(arguments[0]).name != kind.program:
        return False
    try:
        return os.path.samestat(Path(f"/proc/{pid}/cwd").stat(), data.stat())
    except PermissionError:
        place = _value(arguments, kind.data_flag)
        return place is None or Path(place) == data
    except OSError:
        return False


def end(servers: Sequence[ServerProcess], *, grace: timedelta) -> None:
    """End servers together: asked first, killed if they have not ended within `grace`. Blocks."""
    for server in servers:
        _send(server, server.kind.stop_signal)
    if not _all_ended(servers, grace):
        for server in servers:
            _send(server, signal.SIGKILL)
        _all_ended(servers, timedelta(seconds=5))


def _all_ended(servers: Sequence[ServerProcess], within: timedelta) -> bool:
    deadline = time.monotonic() + within.total_seconds()
    while any(server.is_alive() for server in servers):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _send(server: ServerProcess, number: signal.Signals) -> None:
    if server.is_alive():
        try:
            os.kill(server.pid, number)
        except ProcessLookupError:
            return  # it ended in between


def _command_line(pid: int) -> list[str]:
    try:
        return [os.fsdecode(part) for part in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    except OSError:
        return []


def _value(arguments: Sequence[str], flag: str) -> str | None:
    for name, value in pairwise(arguments):
        if name == flag:
            return value
    return None


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat from the third on; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _started_ticks(pid: int, *, even_zombie: bool = False) -> int | None:
    fields = _stat(pid)
    if not fields or (fields[0] in "ZXx" and not even_zombie):
        return None
    return int(fields[19])


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None
