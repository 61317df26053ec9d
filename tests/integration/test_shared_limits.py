"""Limits over all workers: two processes keep them together, whoever dies, whatever the provider refuses."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.limits import BucketRow, list_limits
from tests.integration.agents import HELD
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish
from tests.scale import allowed_s, scaled

APP = "tests.integration.limited_agents:app"


@contextmanager
def workers(stack: Stack, limits: dict[str, Any], *agents: str) -> Generator[Sequence[WorkerProcess]]:
    """Workers that share these limits, one for each name of an agent; those of one name share its queue."""
    queue = uuid.uuid4().hex
    shared = {"PERDURE_LIMITS": json.dumps(limits)}
    with ExitStack() as ending:
        started = [
            WorkerProcess(stack, APP, **shared, PERDURE_TEST_AGENT=name, PERDURE_TASK_QUEUE=f"{name}-{queue}")
            for name in agents
        ]
        for one in started:
            ending.callback(one.kill)
        for one in started:
            one.wait_ready()
        yield started


async def submit(sessions: Sessions, agent: str = "caller", **spec: Any) -> RunHandle:
    """Hand in a spec."""
    return await sessions.submit(agent, json.dumps(spec))


@pytest.fixture
async def fresh(stack: Stack) -> None:
    """No bucket is left of another test."""
    async with stack.connect() as sessions, sessions.database.driver() as connection:
        await connection.execute("delete from perdure.limit_buckets")
        await connection.execute("delete from perdure.limit_leases")


async def bucket(sessions: Sessions) -> BucketRow | None:
    """The provider's limit as it stands."""
    rows = await list_limits(sessions.database, sessions.tenant)
    return next((row for row in rows if row.name == "provider:scripted"), None)


async def now(sessions: Sessions) -> datetime:
    """What time it is where the limits are kept."""
    async with sessions.database.driver() as connection:
        return await connection.fetchval("select clock_timestamp()")


def most_at_once(stack: Stack, name: str) -> int:
    """How many model calls of a test were under way at once, by the ledger's clock."""
    lines = [*stack.entries(name, "model"), *stack.entries(name, "model_done")]
    under_way, most = 0, 0
    for line in sorted(lines, key=lambda line: (line["at"], line["kind"] == "model")):
        under_way += 1 if line["kind"] == "model" else -1
        most = max(most, under_way)
    return most


@pytest.mark.usefixtures("fresh")
async def test_s05_two_workers_never_ask_more_at_once_than_may_and_all_runs_end(stack: Stack) -> None:
    """Many runs of several model calls each, through a limit of two: nothing hangs, and both workers had some."""
    name, count = uuid.uuid4().hex, max(6, scaled(80))
    with workers(stack, {"providers": {"scripted": {"max_concurrent": 2}}}, "caller", "other"):
        async with stack.connect() as sessions:
            agents = [("caller", "other")[number % 2] for number in range(count)]
            handles = [await submit(sessions, one, name=name, steps=1, latency=0.1) for one in agents]
            for handle in handles:
                assert await finish(sessions, handle) == "completed"
            row = await bucket(sessions)
    assert row is not None
    assert (row.max_concurrent, row.held, row.waiting) == (2, 0, 0)
    asked = stack.entries(name, "model")
    assert len(asked) >= 2 * count
    assert most_at_once(stack, name) <= 2
    assert len({entry["pid"] for entry in asked}) == 2


@pytest.mark.usefixtures("fresh")
async def test_a_rate_is_held_over_two_workers(stack: Stack) -> None:
    """No more requests are sent than the burst and what the rate brings in the time since the first was handed in."""
    name, rate, burst = uuid.uuid4().hex, 2.0, 2
    count = max(10, scaled(60))
    limit = {"requests_per_second": rate, "burst": burst}
    with workers(stack, {"providers": {"scripted": limit}}, "caller", "other"):
        async with stack.connect() as sessions:
            began = time.time()
            handles = [await submit(sessions, ("caller", "other")[number % 2], name=name) for number in range(count)]
            for handle in handles:
                assert await finish(sessions, handle) == "completed"
    times = sorted(entry["at"] for entry in stack.entries(name, "model"))
    assert len(times) <= burst + rate * (times[-1] - began)


@pytest.mark.usefixtures("fresh")
async def test_the_permits_of_a_killed_worker_run_out(stack: Stack) -> None:
    """The one that holds the only permit dies; the other goes on as soon as the lease is over."""
    name = uuid.uuid4().hex
    with workers(stack, {"providers": {"scripted": {"max_concurrent": 1}}, "lease_s": 3}, "caller", "caller") as (
        one,
        two,
    ):
        async with stack.connect() as sessions:
            holding = await submit(sessions, name=name, latency=HELD)
            await stack.until_entries(name, "model")
            pid = stack.entries(name, "model")[0]["pid"]
            waiting = await submit(sessions, name=f"{name}-2")

            async def is_waiting() -> bool:
                row = await bucket(sessions)
                return row is not None and row.waiting == 1

            await eventually(is_waiting, what="a run that waits for the permit")
            row = await bucket(sessions)
            assert row is not None
            assert [lease.session for lease in row.leases if lease.state == "held"] == [holding.session]
            (one if one.pid == pid else two).kill()
            await sessions.cancel(holding.session)
            assert await finish(sessions, waiting) == "completed"
            assert await finish(sessions, holding) == "cancelled"
            await check_session(stack, waiting.session)


@pytest.mark.usefixtures("fresh")
async def test_cancelling_a_run_that_waits_for_a_permit_ends_it(stack: Stack) -> None:
    """Within 2 s by the database's clock, though the permit is held for long; and its place in the queue is free."""
    name = uuid.uuid4().hex
    with workers(stack, {"tenants": {"*": {"max_concurrent": 1}}}, "caller"):
        async with stack.connect() as sessions:
            holding = await submit(sessions, name=name, latency=HELD)
            await stack.until_entries(name, "model")
            waiting = await submit(sessions, name=f"{name}-2")

            async def count(state: str) -> int:
                rows = await list_limits(sessions.database, sessions.tenant)
                return sum(lease.state == state for row in rows for lease in row.leases)

            async def is_waiting() -> bool:
                return await count("waiting") == 1

            await eventually(is_waiting, what="a run that waits for the permit")
            asked = await now(sessions)
            reached = await sessions.cancel(waiting.session, wait_s=60)
            assert reached.state == "cancelled"
            row = await waiting.status()
            assert row.status == "cancelled"
            assert (await now(sessions) - asked).total_seconds() <= allowed_s(2)
            assert (await count("waiting"), await count("held")) == (0, 1)
            assert (await sessions.cancel(holding.session, wait_s=60)).state == "cancelled"
            assert (await count("waiting"), await count("held")) == (0, 0)
    assert stack.entries(f"{name}-2", "model") == []


@pytest.mark.usefixtures("fresh")
async def test_l105_a_refusal_holds_all_workers_back(stack: Stack) -> None:
    """The first requests are refused with a wait: nobody asks before it is over, and then one asks first. All runs end."""
    name, wait = uuid.uuid4().hex, 3.0
    with workers(stack, {"providers": {"scripted": {}}}, "caller", "other"):
        async with stack.connect() as sessions:
            first = await submit(sessions, name=name, refuse=3, after=wait)
            await stack.until_entries(name, "model")

            async def is_blocked() -> bool:
                row = await bucket(sessions)
                return row is not None and row.strikes > 0

            await eventually(is_blocked, what="a limit that holds back")
            agents = ["caller", "other"] * 2
            handles = [first, *[await submit(sessions, one, name=name, refuse=3, after=wait) for one in agents]]
            for handle in handles:
                assert await finish(sessions, handle) == "completed"
    times = [entry["at"] for entry in stack.entries(name, "model")]
    assert len(times) >= 3 + len(handles)
    gaps = [later - earlier for earlier, later in pairwise(times[:4])]
    assert all(gap >= wait - 0.1 for gap in gaps), gaps
