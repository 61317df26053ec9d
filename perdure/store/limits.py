"""Limits that all workers share: permits by token bucket and lease. The database's clock is the only one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Row, func, select

from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.tables import limit_buckets, limit_leases
from perdure.uap.shared_limits import EVERYBODY, Bucket

HELD = "held"
WAITING = "waiting"
_FIRST_BLOCK_S = 0.5
_LONGEST_BLOCK_S = 30.0


@dataclass(frozen=True, slots=True)
class Permit:
    """One permit that is asked for.

    Attributes:
        id: unique.
        bucket: the limit.
        writer: the run that asks.
        holder: the process that does, for people.
        lease_s: seconds after which it is given up of which nothing was heard.
    """

    id: str
    bucket: Bucket
    writer: Writer
    holder: str
    lease_s: float

    @property
    def asked_by(self) -> tuple[str, str, str, str, str, str]:
        """Limit, id and who asks, as the store's functions take them."""
        key = self.writer.key
        return self.bucket.owner, self.bucket.name, self.id, key.tenant, key.session, self.writer.run


@dataclass(frozen=True, slots=True)
class Asked:
    """The answer to who asks for a permit.

    Attributes:
        held: it was given.
        probe: it is the one request that finds out whether the provider answers again.
        ahead: how many are to be served before.
        wait_s: seconds that pass before it can be given, as far as is known.
    """

    held: bool
    probe: bool = False
    ahead: int = 0
    wait_s: float = 0.0


async def take_permit(database: Database, permit: Permit) -> Asked:
    """Ask for a permit; it is held, or has a place in the queue, until its lease ends. To be repeated until it is held."""
    limit = permit.bucket.limit
    answer = await database.call(
        "take_permit_v1", *permit.asked_by, permit.holder, limit.per_second, limit.capacity, limit.max_concurrent,
        permit.lease_s,
    )  # fmt: skip
    found = cast("dict[str, Any]", answer)
    return Asked(
        found["kind"] == HELD,
        probe=bool(found.get("probe")),
        ahead=int(found.get("ahead", 0)),
        wait_s=float(found.get("wait_s", 0.0)),
    )


async def renew_permit(database: Database, permit: Permit) -> None:
    """Keep a permit for another lease."""
    await database.call("renew_permit_v1", *permit.asked_by, permit.holder, permit.lease_s)


async def release_permit(database: Database, permit: Permit, *, answered: bool) -> None:
    """Give a permit back, or a place in the queue. Harmless if it has been.

    Args:
        database: the store.
        permit: which.
        answered: the provider did what was asked.
    """
    await database.call("release_permit_v1", permit.bucket.owner, permit.bucket.name, permit.id, answered)


async def block_bucket(database: Database, bucket: Bucket, for_s: float | None) -> float:
    """Let nobody through for a while, for the provider has said that it is too much; the seconds from now on.

    Args:
        database: the store.
        bucket: the limit.
        for_s: seconds that the provider named; None for a wait that doubles each time in a row, with jitter.
    """
    answer = await database.call("block_bucket_v1", bucket.owner, bucket.name, for_s, _FIRST_BLOCK_S, _LONGEST_BLOCK_S)
    return float(cast("dict[str, Any]", answer).get("for_s", 0.0))


async def unblock_bucket(database: Database, bucket: Bucket) -> None:
    """Let everybody through again, for the provider has answered; a block that is not over stays."""
    await database.call("unblock_bucket_v1", bucket.owner, bucket.name)


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """One permit that a tenant's run holds or waits for."""

    permit: str
    session: str
    run: str
    holder: str
    state: str
    asked_at: datetime
    held_at: datetime | None
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class BucketRow:
    """One limit as it stands.

    Attributes:
        owner: a tenant, or `EVERYBODY`.
        tokens: requests that may come at once now; None if it has no rate.
        blocked_until: until when nobody is let through; None if somebody is.
        held: permits that are held, of all tenants.
        waiting: how many wait for one, likewise.
        leases: those of the tenant that asks, in the order in which they were asked for.
    """

    owner: str
    name: str
    per_second: float | None
    burst: int | None
    max_concurrent: int | None
    tokens: float | None
    blocked_until: datetime | None
    strikes: int
    held: int
    waiting: int
    leases: Sequence[LeaseRow]


async def list_limits(database: Database, tenant: str) -> list[BucketRow]:
    """The limits that a tenant must keep and that were asked for since they were set up, everybody's first."""
    owners = (EVERYBODY, tenant)
    buckets = select(limit_buckets).where(limit_buckets.c.tenant_id.in_(owners)).order_by(*limit_buckets.primary_key)
    leases = select(limit_leases).where(limit_leases.c.tenant_id.in_(owners)).order_by(limit_leases.c.asked_at)
    async with database.transaction() as connection:
        rows, found = (await connection.execute(buckets)).all(), (await connection.execute(leases)).all()
        now = cast(datetime, await connection.scalar(select(func.clock_timestamp())))
    live = [lease for lease in found if lease.expires_at > now]
    return [_bucket(row, [lease for lease in live if _of(lease, row)], tenant, now) for row in rows]


def _of(lease: Row[Any], bucket: Row[Any]) -> bool:
    return (lease.tenant_id, lease.name) == (bucket.tenant_id, bucket.name)


def _bucket(row: Row[Any], leases: Sequence[Row[Any]], tenant: str, now: datetime) -> BucketRow:
    held = sum(lease.state == HELD for lease in leases)
    own = [lease for lease in leases if lease.asker == tenant]
    blocked = None if row.blocked_until is None or row.blocked_until <= now else row.blocked_until
    since = max(0.0, (now - row.filled_at).total_seconds())
    refilled = None if row.per_second is None else min(row.burst, row.tokens + since * row.per_second)
    return BucketRow(
        owner=row.tenant_id, name=row.name, per_second=row.per_second,
        burst=None if row.per_second is None else row.burst, max_concurrent=row.max_concurrent, tokens=refilled,
        blocked_until=blocked, strikes=row.strikes, held=held, waiting=len(leases) - held,
        leases=[_lease(lease) for lease in own],
    )  # fmt: skip


def _lease(row: Row[Any]) -> LeaseRow:
    return LeaseRow(
        row.permit, row.session_id, row.run_id, row.holder, row.state, row.asked_at, row.held_at, row.expires_at
    )
