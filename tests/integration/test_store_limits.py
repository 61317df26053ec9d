"""Limits that all workers share, on a real PostgreSQL: who is let through, in which order, and when again."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

import pytest

from perdure.activities.permits import Permits
from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.limits import (
    BucketRow,
    Permit,
    block_bucket,
    list_limits,
    release_permit,
    renew_permit,
    take_permit,
    unblock_bucket,
)
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from perdure.uap.shared_limits import EVERYBODY, Bucket, SharedLimit
from perdure.upp.errors import ErrorCode, UPPError

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEASE_S = 60.0


def bucket(**rule: float) -> Bucket:
    """A limit of its own."""
    return Bucket(EVERYBODY, f"provider:{uuid.uuid4().hex}", SharedLimit(**rule))  # pyright: ignore[reportArgumentType]


def permit(limit: Bucket, tenant: str = "t", lease_s: float = LEASE_S) -> Permit:
    """One that nobody has asked for."""
    return Permit(new_id(), limit, Writer(SessionKey(tenant, new_id()), new_id(), "e"), "1@here", lease_s)


async def held(database: Database, *permits: Permit) -> list[bool]:
    """Which of them are given, asked for one after the other."""
    return [(await take_permit(database, one)).held for one in permits]


async def test_no_more_are_held_than_may(database: Database) -> None:
    """The others wait, each behind those before it, until one is given back; asking again changes nothing."""
    limit = bucket(max_concurrent=2)
    first, second, third, fourth = (permit(limit) for _ in range(4))
    assert await held(database, first, second, third, fourth, first, third) == [True, True, False, False, True, False]
    assert (await take_permit(database, fourth)).ahead == 1
    await release_permit(database, first, answered=True)
    assert await held(database, fourth, third, fourth) == [False, True, False]


async def test_two_hundred_at_once_hold_no_more_than_may(database: Database) -> None:
    """Whatever the order in which they come: the bucket's row is locked."""
    limit = bucket(max_concurrent=7)
    asked = await asyncio.gather(*(take_permit(database, permit(limit)) for _ in range(200)))
    assert sum(one.held for one in asked) == 7


async def test_a_rate_lets_a_burst_through_and_says_when_the_next_may(database: Database) -> None:
    """Tokens come back with time, and no more of them than the burst."""
    limit = bucket(requests_per_second=0.001, burst=3)
    assert await held(database, *(permit(limit) for _ in range(3))) == [True] * 3
    late, later = permit(limit), permit(limit)
    assert 900 < (await take_permit(database, late)).wait_s <= 1000
    assert 1900 < (await take_permit(database, later)).wait_s <= 2000
    faster = replace(late, bucket=replace(limit, limit=SharedLimit(requests_per_second=1000, burst=3)))
    await asyncio.sleep(0.01)  # no token comes back in no time
    assert await held(database, faster) == [True]


async def test_a_small_tenant_is_not_starved_by_a_big_one(database: Database) -> None:
    """Who comes last with one request is behind one of the other's hundred, not behind all of them."""
    limit = bucket(max_concurrent=1)
    running, *big = [permit(limit, "big") for _ in range(100)]
    assert await held(database, running) == [True]
    for one in big:
        await take_permit(database, one)
    small = [permit(limit, "small") for _ in range(2)]
    assert [(await take_permit(database, one)).ahead for one in small] == [1, 3]


async def test_a_lease_that_is_not_renewed_runs_out(database: Database) -> None:
    """Of a worker that died; one that is renewed is kept, and one that was late is held again."""
    limit = bucket(max_concurrent=1)
    dead, waiting = permit(limit, lease_s=0.2), permit(limit)
    assert await held(database, dead) == [True]
    await renew_permit(database, replace(dead, lease_s=LEASE_S))
    await asyncio.sleep(0.3)  # longer than the first lease
    assert await held(database, waiting) == [False]
    await renew_permit(database, dead)
    await asyncio.sleep(0.3)
    assert await held(database, waiting) == [True]
    await renew_permit(database, replace(dead, lease_s=LEASE_S))
    assert sum(row.held for row in await list_limits(database, "t") if row.name == limit.name) == 2


async def test_l105_a_hundred_refusals_without_a_header_wait_longer_and_longer(database: Database) -> None:
    """Exponential with jitter, up to a longest wait, for all who share the limit; what is told at once counts once."""
    limit = bucket(max_concurrent=4)
    await take_permit(database, permit(limit))
    waits: list[float] = []
    for _ in range(100):
        waits.append(await block_bucket(database, limit, None))
        if waits[-1] > 10:  # it lasts
            assert await block_bucket(database, limit, None) <= waits[-1]
            assert not (await take_permit(database, permit(limit))).held
        await _end_block(database, limit)
    for number, wait in enumerate(waits):
        nominal = min(30.0, 0.5 * 2**number)
        assert 0.49 * nominal <= wait <= 1.5 * nominal
    assert len({round(wait, 3) for wait in waits}) > 50


async def test_a_named_wait_drains_the_tokens(database: Database) -> None:
    """After it they come back one by one, not as a burst; and one request goes first."""
    limit = bucket(requests_per_second=0.5, burst=10)
    assert await held(database, permit(limit)) == [True]
    assert 690 < await block_bucket(database, limit, 700.0) <= 700
    asked = await take_permit(database, permit(limit))
    assert not asked.held
    assert 600 < asked.wait_s <= 700
    (row,) = [row for row in await list_limits(database, "t") if row.name == limit.name]
    assert row.tokens == 0
    assert row.blocked_until is not None


async def test_after_a_refusal_one_goes_first_and_the_others_when_it_is_answered(database: Database) -> None:
    """The probe is told that it is one; a block that is not over is not lifted by an answer from before."""
    limit = bucket(max_concurrent=5)
    old, probe, other = (permit(limit) for _ in range(3))
    assert await held(database, old) == [True]
    await block_bucket(database, limit, 600.0)
    await release_permit(database, old, answered=True)
    assert await held(database, probe) == [False]
    await _end_block(database, limit)
    asked = await take_permit(database, probe)
    assert (asked.held, asked.probe) == (True, True)
    assert await held(database, other) == [False]
    await unblock_bucket(database, limit)
    assert await held(database, other) == [True]


async def test_a_wait_that_is_cancelled_leaves_nothing(database: Database) -> None:
    """Neither a permit nor a place in the queue, whichever it has."""
    limit = bucket(max_concurrent=1)
    writer = Writer(SessionKey("t", new_id()), new_id(), "e")
    first, second = (Permits(database, [limit], writer, LEASE_S) for _ in range(2))

    async def wait() -> None:
        async with second.request():
            raise AssertionError("there is no permit to have")

    async with first.request():
        waiting = asyncio.create_task(wait())
        while (await _row(database, limit)).waiting != 1:  # noqa: ASYNC110  # only the database knows
            await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert ((await _row(database, limit)).held, (await _row(database, limit)).waiting) == (1, 0)
    assert ((await _row(database, limit)).held, (await _row(database, limit)).waiting) == (0, 0)


async def _row(database: Database, limit: Bucket, tenant: str = "t") -> BucketRow:
    return next(row for row in await list_limits(database, tenant) if row.name == limit.name)


async def _end_block(database: Database, limit: Bucket) -> None:
    """Have the wait be over that a provider asked for."""
    async with database.driver() as connection:
        sql = "update perdure.limit_buckets set blocked_until = clock_timestamp() where name = $1"
        await connection.execute(sql, limit.name)


async def test_only_a_refusal_for_its_rate_blocks(database: Database) -> None:
    """And of a provider's limit only: a tenant's own has nothing to do with it."""
    tenant = f"tenant-{new_id()}"
    shared, own = bucket(max_concurrent=1), Bucket(tenant, "tenant", SharedLimit(max_concurrent=1))
    permits = Permits(database, [own, shared], Writer(SessionKey(tenant, new_id()), new_id(), "e"), LEASE_S)
    async with permits.request():
        pass
    await permits.failed(UPPError("broken", ErrorCode.PROVIDER_ERROR, "p"))
    assert (await _row(database, shared)).strikes == 0
    await permits.failed(UPPError("too much", ErrorCode.RATE_LIMITED, "p"))
    assert (await _row(database, shared)).strikes == 1
    assert (await _row(database, own, tenant)).strikes == 0


async def test_nobody_sees_who_else_asks(database: Database) -> None:
    """A tenant sees everybody's limits and its own, how many hold them, and of those only its own."""
    limit = bucket(max_concurrent=9)
    mine, theirs = permit(limit, f"mine-{new_id()}"), permit(limit, f"theirs-{new_id()}")
    assert await held(database, mine, theirs) == [True, True]
    other = Bucket(theirs.writer.key.tenant, "tenant", SharedLimit(max_concurrent=1))
    assert await held(database, permit(other, theirs.writer.key.tenant)) == [True]
    rows = await list_limits(database, mine.writer.key.tenant)
    assert [row for row in rows if row.owner == other.owner] == []
    row = next(row for row in rows if row.name == limit.name)
    assert (row.held, [lease.session for lease in row.leases]) == (2, [mine.writer.key.session])
