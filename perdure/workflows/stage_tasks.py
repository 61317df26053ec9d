"""The task of a stage session that runs, and how it is stopped."""

from __future__ import annotations

from typing import Any, Protocol


class Stoppable(Protocol):
    """An activity or a child workflow in flight."""

    def cancel(self) -> Any:
        """Ask it to stop; it has its say before it ends."""
        ...


class TaskInHand:
    """One task while it runs.

    Attributes:
        stopped: its session was terminated, so that nothing of it counts any more.
    """

    def __init__(self) -> None:
        """Nothing of it is in flight yet."""
        self.stopped = False
        self._running: Stoppable | None = None

    def runs(self, running: Stoppable) -> None:
        """What carries it out is in flight now; it is stopped at once if the task was."""
        self._running = running
        if self.stopped:
            running.cancel()

    def stop(self) -> None:
        """Have what carries it out end, once."""
        if not self.stopped:
            self.stopped = True
            if self._running is not None:
                self._running.cancel()
