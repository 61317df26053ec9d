"""How long a task's tries are apart."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.uaip import Retry
from perdure.uaip.retry import NO_RETRY, RetrySpec


def test_waits_grow_up_to_the_longest() -> None:
    spec = Retry(6, wait=timedelta(seconds=2), factor=3, longest=timedelta(seconds=20)).spec()
    assert [spec.wait_after(attempt) for attempt in range(1, 6)] == [2, 6, 18, 20, 20]
    assert spec.waits_s == 66


@pytest.mark.parametrize("factor", [1e300, 1.0])
def test_no_factor_is_too_large(factor: float) -> None:
    """A hundred tries with it overflow nothing."""
    spec = RetrySpec(100, wait_s=1.0, factor=factor, longest_s=30.0)
    assert spec.wait_after(99) == (1.0 if factor == 1 else 30.0)


def test_one_try_waits_for_nothing() -> None:
    assert NO_RETRY.waits_s == 0
