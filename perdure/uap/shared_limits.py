"""Limits that all workers share: how often, and how many at once, the models of a provider or of a tenant are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from pydantic import ConfigDict

from perdure.errors import InvalidInput

EVERYBODY = "*"
"""Whose a provider's limit is; as a tenant's name: any tenant that has none of its own."""
_LONGEST_LEASE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class SharedLimit:
    """One limit. One that says nothing shares only the waits that a provider asks for.

    Attributes:
        requests_per_second: for long; or
        requests_per_minute: for long.
        burst: requests that may come at once after a quiet time; by default as many as a second brings, at least 1.
        max_concurrent: requests that may be under way at once.

    Raises:
        InvalidInput: a number that can be no limit.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    requests_per_second: float | None = None
    requests_per_minute: float | None = None
    burst: int | None = None
    max_concurrent: int | None = None

    def check(self) -> None:
        """See that it can be one. Raises InvalidInput."""
        rates = [rate for rate in (self.requests_per_second, self.requests_per_minute) if rate is not None]
        if len(rates) > 1:
            raise InvalidInput("requests_per_second and requests_per_minute are both given; leave one out")
        if not all(0 < rate < float("inf") for rate in rates):
            raise InvalidInput(f"a rate of {rates[0]} requests is no limit; it must be above 0")
        if self.burst is not None and (self.burst < 1 or not rates):
            raise InvalidInput("burst must be at least 1, and needs requests_per_second or requests_per_minute")
        if self.max_concurrent is not None and self.max_concurrent < 1:
            raise InvalidInput("max_concurrent must be at least 1")

    @property
    def per_second(self) -> float | None:
        """Its rate; None if it has none."""
        return self.requests_per_second if self.requests_per_minute is None else self.requests_per_minute / 60

    @property
    def capacity(self) -> int:
        """Requests that may come at once after a quiet time; 0 if it has no rate."""
        rate = self.per_second
        return 0 if rate is None else self.burst or max(1, round(rate))


@dataclass(frozen=True, slots=True)
class Bucket:
    """One limit of those that a request must keep.

    Attributes:
        owner: a tenant, or `EVERYBODY`.
        name: "tenant", or "provider:" and the provider's, perhaps with "/" and the model's.
        limit: its rule.
    """

    owner: str
    name: str
    limit: SharedLimit


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """All of them.

    Attributes:
        providers: by "provider", or "provider/model" for one model besides.
        tenants: by tenant; `EVERYBODY` is for each that has none of its own.
        lease_s: seconds after which a permit is given up of which nothing was heard, as when its worker has died.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    providers: Mapping[str, SharedLimit] = field(default_factory=dict[str, SharedLimit])
    tenants: Mapping[str, SharedLimit] = field(default_factory=dict[str, SharedLimit])
    lease_s: float = 10.0

    def check(self) -> None:
        """See that they can be kept. Raises InvalidInput."""
        for limit in (*self.providers.values(), *self.tenants.values()):
            limit.check()
        if not 1 <= self.lease_s <= _LONGEST_LEASE.total_seconds():
            raise InvalidInput(f"lease_s is {self.lease_s}; it must be 1 to {_LONGEST_LEASE.total_seconds():g} seconds")

    def buckets(self, tenant: str, provider: str, model: str) -> list[Bucket]:
        """What a request must keep, in the order in which permits are taken: what few share first."""
        own = self.tenants.get(tenant, self.tenants.get(EVERYBODY))
        found = [] if own is None else [Bucket(tenant, "tenant", own)]
        named = [name for name in (f"{provider}/{model}", provider) if name in self.providers]
        return found + [Bucket(EVERYBODY, f"provider:{name}", self.providers[name]) for name in named]
