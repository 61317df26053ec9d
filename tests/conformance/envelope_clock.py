"""A clock that a test can put forward, for a server that runs in the test's own process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class AdjustableClock:
    """The real time, unless it was stopped, and what it was put forward by."""

    def __init__(self) -> None:
        self._ahead = timedelta()
        self._stopped_at: datetime | None = None

    def __call__(self) -> datetime:
        return (self._stopped_at or datetime.now(UTC)) + self._ahead

    def stop(self) -> None:
        """Have no time pass but what it is put forward by, however long a busy machine takes."""
        self._stopped_at = datetime.now(UTC)

    def advance(self, by: float | timedelta) -> None:
        """Put it forward.

        Args:
            by: so many seconds, or so long; less than nothing puts it back.
        """
        self._ahead += by if isinstance(by, timedelta) else timedelta(seconds=by)

    def reset(self) -> None:
        """Have it tell the real time again."""
        self._ahead, self._stopped_at = timedelta(), None
