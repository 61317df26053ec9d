"""When a failed model call is tried again, and after what wait. Carrying it out is `retrying`'s part.

Source: UPP-1.2, retry strategies. Delays are timedeltas where UPP has milliseconds.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from datetime import timedelta

from perdure.errors import InvalidInput
from perdure.upp.chance import CHANCE
from perdure.upp.errors import ErrorCode, UPPError

_NO_WAIT = timedelta(0)


class RetryStrategy(ABC):
    """Decides after each failure; one strategy may serve many requests at once."""

    @abstractmethod
    def on_retry(self, error: UPPError, attempt: int) -> timedelta | None:
        """Returns the wait before the next attempt, or None to give up.

        Args:
            error: the failure.
            attempt: 1 after the first failure.
        """

    def before_request(self) -> timedelta:
        """Returns the wait before an attempt is sent; called once per attempt."""
        return _NO_WAIT

    def reset(self) -> None:  # noqa: B027  # most strategies have nothing to set back
        """Is told that an attempt succeeded."""

    def fork(self) -> RetryStrategy:
        """Returns what one request uses: itself, or a copy if the strategy keeps something per request."""
        return self


class ExponentialBackoff(RetryStrategy):
    """Waits that double: base_delay, twice that, ..., at most max_delay. Never sooner than the server asks.

    Args:
        max_attempts: how many times a request is sent again.
        base_delay: the first wait; `initial_delay` is the specification's name of it.
        max_delay: the longest wait of the doubling.
        jitter: multiply each wait by a random 0.5 to 1.5, so that many clients do not come back together.
        initial_delay: goes before base_delay.

    Raises:
        InvalidInput: a number or a delay is below zero.
    """

    def __init__(
        self,
        max_attempts: int = 3,
        base_delay: timedelta = timedelta(seconds=1),
        max_delay: timedelta = timedelta(seconds=30),
        *,
        jitter: bool = True,
        initial_delay: timedelta | None = None,
    ) -> None:
        self._max_attempts = max_attempts
        self._base_delay = base_delay if initial_delay is None else initial_delay
        self._max_delay = max_delay
        self._jitter = jitter
        _check(max_attempts, self._base_delay, max_delay)

    def on_retry(self, error: UPPError, attempt: int) -> timedelta | None:
        if attempt > self._max_attempts or not error.retryable:
            return None
        # In seconds, because the product may be more than a timedelta holds.
        doubled = self._base_delay.total_seconds() * 2.0 ** min(attempt - 1, 1000)
        delay = timedelta(seconds=min(doubled, self._max_delay.total_seconds()))
        if self._jitter:
            delay = timedelta(milliseconds=int(delay / timedelta(milliseconds=1) * (0.5 + CHANCE.random())))
        return max(delay, error.retry_after or _NO_WAIT)


class LinearBackoff(RetryStrategy):
    """Waits that grow by the same amount: delay, twice, three times. Never sooner than the server asks.

    Args:
        max_attempts: how many times a request is sent again.
        delay: the first wait.

    Raises:
        InvalidInput: a number or a delay is below zero.
    """

    def __init__(self, max_attempts: int = 3, delay: timedelta = timedelta(seconds=1)) -> None:
        _check(max_attempts, delay)
        self._max_attempts = max_attempts
        self._delay = delay

    def on_retry(self, error: UPPError, attempt: int) -> timedelta | None:
        if attempt > self._max_attempts or not error.retryable:
            return None
        return max(self._delay * attempt, error.retry_after or _NO_WAIT)


class NoRetry(RetryStrategy):
    """Gives up at once."""

    def on_retry(self, error: UPPError, attempt: int) -> timedelta | None:
        return None


class TokenBucket(RetryStrategy):
    """Limits the rate of requests: each takes a token, tokens come back with time, callers queue in order.

    Only RATE_LIMITED is tried again, after the time of two tokens.

    Args:
        max_tokens: how many requests may go at once; `capacity` is the specification's name of it.
        refill_rate: tokens per second.
        max_attempts: how many times a request is sent again.
        capacity: goes before max_tokens.

    Raises:
        InvalidInput: a number is not above zero.
    """

    def __init__(
        self,
        max_tokens: float = 10,
        refill_rate: float = 1.0,
        max_attempts: int = 3,
        *,
        capacity: float | None = None,
    ) -> None:
        self._capacity = max_tokens if capacity is None else capacity
        if self._capacity <= 0 or refill_rate <= 0:
            raise InvalidInput("a token bucket needs a capacity and a refill rate above zero")
        _check(max_attempts)
        self._refill_rate = refill_rate
        self._max_attempts = max_attempts
        self._tokens = float(self._capacity)
        self._filled_at: float | None = None

    def before_request(self) -> timedelta:
        now = asyncio.get_running_loop().time()
        if self._filled_at is not None:
            self._tokens = min(self._capacity, self._tokens + (now - self._filled_at) * self._refill_rate)
        self._filled_at = now
        self._tokens -= 1  # below zero it is a place in the queue
        return _NO_WAIT if self._tokens >= 0 else timedelta(seconds=-self._tokens / self._refill_rate)

    def on_retry(self, error: UPPError, attempt: int) -> timedelta | None:
        if attempt > self._max_attempts or error.code is not ErrorCode.RATE_LIMITED:
            return None
        return max(timedelta(seconds=2 / self._refill_rate), error.retry_after or _NO_WAIT)


class RetryAfterStrategy(RetryStrategy):
    """Does what the server asks: RATE_LIMITED is tried again after its Retry-After, or else a fixed wait.

    Args:
        max_attempts: how many times a request is sent again.
        fallback_delay: the wait if the server does not say.

    Raises:
        InvalidInput: a number or a delay is below zero.
    """

    def __init__(self, max_attempts: int = 3, fallback_delay: timedelta = timedelta(seconds=5)) -> None:
        _check(max_attempts, fallback_delay)
        self._max_attempts = max_attempts
        self._fallback_delay = fallback_delay
        self._asked: timedelta | None = None

    def set_retry_after(self, delay: timedelta) -> None:
        """Sets what the server asked for; it is used once, before the error's own `retry_after`."""
        self._asked = delay

    def on_retry(self, error: UPPError, attempt: int) -> timedelta | None:
        if attempt > self._max_attempts or error.code is not ErrorCode.RATE_LIMITED:
            return None
        asked, self._asked = self._asked, None
        delays = (asked, error.retry_after, self._fallback_delay)
        return next(delay for delay in delays if delay is not None)

    def fork(self) -> RetryAfterStrategy:
        return RetryAfterStrategy(self._max_attempts, self._fallback_delay)


def _check(attempts: int, *delays: timedelta) -> None:
    if attempts < 0:
        raise InvalidInput(f"max_attempts is {attempts}; it must be at least 0")
    for delay in delays:
        if delay < _NO_WAIT:
            raise InvalidInput(f"a delay is {delay}; it must be at least zero")
