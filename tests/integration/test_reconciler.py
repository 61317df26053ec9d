"""The reconciler on real servers: rows and executions that disagree agree again, whoever killed what; and nothing else is touched."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

from perdure.runtime.executions import key_of
from perdure.runtime.reconciler import Reconciler
from perdure.runtime.sweep import Sweep
from perdure.uap.session_key import SessionKey
from tests.integration.agents import HELD
from tests.integration.facts import check_session
from tests.integration.reconciling import AT_ONCE, execute
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_kills import finish, spec, submit
from tests.scale import scaled


async def test_rounds_with_the_defaults(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Every kind of round is made by what a process makes of itself when nobody tells it anything else."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, spec(steps=0))
        await handle.result()
        reconciler = Reconciler(sessions.client, sessions.database)
        for _ in range(2):
            for work in (
                reconciler.wake_lost_runs,
                reconciler.wake_lost_stages,
                reconciler.end_strays,
                reconciler.mend_rows,
            ):
                assert isinstance(await work(), int)
        sweep = Sweep(sessions.client, sessions.database)
        for _ in range(5):  # the fifth looks for silent runs
            assert isinstance(await sweep.look(), int)
        assert await sweep.fold() == 0
        assert isinstance(await Sweep(sessions.client, sessions.database, fold_after=timedelta(days=9)).fold(), int)


async def test_l35_two_recoverers_make_one_execution(stack: Stack, steady_worker: WorkerProcess) -> None:
    """L35, L37: a lost run is woken by several processes at the same moment: it is adopted once and ends once."""
    values = spec(steps=3, latency=HELD, tool="none")
    async with stack.connect() as sessions, stack.connect() as others:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model")
        await sessions.client.get_workflow_handle(handle.accepted.key.workflow_id).terminate("by hand")
        reconcilers = [Reconciler(one.client, one.database, pace=AT_ONCE) for one in (sessions, others, sessions)]
        await asyncio.gather(*(one.wake_lost_runs() for one in reconcilers))
        await stack.until_entries(values["name"], "model", 2)
        stack.release(values)
        assert await finish(sessions, handle) == "completed"
    facts = await check_session(stack, handle.session, values["name"], storing_s=0.5)
    assert [event.type for event in facts.events].count("run.adopted") == 1


async def test_a_session_that_an_ended_run_holds_is_freed(stack: Stack, steady_worker: WorkerProcess) -> None:
    """The head says that an ended run is active, so the queue waits for ever: the reconciler frees it, and it is taken."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, spec(steps=0))
        await handle.result()
        key = handle.accepted.key
        hold = "update perdure.session_heads set active_run = :run where tenant_id = :tenant and session_id = :session"
        await execute(sessions, key, hold, run=handle.id)
        blocked = await submit(sessions, spec(steps=0), session=handle.session)
        assert (await blocked.status()).status == "queued"
        await Reconciler(sessions.client, sessions.database, pace=AT_ONCE).mend_rows()
        assert await finish(sessions, blocked) == "completed"
    await check_session(stack, handle.session)


async def test_l103_the_database_is_away_at_a_runs_end(stack: Stack, steady_worker: WorkerProcess) -> None:
    """L103: PostgreSQL dies again and again while a run ends: its status is right once it is back, and so is the next run."""
    values = spec(steps=1, latency=1.0, tool="none")
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model", 2)
    for _ in range(scaled(100)):
        with contextlib.suppress(ProcessLookupError):  # it is not back yet
            stack.kill("postgres")
        await asyncio.sleep(0.3)
    async with stack.reconnect() as sessions:
        again = await sessions.run(handle.id)
        assert await finish(sessions, again) == "completed"
        following = await submit(sessions, spec(steps=0), session=handle.session)
        assert await finish(sessions, following) == "completed"
    await check_session(stack, handle.session, values["name"], storing_s=30)


def test_which_session_a_workflow_is() -> None:
    """A workflow that is no session's is never taken for one."""
    assert key_of("session/t/s/x", "session") == SessionKey("t", "s/x")
    assert key_of("stage/t/s", "stage") == SessionKey("t", "s")
    names = ("session/t", "session//s", "other/t/s", "stage/t/s", "session/t/", "")
    assert [key_of(name, "session") for name in names] == [None] * 6
