"""Interleaved rounds: in each all contestants do the same work, one after another, in an order that turns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.driver import Contestant, DriverProcess, Place, running
from benchmarks.measure import Measurement
from benchmarks.processes import Roles, Sample, cores
from benchmarks.servers import BenchServers, analyze, stored_bytes
from benchmarks.work import WORK

_LOOK_S = 0.25
_QUIET_CORES = 0.1
_QUIET_LOOKS = 2
_LONGEST_S = 15.0


@dataclass(frozen=True)
class Plan:
    """How much is done.

    Attributes:
        contestants: who.
        rounds: how often each does each work.
        runs: of one work in one round, for CPU and bytes.
        at_once: how many of them are in flight.
        alone: runs that are done one after another, for the latency.
        warm: runs at once before all these that are not measured: connections are open then, and plans are made.
        turns: of W5.
        tail_s: seconds after the last run that still count, until the timers of its steps that Temporal keeps have ended.
            Each step sets as many, whatever their time is; with 0 only those that are short are counted.
    """

    contestants: Sequence[Contestant]
    rounds: int = 9
    runs: int = 40
    at_once: int = 20
    alone: int = 3
    warm: int = 20
    turns: int = WORK["W5"].turns
    tail_s: float = 11


@dataclass
class Comparison:
    """The contestants of one run of the benchmark, with their databases and folders.

    A contestant's processes run only while it is measured, so the servers' CPU time is its own.
    """

    servers: BenchServers
    plan: Plan
    places: Mapping[str, Place]
    versions: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    @classmethod
    async def prepare(cls, servers: BenchServers, plan: Plan, folder: Path) -> Comparison:
        """Make a database and a folder for each contestant."""
        places = {
            one.name: Place(
                servers.temporal, await servers.create_database(f"bench {number}"), folder / f"contestant{number}"
            )
            for number, one in enumerate(plan.contestants)
        }
        return cls(servers, plan, places)

    async def rounds(self, work: str) -> AsyncGenerator[Measurement, None]:
        """Measure all contestants on one work, round by round.

        Raises:
            DriverFailed: one did not do its work.
            ProcessGone: one of its processes, or a server, ended.
        """
        for number in range(self.plan.rounds):
            for contestant in rotated(self.plan.contestants, number):
                yield await self._measure(contestant, work, number)

    async def _measure(self, contestant: Contestant, work: str, number: int) -> Measurement:
        place = self.places[contestant.name]
        async with running(contestant, place) as driver:
            self.versions[contestant.name] = driver.versions
            trial = Trial(contestant.name, work, number, self.plan, place, driver, self.servers.pids)
            return await (trial.session() if WORK[work].turns > 1 else trial.runs())


@dataclass(frozen=True)
class Window:
    """What was used from one quiet moment to the next."""

    cpu_ms: Mapping[str, float]
    other_cpu: float


def rotated(contestants: Sequence[Contestant], number: int) -> list[Contestant]:
    """The order of a round: each begins in turn."""
    start = number % len(contestants)
    return [*contestants[start:], *contestants[:start]]


class Trial:
    """One contestant at one work in one round, its driver being ready."""

    def __init__(
        self, contestant: str, work: str, number: int, plan: Plan, place: Place, driver: DriverProcess,
        servers: Mapping[str, Sequence[int]],
    ) -> None:  # fmt: skip
        """Watch the driver's processes and the servers'."""
        self._contestant, self._work, self._round, self._plan = contestant, work, number, plan
        self._place, self._driver = place, driver
        self._roles = Roles({**driver.roles, **servers})

    async def runs(self) -> Measurement:
        """Runs alone, and then many at once."""
        plan, ask = self._plan, partial(self._driver.ask, do="runs", work=self._work)
        await self._warm(partial(ask, runs=plan.warm, at_once=plan.warm))
        alone = await ask(runs=plan.alone, at_once=1)
        request = partial(ask, runs=plan.runs, at_once=plan.at_once)
        return await self._measured(request, at_once=plan.at_once, alone_ms=alone["latencies_ms"])

    async def session(self) -> Measurement:
        """The turns of one session; they are alone by themselves."""
        ask = partial(self._driver.ask, do="turns", work=self._work)
        await self._warm(partial(ask, turns=self._plan.warm))
        return await self._measured(partial(ask, turns=self._plan.turns), at_once=1)

    async def _warm(self, request: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        """Have the driver do what is not measured. A new database is analyzed, as a server would do within minutes."""
        if self._round == 0:
            await request()
            await analyze(self._place.database_url)
        await request()

    async def _measured(
        self, request: Callable[[], Awaitable[dict[str, Any]]], *, at_once: int, alone_ms: Sequence[float] | None = None
    ) -> Measurement:
        """Have the driver do something between two quiet moments."""
        size = await stored_bytes(self._place.database_url)
        before, since = await _quiet(self._roles), time.monotonic()
        done = await request()
        memory = self._roles.memory()
        await asyncio.sleep(self._plan.tail_s)
        used = window(before, await _quiet(self._roles), time.monotonic() - since)
        stored = await self._driver.ask(do="stored", ids=done["ids"])
        grown = await stored_bytes(self._place.database_url) - size
        latencies, runs, steps = done["latencies_ms"], len(done["ids"]), WORK[self._work].steps
        return Measurement(
            contestant=self._contestant, work=self._work, round=self._round, runs=runs, at_once=at_once,
            steps=steps * len(latencies), alone_ms=tuple(latencies if alone_ms is None else alone_ms),
            steps_alone=steps, wall_ms=done["wall_ms"], cpu_ms=used.cpu_ms, other_cpu=used.other_cpu,
            history_bytes=stored["history_bytes"], events=stored["events"], stored_bytes=grown / runs, memory=memory,
        )  # fmt: skip


async def _quiet(roles: Roles) -> Sample:
    """The CPU time once the servers and the contestant have nothing left to do, or after `_LONGEST_S` at the latest."""
    end, quiet, last = time.monotonic() + _LONGEST_S, 0, roles.sample()
    while quiet < _QUIET_LOOKS and time.monotonic() < end:
        since = time.monotonic()
        await asyncio.sleep(_LOOK_S)
        now = roles.sample()
        busy = (sum(now.cpu_ms.values()) - sum(last.cpu_ms.values())) / 1000 / (time.monotonic() - since)
        quiet, last = quiet + 1 if busy < _QUIET_CORES else 0, now
    return last


def window(before: Sample, after: Sample, seconds: float) -> Window:
    """What was used between two samples that are so many seconds apart."""
    spent = {role: after.cpu_ms[role] - before.cpu_ms[role] for role in before.cpu_ms}
    others = after.machine_ms - before.machine_ms - sum(spent.values())
    return Window(spent, min(1.0, max(0.0, others / 1000 / seconds / cores())))
