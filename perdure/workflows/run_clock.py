"""A run's time, by the workflow's clock: without that in which the run is paused or parked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow

from perdure.errors import LimitExceeded, SessionGone
from perdure.uap.allowance import Allowance

T = TypeVar("T")


class RunClock:
    """The time of one run, if it has a limit; without one no timer is set."""

    def __init__(self, allowed: Allowance | None, parked: Callable[[], bool], *, elapsed_s: float) -> None:
        """Go on from where an execution before this one had come.

        Args:
            allowed: what allows the run its time; None for no limit.
            parked: whether the run is parked now.
            elapsed_s: seconds that it has taken.
        """
        self._allowed = allowed
        self._limit_s = None if allowed is None else allowed.seconds
        self._parked = parked
        self._counted = timedelta(seconds=elapsed_s)
        self._since = None if self._limit_s is None else workflow.now()
        self.is_over = False

    @property
    def elapsed_s(self) -> float:
        """Seconds that the run has taken; 0 if nobody asks."""
        running = timedelta(0) if self._since is None else workflow.now() - self._since
        return (self._counted + running).total_seconds()

    @property
    def left_s(self) -> float | None:
        """What is left; None if it has no limit."""
        return None if self._limit_s is None else self._limit_s - self.elapsed_s

    async def within(self, work: Coroutine[Any, Any, T], run: str, stop: Callable[[], None]) -> T:
        """What the run's work returns, if it does in the run's time.

        Args:
            work: it has to end soon once `is_over` and `stop` say so.
            run: the run's id.
            stop: asks all that is under way to stop.

        Raises:
            LimitExceeded: the time is over; the work has ended.
            Exception: what the work raised.
        """
        if self._allowed is None or self._limit_s is None:
            return await work
        watch = asyncio.create_task(self._watch(stop))
        try:
            return await work
        except SessionGone:
            raise
        except (asyncio.CancelledError, Exception) as error:
            if not self.is_over:
                raise
            raise self._exceeded(run) from error
        finally:
            watch.cancel()
            self.is_over = False

    def _exceeded(self, run: str) -> LimitExceeded:
        assert self._allowed is not None, "it is over"
        return self._allowed.time_over(run)

    async def _watch(self, stop: Callable[[], None]) -> None:
        while True:
            if self._parked():
                self._hold()
                await workflow.wait_condition(lambda: not self._parked())
                self._since = workflow.now()
            left = timedelta(seconds=self.left_s or 0.0)
            if left <= timedelta(0):
                break
            try:
                await workflow.wait_condition(self._parked, timeout=left)
            except TimeoutError:
                break
        self.is_over = True
        stop()

    def _hold(self) -> None:
        self._counted = timedelta(seconds=self.elapsed_s)
        self._since = None
