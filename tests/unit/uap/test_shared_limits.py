"""Limits that all workers share: what they are made of, and which of them a request must keep."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.activities.permits import Permits
from perdure.errors import InvalidInput
from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.uap.session_key import SessionKey
from perdure.uap.shared_limits import EVERYBODY, SharedLimit, SharedLimits
from perdure.upp.errors import ErrorCode, UPPError


@pytest.mark.parametrize(
    "wrong",
    [
        {"requests_per_second": 0}, {"requests_per_minute": -1}, {"requests_per_second": float("inf")},
        {"requests_per_second": 1, "requests_per_minute": 1}, {"burst": 2}, {"requests_per_second": 1, "burst": 0},
        {"max_concurrent": 0},
    ],
)  # fmt: skip
def test_a_limit_that_can_be_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        SharedLimits(providers={"p": SharedLimit(**wrong)}).check()


def test_a_lease_has_bounds() -> None:
    for seconds in (0.5, 601):
        with pytest.raises(InvalidInput, match="lease_s"):
            SharedLimits(lease_s=seconds).check()


def test_a_rate_by_the_minute_is_one_by_the_second() -> None:
    """A burst is what a second brings, and at least one request."""
    assert SharedLimit(requests_per_minute=90).per_second == 1.5
    assert [SharedLimit(requests_per_second=rate).capacity for rate in (0.1, 7)] == [1, 7]
    assert SharedLimit(max_concurrent=1).per_second is None


def test_permits_are_taken_from_the_narrowest_to_the_widest() -> None:
    """A tenant's own limit goes before that of any tenant; a model's besides its provider's."""
    own, any_, model, provider = (SharedLimit(max_concurrent=number) for number in (1, 2, 3, 4))
    limits = SharedLimits(providers={"p": provider, "p/m": model}, tenants={"acme": own, EVERYBODY: any_})
    found = [(bucket.owner, bucket.name, bucket.limit) for bucket in limits.buckets("acme", "p", "m")]
    assert found == [("acme", "tenant", own), ("*", "provider:p/m", model), ("*", "provider:p", provider)]
    other = [(bucket.owner, bucket.name, bucket.limit) for bucket in limits.buckets("other", "p", "x")]
    assert other == [("other", "tenant", any_), ("*", "provider:p", provider)]


async def test_without_limits_the_database_is_never_asked() -> None:
    """There is none at this address, and nobody notices."""
    nowhere = Database("postgresql://nobody@127.0.0.1:1/nowhere")
    buckets = SharedLimits().buckets("t", "p", "m")
    permits = Permits(nowhere, buckets, Writer(SessionKey("t", "s"), "r", "e"), 10)
    async with permits.request():
        assert not permits.probing
    await permits.failed(UPPError("too much", ErrorCode.RATE_LIMITED, "p"))
    await nowhere.close()
