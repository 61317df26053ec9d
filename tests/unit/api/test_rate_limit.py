"""One caller's requests: a burst at once, then the rate, and never another caller's share."""

from __future__ import annotations

from perdure.api import rate_limit
from perdure.api.rate_limit import RateLimit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_passes_and_then_the_rate() -> None:
    clock = Clock()
    limit = RateLimit(2, 3, clock=clock)
    assert [limit.take("a") for _ in range(5)] == [0, 0, 0, 1, 1]
    clock.now = 0.5
    assert [limit.take("a") for _ in range(2)] == [0, 1]
    clock.now = 1000
    assert [limit.take("a") for _ in range(4)] == [0, 0, 0, 1]


def test_the_answer_says_when_to_try_again() -> None:
    clock = Clock()
    limit = RateLimit(0.1, 1, clock=clock)
    assert [limit.take("a"), limit.take("a")] == [0, 10]
    clock.now = 9.9
    assert limit.take("a") == 1
    clock.now = 10.1
    assert limit.take("a") == 0


def test_callers_do_not_share() -> None:
    limit = RateLimit(1, 1, clock=Clock())
    assert [limit.take("a"), limit.take("b"), limit.take("a")] == [0, 0, 1]


def test_callers_without_number_cost_no_memory() -> None:
    limit = RateLimit(1, 1, clock=Clock())
    for n in range(rate_limit._MAX_CALLERS * 2):  # pyright: ignore[reportPrivateUsage]
        limit.take(n)
    assert len(limit._buckets) == rate_limit._MAX_CALLERS  # pyright: ignore[reportPrivateUsage]
