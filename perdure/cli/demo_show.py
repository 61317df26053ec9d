"""The demo's course: servers, a worker, a run, the kill, another worker, and what came of it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from perdure.cli.demo_figures import Figures, count_stored, first_by, is_quiet, measure_history
from perdure.cli.demo_project.agents import AUDITOR
from perdure.cli.demo_project.ledger import Ledger
from perdure.cli.demo_project.tools import REPORT
from perdure.cli.demo_screen import Screen
from perdure.cli.demo_timeline import Crash, Timeline, spans
from perdure.cli.demo_worker import Workers, worker_environment, workers
from perdure.embedded.servers import Addresses, EmbeddedServers
from perdure.errors import PerdureError, RunError, ServerError
from perdure.runtime.connect import connect
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.store.database import Database
from perdure.store.events import Event

_KILL_AT_STEP = 5
_RUN_SECONDS = 180.0


async def show_demo(folder: Path, files: int, screen: Screen) -> int:
    """Run the whole demo on servers of its own, which are stopped and removed at the end.

    Args:
        folder: what to audit, absolute.
        files: how many files it holds.
        screen: where to show it.

    Returns:
        0 if the run completed, survived the kill and did nothing twice, else 1.

    Raises:
        EmbeddedError: the servers cannot be started.
        ServerUnavailable: a worker does not start.
        RunError: the run failed, or does not end.
    """
    with tempfile.TemporaryDirectory(prefix="perdure-demo-", ignore_cleanup_errors=True) as made:
        work = Path(made)
        screen.working("PostgreSQL and Temporal are starting")
        async with _servers(work) as addresses:
            screen.say("PostgreSQL and Temporal run, the schema is migrated")
            async with (
                workers(worker_environment(folder, work, addresses), work) as crew,
                connect(temporal_address=addresses.temporal, database_url=addresses.database_url) as sessions,
            ):
                problems = await Demo(sessions, crew, Ledger(work), screen, work).show(folder.name, files)
                screen.working("worker and servers are stopping")
    screen.close()
    screen.verdict(problems)
    return 1 if problems else 0


@asynccontextmanager
async def _servers(work: Path) -> AsyncGenerator[Addresses]:
    from perdure.migrations.migrate import migrate  # it loads half a second, while the servers of a worker need none

    async with EmbeddedServers(work) as servers:
        database = Database(servers.addresses.database_url)
        try:
            await migrate(database)
        finally:
            await database.close()
        yield servers.addresses


class Demo:
    """One demo, on servers that run."""

    def __init__(self, sessions: Sessions, crew: Workers, ledger: Ledger, screen: Screen, work: Path) -> None:
        """Show on `screen` what happens to a run of `crew`."""
        self._sessions = sessions
        self._crew = crew
        self._ledger = ledger
        self._screen = screen
        self._work = work
        self._timeline = Timeline()
        self._killed_at: float | None = None

    async def show(self, name: str, files: int) -> list[str]:
        """Do the whole demo on a folder of that name and number of files.

        Returns:
            What went otherwise than the demo promises, in words.
        """
        try:
            await self._start_worker()
            handle = await self._sessions.submit(AUDITOR, f"Audit the TODO comments of {name or '/'}")
            self._screen.say(f"run {handle.id} is submitted")
            # A small folder has few steps; the kill comes in their middle.
            await self._follow(handle, kill_at=min(_KILL_AT_STEP, 1 + files // 2))
            await handle.result()
        except ServerError:
            raise  # it says what the worker said, where that is the reason
        except PerdureError:
            self._screen.last_words(self._crew.current.said())
            raise
        self._screen.close()
        return await self._conclude(handle)

    async def _start_worker(self) -> None:
        self._screen.working("a worker is starting")
        worker = await self._crew.start()
        self._screen.say(f"worker {worker.number} serves (process {worker.pid})", style="cyan")

    async def _follow(self, handle: RunHandle, *, kill_at: int) -> None:
        self._screen.working("the auditor works")
        following = asyncio.create_task(self._show_steps(handle, kill_at), name="show steps")
        lost = asyncio.create_task(self._crew.lost.wait(), name="watch the worker")
        try:
            await asyncio.wait([following, lost], timeout=_RUN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                return following.result()
            reason = "its worker ended by itself" if lost.done() else f"it did not end within {_RUN_SECONDS:g} s"
            raise RunError(f"the demo gives the run up: {reason}", run_id=handle.id)
        finally:
            following.cancel()
            lost.cancel()
            await asyncio.gather(following, lost, return_exceptions=True)

    async def _show_steps(self, handle: RunHandle, kill_at: int) -> None:
        async for event in handle.events():
            done = self._timeline.add(event)
            if done is not None:
                self._screen.step(done)
            if self._killed_at is None and _is_moment(event, kill_at):
                await self._kill(handle)

    async def _kill(self, handle: RunHandle) -> None:
        """Kill the worker if nothing is in flight that would be paid a second time; else leave it to the next moment.

        A model call in flight at a kill is bought again, for nobody can know its answer. So that the demo shows what
        does hold at any kill, the worker is stopped where it stands, its ledger is compared with the store, and only
        then is it killed.
        """
        worker = self._crew.current
        await worker.freeze()
        stored = await count_stored(self._sessions.database, handle.accepted.key, handle.id)
        if not is_quiet(self._ledger.entries(), stored):
            worker.thaw()
            return
        self._killed_at = time.time()
        await worker.kill()
        self._screen.say(
            f"worker {worker.number} is killed: SIGKILL to its process group {worker.pid}, "
            f"after {stored.answers} model calls and {stored.results} tool runs",
            style="bold red",
        )
        await self._start_worker()
        self._screen.working("the auditor works")

    async def _conclude(self, handle: RunHandle) -> list[str]:
        """Show the report, the timeline and the figures of a run that completed; returns what is wrong with them."""
        report = self._work / REPORT
        if report.is_file():
            self._screen.report(report.read_text(encoding="utf-8"))
        entries, crash = self._ledger.entries(), self._crash()
        self._screen.timeline(spans(list(self._timeline.steps.values()), entries, crash))
        key = handle.accepted.key
        figures = Figures(
            run=await handle.status(),
            entries=entries,
            stored=await count_stored(self._sessions.database, key, handle.id),
            history=await measure_history(self._sessions.client, key),
            recovery_s=None if crash is None else crash.recovered_at - crash.at,
            start_s=self._crew.current.start_s,
        )
        self._screen.figures(figures)
        return _problems(figures, has_report=report.is_file())

    def _crash(self) -> Crash | None:
        if self._killed_at is None:
            return None
        killed, successor = self._crew.started[-2:]
        first = first_by(self._ledger.entries(), successor.pid)
        return None if first is None else Crash(killed.number, self._killed_at, first.at)


def _is_moment(event: Event, kill_at: int) -> bool:
    """Whether something has just been stored: the results of the chosen step, or what comes after them."""
    if event.step is None or event.step < kill_at:
        return False
    return event.type == "tool_execution_end" or (event.type == "tool_execution_start" and event.step > kill_at)


def _problems(figures: Figures, *, has_report: bool) -> list[str]:
    found: list[str] = []
    if not has_report:
        found.append("the auditor wrote no report")
    if figures.recovery_s is None:
        found.append("the run ended before the worker could be killed with nothing in flight; try again")
    if figures.duplicates:
        found.append(f"{figures.duplicates} of what was bought or done was bought or done again")
    if not is_quiet(figures.entries, figures.stored):
        found.append("the ledger and the store differ: something that was bought or done is not stored")
    return found
