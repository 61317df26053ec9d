"""How often a task is tried."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from perdure.errors import InvalidInput

MAX_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class RetrySpec:
    """A retry as a pinned definition holds it: `attempts` tries in all, waits in seconds."""

    attempts: int = 1
    wait_s: float = 1.0
    factor: float = 2.0
    longest_s: float = 60.0

    def wait_after(self, attempt: int) -> float:
        """Seconds from a try that has failed to the next one; `attempt` is 1 after the first."""
        try:
            grown = self.wait_s * self.factor ** (attempt - 1)
        except OverflowError:
            grown = self.longest_s
        return min(grown, self.longest_s)

    @property
    def waits_s(self) -> float:
        """Seconds of all waits together."""
        return sum(self.wait_after(attempt) for attempt in range(1, self.attempts))


NO_RETRY = RetrySpec()
"""One try."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A task that raises is tried again, after waits that grow. Only for tasks that may run twice.

    Attributes:
        attempts: tries in all, 1 to 100; 1 is no retry.
        wait: before the second try.
        factor: each wait is so many times the one before, at least 1.
        longest: no wait is longer.

    Raises:
        InvalidInput: a number or a wait is out of its range.
    """

    attempts: int
    wait: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    longest: timedelta = timedelta(seconds=60)

    def __post_init__(self) -> None:
        check_retry(self.spec(), "Retry")

    def spec(self) -> RetrySpec:
        """As a definition holds it."""
        return RetrySpec(self.attempts, self.wait.total_seconds(), self.factor, self.longest.total_seconds())


def check_retry(retry: RetrySpec, what: str) -> None:
    """Refuse numbers that make no sense. Raises InvalidInput."""
    if isinstance(retry.attempts, bool) or not 1 <= retry.attempts <= MAX_ATTEMPTS:
        raise InvalidInput(f"{what}: attempts is {retry.attempts!r}; it must be 1 to {MAX_ATTEMPTS}")
    if not 0 < retry.wait_s <= retry.longest_s:
        raise InvalidInput(f"{what}: the first wait must be above zero and not longer than the longest wait")
    if retry.factor < 1:
        raise InvalidInput(f"{what}: factor is {retry.factor!r}; it must be at least 1, or waits would shrink")
