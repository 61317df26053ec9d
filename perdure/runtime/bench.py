"""Running an agent many times and taking the time. What the runs cost besides time is read afterwards, in `bench_costs`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from perdure.activities import contracts
from perdure.errors import PerdureError, ServerUnavailable
from perdure.runtime.checks.servers import is_served
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.agents import find_agent
from perdure.uap.events import RUN_TERMINAL
from perdure.uap.ids import new_id
from perdure.upp.json_value import JSONObject

NEW_SESSION = "new"
_NOBODY_ANSWERS = (contracts.APPROVAL, contracts.CLIENT_TOOL, contracts.PAYMENT, contracts.OUTCOME, "paused")
_CANCELLED: JSONObject = {"type": "RunCancelled", "message": "the run was cancelled"}


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What is to be run.

    Attributes:
        agent: its name.
        text: the input of every run.
        runs: how many.
        at_once: how many of them at a time; 1 in one session.
        session: the session that all runs are in, one after another, `NEW_SESSION` for one that is opened; None for
            one of its own for each.
        limit_s: seconds after which a run is cancelled and counts as failed.
    """

    agent: str
    text: str
    runs: int
    at_once: int
    session: str | None
    limit_s: float


@dataclass(frozen=True, slots=True)
class BenchRun:
    """A run that has ended.

    Attributes:
        id: its id.
        session: its session.
        status: "completed", "failed" or "cancelled".
        steps: its own, without those of sub-agents.
        latency_ms: from before its input was handed in until its end was told here.
        first_step_ms: likewise until its first step had begun; None if it took no step.
        error: {"type", "message"} of one that did not complete.
    """

    id: str
    session: str
    status: str
    steps: int
    latency_ms: float
    first_step_ms: float | None
    error: JSONObject | None = None


@dataclass(slots=True)
class BenchProgress:
    """How far it is.

    Attributes:
        begun: runs of which an event has come.
        ended: in the order of their ends.
        cancelled: runs that were cancelled since nobody waits for them any more.
        wall_s: seconds from the first input to the last end.
    """

    begun: int = 0
    ended: list[BenchRun] = field(default_factory=list[BenchRun])
    cancelled: list[str] = field(default_factory=list[str])
    wall_s: float = 0.0


async def check_served(sessions: Sessions, agent: str) -> None:
    """See that an agent is registered and that a worker asks for its work.

    Raises:
        UnknownAgent: no worker has registered it.
        ServerUnavailable: none serves its task queue now.
    """
    row = await find_agent(sessions.database, sessions.tenant, agent)
    if not await is_served(sessions.client, row.task_queue):
        raise ServerUnavailable(
            f"no worker serves the task queue {row.task_queue!r} of agent {agent!r}; start one: `perdure worker MODULE:APP`"
        )


async def run_bench(sessions: Sessions, plan: BenchPlan, progress: BenchProgress) -> None:
    """Run it; `progress` says how far it is, and in the end how it went. Cancelled, it cancels the runs that are open.

    Raises:
        UserError: an input was refused, as `Sessions.submit` says; runs that are open are cancelled.
        ServerUnavailable: the database does not answer.
    """
    session = new_id() if plan.session == NEW_SESSION else plan.session
    bench = _Bench(sessions, plan, session, progress)
    began = time.perf_counter()
    numbers = iter(range(plan.runs))
    lanes = [asyncio.create_task(bench.take(numbers)) for _ in range(plan.at_once)]
    try:
        await asyncio.wait(lanes, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for lane in lanes:
            lane.cancel()
        ends = await asyncio.gather(*lanes, return_exceptions=True)
        progress.wall_s = time.perf_counter() - began
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
            raise end


class _Bench:
    """One benchmark that goes on."""

    def __init__(self, sessions: Sessions, plan: BenchPlan, session: str | None, progress: BenchProgress) -> None:
        self._sessions = sessions
        self._plan = plan
        self._session = session
        self._progress = progress

    async def take(self, numbers: Iterator[int]) -> None:
        """Make runs one after another until none are left."""
        for _ in numbers:
            await self._run()

    async def _run(self) -> None:
        began = time.perf_counter()
        # A submit that is cut off may have been stored: its handle is waited for, so that the run can be cancelled.
        submitting = asyncio.create_task(
            self._sessions.submit(
                self._plan.agent, self._plan.text, session=self._session, create=self._plan.session == NEW_SESSION,
                title=f"perdure bench {self._plan.agent}" if self._plan.session in (None, NEW_SESSION) else None,
            )
        )  # fmt: skip
        try:
            handle = await asyncio.shield(submitting)
            ended = await self._follow(handle, began)
        except BaseException:
            await self._give_up(submitting)
            raise
        self._progress.ended.append(ended)

    async def _give_up(self, submitting: asyncio.Task[RunHandle]) -> None:
        """Cancel the run that was handed in, if it was."""
        [handle] = await asyncio.gather(submitting, return_exceptions=True)
        if isinstance(handle, RunHandle) and await self._cancel(handle):
            self._progress.cancelled.append(handle.id)

    async def _cancel(self, handle: RunHandle) -> bool:
        """Whether it is cancelled, or will be. One that cannot be must not keep the others from it."""
        try:
            return (await self._sessions.cancel(handle.session, run=handle.id)).state in ("cancelled", "recorded")
        except PerdureError:
            return False

    async def _follow(self, handle: RunHandle, began: float) -> BenchRun:
        """Wait for the run's end, or for what shows that it will not end by itself."""
        clock = _Clock(began)
        try:
            async with asyncio.timeout(self._plan.limit_s):
                stopped = await self._listen(handle, clock)
        except TimeoutError:
            stopped = f"it had not ended after {self._plan.limit_s:g} s"
        if stopped is not None:
            await self._cancel(handle)
            return BenchRun(
                handle.id, handle.session, "cancelled", 0, clock.ms(), clock.first_step_ms,
                {"type": "BenchStopped", "message": f"{stopped}; it was cancelled"},
            )  # fmt: skip
        row = await handle.status()
        error = _CANCELLED if row.status == "cancelled" else row.error
        return BenchRun(row.id, handle.session, row.status, row.step, clock.ended_ms, clock.first_step_ms, error)

    async def _listen(self, handle: RunHandle, clock: _Clock) -> str | None:
        """Returns None at the run's end, else why it is not waited for."""
        async with aclosing(handle.events()) as events:
            async for event in events:
                if event.type == "run.started":
                    self._progress.begun += 1
                elif event.type == "step_start":
                    clock.step()
                elif event.type in RUN_TERMINAL:
                    clock.end()
                elif event.type == "run.parked" and event.data.get("reason") in _NOBODY_ANSWERS:
                    return f"it waits, and nobody answers here: {event.data['reason']}"
        return None


@dataclass(slots=True)
class _Clock:
    """When something of a run was told here."""

    began: float
    first_step_ms: float | None = None
    ended_ms: float = 0.0

    def ms(self) -> float:
        """Milliseconds since the input was handed in."""
        return (time.perf_counter() - self.began) * 1000

    def step(self) -> None:
        if self.first_step_ms is None:
            self.first_step_ms = self.ms()

    def end(self) -> None:
        self.ended_ms = self.ms()
