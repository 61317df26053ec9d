"""The CPU time of processes of this machine that a user names, with all that they have started. Linux only."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import InvalidInput

_PROC = Path("/proc")
_NAME_END = b") "


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """A process and what it started.

    Attributes:
        pid: its id.
        name: of its program.
        cpu_ms: user and system time so far; of processes that it has started too, also if they have ended.
    """

    pid: int
    name: str
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class _Stat:
    name: str
    parent: int
    ticks: int


def read_times(pids: list[int]) -> list[ProcessTime]:
    """The times of processes, in their order.

    Raises:
        InvalidInput: there is no such process, or this system does not tell.
    """
    if not pids:
        return []
    stats = {int(entry.name): stat for entry in _listed() if (stat := _read(entry / "stat")) is not None}
    children: dict[int, list[int]] = defaultdict(list)
    for pid, stat in stats.items():
        children[stat.parent].append(pid)
    return [ProcessTime(pid, _known(stats, pid).name, _ms(stats, children, pid)) for pid in pids]


def _listed() -> list[Path]:
    try:
        return [entry for entry in _PROC.iterdir() if entry.name.isdecimal()]
    except OSError as error:
        raise InvalidInput(f"--pid reads {_PROC}, which this system does not have; leave it out") from error


def _known(stats: dict[int, _Stat], pid: int) -> _Stat:
    if pid not in stats:
        raise InvalidInput(f"--pid {pid}: there is no such process on this machine")
    return stats[pid]


def _ms(stats: dict[int, _Stat], children: dict[int, list[int]], pid: int) -> float:
    tree, found = [pid], 0
    while tree:
        one = tree.pop()
        found += stats[one].ticks
        tree.extend(children[one])
    return found * 1000 / os.sysconf("SC_CLK_TCK")


def _read(path: Path) -> _Stat | None:
    """None for a process that has just ended. Source: proc(5), /proc/pid/stat."""
    try:
        text = path.read_bytes()
    except OSError:
        return None
    begin, _, rest = text.rpartition(_NAME_END)  # the name itself may hold anything
    fields = rest.split()
    name = begin.partition(b"(")[2].decode(errors="replace")
    return _Stat(name, int(fields[1]), sum(int(field) for field in fields[11:15]))
