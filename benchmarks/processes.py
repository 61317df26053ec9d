"""CPU time and memory of processes by role, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


class ProcessGone(Exception):
    """A process that is being measured has ended."""


@dataclass(frozen=True)
class Memory:
    """Of all processes of a role.

    Attributes:
        pss_bytes: resident, shared pages counted by their share.
        rss_bytes: resident, shared pages counted in each process.
    """

    pss_bytes: int
    rss_bytes: int


@dataclass(frozen=True)
class Sample:
    """CPU time used so far.

    Attributes:
        cpu_ms: user and system time by role, with that of children that have ended.
        machine_ms: of all processes of the machine together.
    """

    cpu_ms: Mapping[str, float]
    machine_ms: float


@dataclass(frozen=True)
class _Stat:
    parent: int
    started: int
    cpu_ms: float


class Roles:
    """The processes of an experiment. A process belongs to the role of its nearest ancestor that has one."""

    def __init__(self, roots: Mapping[str, Sequence[int]]) -> None:
        """Watch these processes, by role, and all that they start.

        Raises:
            ProcessGone: one does not run.
        """
        self._roots = {pid: role for role, pids in roots.items() for pid in pids}
        self._started = {pid: self._of(pid).started for pid in self._roots}

    def sample(self) -> Sample:
        """The CPU time used until now.

        Raises:
            ProcessGone: one of the processes has ended since, so its time is lost.
        """
        stats = self._stats()
        cpu = dict.fromkeys(self._roots.values(), 0.0)
        for pid, role in _by_role(stats, self._roots):
            cpu[role] += stats[pid].cpu_ms
        return Sample(cpu, _machine_ms())

    def memory(self) -> dict[str, Memory]:
        """The memory in use now, by role.

        Raises:
            ProcessGone: one of the processes has ended.
        """
        found = {role: Memory(0, 0) for role in self._roots.values()}
        for pid, role in _by_role(self._stats(), self._roots):
            own = _memory(pid)
            found[role] = Memory(found[role].pss_bytes + own.pss_bytes, found[role].rss_bytes + own.rss_bytes)
        return found

    def _stats(self) -> dict[int, _Stat]:
        stats = {pid: stat for pid in _pids() if (stat := _read(pid)) is not None}
        for pid, started in self._started.items():
            if pid not in stats or stats[pid].started != started:
                raise ProcessGone(f"the {self._roots[pid]} process {pid} has ended")
        return stats

    def _of(self, pid: int) -> _Stat:
        stat = _read(pid)
        if stat is None:
            raise ProcessGone(f"the {self._roots[pid]} process {pid} does not run")
        return stat


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def _by_role(stats: Mapping[int, _Stat], roots: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    for pid in stats:
        at: int | None = pid
        while at is not None and at not in roots:
            at = stats[at].parent if at in stats else None
        if at is not None:
            yield pid, roots[at]


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal())


def _read(pid: int) -> _Stat | None:
    """A process' line; None if it does not run, as a zombie does not."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in "ZX":
        return None
    return _Stat(parent=int(fields[1]), started=int(fields[19]), cpu_ms=sum(map(int, fields[11:15])) * _TICK_MS)


def _machine_ms() -> float:
    """All CPU time that was used or taken by other machines: neither idle nor waiting for a disk."""
    user, nice, system, _, _, irq, softirq, steal = map(int, (_PROC / "stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + irq + softirq + steal) * _TICK_MS


def _memory(pid: int) -> Memory:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return Memory(0, 0)
    sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    return Memory(sizes.get("Pss", 0), sizes.get("Rss", 0))
