"""When a failed model call is tried again, and after what wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.upp.chance import CHANCE
from perdure.upp.errors import RETRYABLE_CODES, ErrorCode, UPPError
from perdure.upp.retry import (
    ExponentialBackoff,
    LinearBackoff,
    NoRetry,
    RetryAfterStrategy,
    RetryStrategy,
    TokenBucket,
)

MakeStrategy = Callable[[], RetryStrategy]


def ms(value: float) -> timedelta:
    return timedelta(milliseconds=value)


def error(code: ErrorCode = ErrorCode.RATE_LIMITED, retry_after: timedelta | None = None) -> UPPError:
    return UPPError("no", code, retry_after=retry_after)


def waits(strategy: RetryStrategy, count: int, failure: UPPError | None = None) -> list[timedelta | None]:
    return [strategy.on_retry(failure or error(), attempt) for attempt in range(1, count + 1)]


def test_exponential_waits_double_until_the_attempts_are_used_up() -> None:
    assert waits(ExponentialBackoff(2, ms(100), jitter=False), 3) == [ms(100), ms(200), None]


def test_exponential_waits_stop_growing_at_the_longest() -> None:
    assert waits(ExponentialBackoff(3, ms(1000), ms(2500), jitter=False), 3) == [ms(1000), ms(2000), ms(2500)]


@pytest.mark.parametrize(("drawn", "wait"), [(0.0, 500), (0.5, 1000), (0.9999, 1499)])
def test_jitter_takes_from_half_to_one_and_a_half_of_a_wait(
    drawn: float, wait: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CHANCE, "random", lambda: drawn)
    assert waits(ExponentialBackoff(base_delay=ms(1000)), 1) == [ms(wait)]


def test_jitter_comes_after_the_longest_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CHANCE, "random", lambda: 0.9)
    assert waits(ExponentialBackoff(3, ms(1000), ms(1500)), 2) == [ms(1400), ms(2100)]


def test_a_hundred_rate_limits_without_a_header_wait_longer_and_longer_and_never_alike() -> None:
    strategy = ExponentialBackoff(100, ms(1000), timedelta(seconds=30))
    given_waits = [wait for wait in waits(strategy, 100) if wait is not None]
    assert len(given_waits) == 100
    for attempt, wait in enumerate(given_waits):
        middle = min(1000 * 2**attempt, 30_000)
        assert ms(middle * 0.5) <= wait <= ms(middle * 1.5)
    assert len(set(given_waits[5:])) > 50


@given(st.integers(1, 10_000), st.integers(0, 10**9), st.integers(0, 10**9))
def test_no_attempt_is_too_late_for_a_wait(attempt: int, first: int, longest: int) -> None:
    wait = ExponentialBackoff(10_000, ms(first), ms(longest)).on_retry(error(), attempt)
    assert wait is not None
    assert timedelta(0) <= wait <= ms(longest * 1.5)


def test_exponential_backoff_knows_the_specifications_word() -> None:
    assert waits(ExponentialBackoff(initial_delay=ms(7), jitter=False), 1) == [ms(7)]


def test_linear_waits_grow_evenly() -> None:
    assert waits(LinearBackoff(3, ms(100)), 4) == [ms(100), ms(200), ms(300), None]


@pytest.mark.parametrize("strategy", [ExponentialBackoff(jitter=False), LinearBackoff()])
@pytest.mark.parametrize("code", list(ErrorCode))
def test_backoff_is_for_what_may_pass(strategy: RetryStrategy, code: ErrorCode) -> None:
    assert (strategy.on_retry(error(code), 1) is not None) == (code in RETRYABLE_CODES)


@pytest.mark.parametrize("strategy", [TokenBucket(), RetryAfterStrategy()])
@pytest.mark.parametrize("code", list(ErrorCode))
def test_buckets_and_servers_waits_are_for_rate_limits_only(strategy: RetryStrategy, code: ErrorCode) -> None:
    assert (strategy.on_retry(error(code), 1) is not None) == (code == ErrorCode.RATE_LIMITED)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_no_retry_never_retries(code: ErrorCode) -> None:
    assert NoRetry().on_retry(error(code), 1) is None


@pytest.mark.parametrize(
    "strategy",
    [
        ExponentialBackoff(1, ms(100), jitter=False),
        LinearBackoff(1, ms(100)),
        TokenBucket(1, 100, 1),
        RetryAfterStrategy(1, ms(100)),
    ],
)
def test_no_strategy_comes_back_before_the_server_allows(strategy: RetryStrategy) -> None:
    assert strategy.on_retry(error(retry_after=ms(9000)), 1) == ms(9000)
    assert strategy.on_retry(error(retry_after=ms(9000)), 2) is None


@pytest.mark.parametrize("strategy", [ExponentialBackoff(jitter=False), LinearBackoff()])
def test_a_server_that_allows_everything_does_not_shorten_the_backoff(strategy: RetryStrategy) -> None:
    assert strategy.on_retry(error(retry_after=timedelta(0)), 1) == ms(1000)


def test_a_server_that_says_no_wait_gets_the_fallback() -> None:
    assert waits(RetryAfterStrategy(2), 3) == [ms(5000), ms(5000), None]


def test_a_wait_that_was_set_is_used_once_and_first() -> None:
    strategy = RetryAfterStrategy()
    strategy.set_retry_after(ms(70))
    assert waits(strategy, 2, error(retry_after=ms(900))) == [ms(70), ms(900)]


def test_a_wait_of_zero_is_a_wait() -> None:
    assert RetryAfterStrategy().on_retry(error(retry_after=timedelta(0)), 1) == timedelta(0)


def test_a_fork_keeps_its_own_wait() -> None:
    strategy = RetryAfterStrategy(2, ms(100))
    fork = strategy.fork()
    fork.set_retry_after(ms(70))
    assert strategy.on_retry(error(), 1) == ms(100)
    assert waits(fork, 3) == [ms(70), ms(100), None]


@pytest.mark.parametrize("strategy", [ExponentialBackoff(), LinearBackoff(), NoRetry(), TokenBucket()])
def test_what_keeps_nothing_of_a_request_is_shared(strategy: RetryStrategy) -> None:
    assert strategy.fork() is strategy


async def test_a_bucket_lets_go_at_once_what_it_holds_and_queues_the_rest_in_order() -> None:
    bucket = TokenBucket(2, 10)
    asked = [bucket.before_request() for _ in range(4)]
    assert asked[:2] == [timedelta(0), timedelta(0)]
    assert asked[2] == pytest.approx(ms(100), abs=ms(20))
    assert asked[3] == pytest.approx(ms(200), abs=ms(20))


async def test_a_success_does_not_fill_a_bucket() -> None:
    bucket = TokenBucket(1, 0.001)
    bucket.before_request()
    bucket.reset()
    assert bucket.before_request() > timedelta(seconds=900)


async def test_a_bucket_never_holds_more_than_its_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    bucket = TokenBucket(2, 1)
    bucket.before_request()
    clock.now += 1000
    assert [bucket.before_request() for _ in range(3)] == [timedelta(0), timedelta(0), timedelta(seconds=1)]


async def test_time_brings_tokens_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    bucket = TokenBucket(1, 2)
    assert [bucket.before_request() for _ in range(2)] == [timedelta(0), ms(500)]
    clock.now += 0.5
    assert bucket.before_request() == ms(500)
    clock.now += 1.0
    assert bucket.before_request() == timedelta(0)


def test_a_bucket_waits_for_two_tokens() -> None:
    assert waits(TokenBucket(refill_rate=4, max_attempts=2), 3) == [ms(500), ms(500), None]


async def test_a_bucket_knows_the_specifications_word() -> None:
    bucket = TokenBucket(50, capacity=1, refill_rate=1)
    assert bucket.before_request() == timedelta(0)
    assert bucket.before_request() > timedelta(0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ExponentialBackoff(-1),
        lambda: ExponentialBackoff(base_delay=ms(-1)),
        lambda: ExponentialBackoff(max_delay=ms(-1)),
        lambda: ExponentialBackoff(initial_delay=ms(-1)),
        lambda: LinearBackoff(-1),
        lambda: LinearBackoff(delay=ms(-1)),
        lambda: TokenBucket(0),
        lambda: TokenBucket(capacity=0),
        lambda: TokenBucket(refill_rate=0),
        lambda: TokenBucket(max_attempts=-1),
        lambda: RetryAfterStrategy(-1),
        lambda: RetryAfterStrategy(fallback_delay=ms(-1)),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make: MakeStrategy) -> None:
    with pytest.raises(InvalidInput):
        make()


class Clock:
    """The event loop's clock, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("perdure.upp.retry.asyncio.get_running_loop", lambda: self)

    def time(self) -> float:
        return self.now
