"""When a tool that has failed is called again, before the model is told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from perdure.errors import InvalidInput
from perdure.upp.chance import CHANCE

_MOST_ATTEMPTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRetry:
    """How often a tool whose function has raised is called, with waits that grow. Each call has the tool's whole timeout.

    Arguments that do not fit are the model's to correct: they are not tried again.

    Attributes:
        max_attempts: calls in all, 2 to 100.
        initial: the first wait.
        factor: how many times longer each wait is than the one before, at least 1.
        longest: no wait is longer.
        jitter: multiply each wait by a random 0.5 to 1.

    Raises:
        InvalidInput: a number or a time that cannot be used.

    Source: Perdure's own.
    """

    max_attempts: int = 3
    initial: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    longest: timedelta = timedelta(seconds=30)
    jitter: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.max_attempts, bool) or not 2 <= self.max_attempts <= _MOST_ATTEMPTS:
            raise InvalidInput(f"max_attempts is {self.max_attempts!r}; it must be 2 to {_MOST_ATTEMPTS}")
        if not 1 <= self.factor < float("inf"):
            raise InvalidInput(f"factor is {self.factor!r}; it must be at least 1")
        for name, value in (("initial", self.initial), ("longest", self.longest)):
            if value < timedelta(0):
                raise InvalidInput(f"{name} is {value!r}; it must be a timedelta of at least zero")

    def wait(self, attempt: int) -> timedelta:
        """The wait after a call that has failed; `attempt` is 1 after the first."""
        longest = self._longest_wait(attempt)
        return longest * (0.5 + CHANCE.random() / 2) if self.jitter else longest

    def _longest_wait(self, attempt: int) -> timedelta:
        limit = self.longest.total_seconds()
        try:
            grown = self.initial.total_seconds() * self.factor ** (attempt - 1)
        except OverflowError:
            grown = limit
        return timedelta(seconds=min(grown, limit))

    @property
    def waits(self) -> timedelta:
        """All waits together, at most."""
        return sum((self._longest_wait(attempt) for attempt in range(1, self.max_attempts)), timedelta(0))
