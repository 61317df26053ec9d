"""Holding a run: while its session is paused, or until somebody has answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from temporalio import workflow

from perdure.uap.events import run_event
from perdure.upp.json_value import JSONObject
from perdure.workflows.outbox import Recorder

PAUSED = "paused"
_CLOCKS = timedelta(milliseconds=50)
"""So much later than the store expects it a wait counts as expired: the store's clock decides."""


class Gate(Protocol):
    """What the session tells the effects of its run."""

    @property
    def paused(self) -> bool:
        """Whether the session is paused."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the run is to be cancelled."""
        ...

    def answered(self, wait: str) -> bool:
        """Whether a wait's answer has been signalled."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a control is being handled, which must end before the execution may."""
        ...

    def use_answer(self, wait: str) -> None:
        """The answer to a wait has been taken."""
        ...

    def due_to_leave(self) -> bool:
        """Whether this execution should continue as new as soon as nothing is in hand."""
        ...

    def leave(self) -> None:
        """Continue as new now if nothing is in hand; returns only if something is."""
        ...


class Parking:
    """Parks a run and says so in the log: `run.parked`, `run.resumed`, and the run's status."""

    def __init__(self, run: str, gate: Gate, recorder: Recorder, carried: list[JSONObject]) -> None:
        """Park `run` by what `gate` says; `carried` is what an execution before this one had parked."""
        self._carried = carried
        self._run = run
        self._gate = gate
        self.recorder = self._recorder = recorder
        self._details: list[JSONObject] = []
        self._count: dict[str, int] = {}

    @property
    def reason(self) -> str | None:
        """Why the run is parked; the first of several reasons."""
        return str(self._details[0]["reason"]) if self._details else None

    @property
    def details(self) -> list[JSONObject]:
        """What its open `run.parked` events say, oldest first."""
        return list(self._details)

    async def resume_carried(self) -> None:
        """Say that what an execution before this one had parked goes on; it parks again if it has to."""
        carried, self._carried = self._carried, []
        for place, detail in enumerate(carried):
            await self._recorder.note(
                f"carried:{place}", run_event("run.resumed", detail), run=self._run, status="running"
            )

    def check_cancelled(self) -> None:
        """Raise what ends a strategy if the run is to be cancelled."""
        if self._gate.cancelled:
            raise asyncio.CancelledError

    async def hold(self) -> None:
        """Wait while the session is paused; several callers may, one of them says so in the log."""
        self.check_cancelled()
        while self._gate.paused:
            if any(detail["reason"] == PAUSED for detail in self._details):
                await self._until(lambda: not self._gate.paused or self._gate.cancelled)
            else:
                await self._park(PAUSED, lambda: not self._gate.paused)
            self.check_cancelled()

    async def sleep(self, pause: timedelta) -> None:
        """Let time pass, unless the run is cancelled meanwhile."""
        try:
            await workflow.wait_condition(lambda: self._gate.cancelled, timeout=pause)
        except TimeoutError:
            return
        self.check_cancelled()

    async def wait_for_answer(
        self, wait: dict[str, Any], *, expires_s: float | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        """Open a wait and return once it is answered.

        Args:
            wait: the wait.
            expires_s: seconds after which it has answered itself; None for never.
            stopped: nobody waits for the answer any more.
        """
        opened: list[str] = []

        def answered() -> bool:
            return bool(opened) and self._gate.answered(opened[0])

        limit = None if expires_s is None else timedelta(seconds=expires_s) + _CLOCKS
        await self._park(str(wait["kind"]), lambda: answered() or stopped(), wait=wait, opened=opened, limit=limit)
        if answered():
            self._gate.use_answer(opened[0])

    async def _park(
        self,
        reason: str,
        ready: Callable[[], bool],
        *,
        wait: dict[str, Any] | None = None,
        opened: list[str] | None = None,
        limit: timedelta | None = None,
    ) -> None:
        name = self._name(str(wait["id"]) if wait else reason)
        detail: JSONObject = {"reason": reason}
        self._details.append(detail)
        try:
            # A wait's event is made where its row is: only the store knows whether an earlier wait is still open.
            events = [] if wait else [run_event("run.parked", detail)]
            ident = await self._recorder.note(f"{name}:parked", *events, run=self._run, status="parked", wait=wait)
            if opened is not None and ident is not None:
                opened.append(ident)
                detail["wait"] = ident
            await self._until(lambda: ready() or self._gate.cancelled, limit)
        finally:
            self._details = [item for item in self._details if item is not detail]
        self.check_cancelled()
        status = "parked" if self._details else "running"
        await self._recorder.note(f"{name}:resumed", run_event("run.resumed", detail), run=self._run, status=status)

    def _name(self, about: str) -> str:
        """What this parking is about, and the how manieth it is of its kind."""
        self._count[about] = self._count.get(about, 0) + 1
        return f"{self._run}:{about}:{self._count[about]}"

    async def _until(self, ready: Callable[[], bool], limit: timedelta | None = None) -> None:
        """Wait, at most so long; meanwhile the execution may continue as new, and whatever waits here waits again there."""
        end = None if limit is None else workflow.now() + limit
        while not ready():
            left = None if end is None else end - workflow.now()
            if left is not None and left <= timedelta(0):
                return
            try:
                await workflow.wait_condition(
                    lambda: ready() or (self._gate.due_to_leave() and not self._gate.busy), timeout=left
                )
            except TimeoutError:
                return
            if not ready():
                self._gate.leave()
