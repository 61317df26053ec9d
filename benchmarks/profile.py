"""`python -m benchmarks profile`: where the time of W1 and W4 goes, in Perdure and in the floors.

Three looks at the same steps: what a run that is alone waits for, by its history; whose code holds the worker's
interpreter with runs in flight, by samples; and what is called in PostgreSQL, by its own counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import asyncpg
from temporalio.client import Client

from benchmarks.driver import Contestant, DriverProcess, Place, parse_contestant, running
from benchmarks.findings import scaled
from benchmarks.histories import executions_of
from benchmarks.limits import PERDURE
from benchmarks.samples import sampling, shares
from benchmarks.servers import BenchServers
from benchmarks.spans import spans
from benchmarks.work import WORK
from perdure.uap.session_key import SessionKey

CONTESTANTS = (PERDURE, "floor", "floor+rows")
WORKS = ("W1", "W4")
_WARM, _ALONE, _RUNS, _AT_ONCE = 4, 12, 60, 20
_FUNCTIONS = "select funcname, calls, total_time from pg_stat_user_functions where schemaname = 'perdure'"
_COMMITS = "select xact_commit from pg_stat_database where datname = current_database()"


async def run(servers: BenchServers, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Look at each contestant and work; a row for each figure.

    Args:
        servers: of all.
        options: "scale" of the runs.

    Raises:
        DriverFailed: a contestant did not do its work.
        NoSamples: py-spy is not there or may not look.
    """
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory(prefix="perdure-profile-") as folder:
        for work in WORKS:
            for number, contestant in enumerate(map(parse_contestant, CONTESTANTS)):
                url = await servers.create_database(f"profile {work} {number}")
                await _count_functions(url)
                place = Place(servers.temporal, url, Path(folder) / f"{work}-{number}")
                rows += await Look(contestant, work, place, options).rows()
    return rows


class Look:
    """One contestant at one work."""

    def __init__(self, contestant: Contestant, work: str, place: Place, options: Mapping[str, Any]) -> None:
        """Nothing is started yet."""
        self._contestant, self._work, self._place = contestant, work, place
        self._alone, self._runs = scaled(options, _ALONE), scaled(options, _RUNS)

    async def rows(self) -> list[dict[str, Any]]:
        """What was seen."""
        async with running(self._contestant, self._place) as driver:
            await driver.ask(do="runs", work=self._work, runs=_WARM, at_once=_WARM)
            rows = await self._times(driver) if WORK[self._work].calls == 1 else []
            async with sampling(driver.roles["worker"][0], self._place.folder) as samples:
                await driver.ask(do="runs", work=self._work, runs=self._runs, at_once=_AT_ONCE)
        seen = shares(samples.read_text(encoding="utf-8").splitlines())
        rows += [self._row("interpreter", part, share) for part, share in seen.items()]
        return rows + await self._database()  # its counts are whole when the processes have ended

    async def _times(self, driver: DriverProcess) -> list[dict[str, Any]]:
        done = await driver.ask(do="runs", work=self._work, runs=self._alone, at_once=1)
        client, found = await Client.connect(self._place.temporal), list[dict[str, float]]()
        for ident, latency in zip(done["ids"], done["latencies_ms"], strict=True):
            own = self._contestant.name == PERDURE
            workflow = SessionKey("default", ident).workflow_id if own else ident
            events = [event for each in await executions_of(client, workflow) for event in each.events]
            found.append({"whole": latency, **asdict(spans(events, latency))})
        steps = WORK[self._work].steps
        return [self._row("time", name, median(one[name] for one in found) / steps) for name in found[0]]

    async def _database(self) -> list[dict[str, Any]]:
        runs = _WARM + self._runs + (self._alone if WORK[self._work].calls == 1 else 0)
        steps = runs * WORK[self._work].steps
        connection = await asyncpg.connect(self._place.database_url)
        try:
            called, commits = await connection.fetch(_FUNCTIONS), await connection.fetchval(_COMMITS)
        finally:
            await connection.close()
        rows = [self._row("database", "commits", commits / steps)]
        return rows + [
            {**self._row("function", one["funcname"], one["total_time"] / steps), "calls": one["calls"] / steps}
            for one in called
        ]

    def _row(self, look: str, part: str, value: float) -> dict[str, Any]:
        return {"look": look, "work": self._work, "contestant": self._contestant.name, "part": part, "value": value}


async def _count_functions(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"alter database {urlsplit(url).path.strip('/')} set track_functions = 'all'")
    finally:
        await connection.close()
