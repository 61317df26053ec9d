"""The reconciler and runs that wait for a person: what nothing holds is ended, and what a person holds is left alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from temporalio.client import WorkflowExecutionStatus

from perdure.runtime.reconciler import Reconciler
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.orphans import OWNED
from tests.integration import waiting
from tests.integration.reconciling import AT_ONCE, doctor, execute, status_of, until_done
from tests.integration.stack import Stack, eventually


@asynccontextmanager
async def parked(stack: Stack) -> AsyncGenerator[tuple[Sessions, RunHandle]]:
    """A run that waits for a person, while a worker is there."""
    with waiting.worker(stack):
        async with stack.connect() as sessions:
            name = waiting.new_name()
            handle = await waiting.submit(sessions, name, [waiting.call("pay", name)], "done")
            await waiting.asked(sessions, handle)

            async def is_parked() -> bool:
                return (await handle.status()).status == "parked"

            await eventually(is_parked, seconds=90, what="the run parked")
            yield sessions, handle


HELD = "select 1 from perdure.session_heads where tenant_id = :tenant and session_id = :session for update"
SETTLED = (
    (
        "update perdure.runs set status = 'cancelled', ended_at = now() - interval '1 hour' "
        "where tenant_id = :tenant and session_id = :session and id = :run"
    ),
    (
        "update perdure.session_heads set active_run = null, touched_at = now() - interval '1 hour' "
        "where tenant_id = :tenant and session_id = :session"
    ),
    (
        'update perdure.waits set answered_at = now(), answer = \'{"outcome": "ended"}\', delivered = true '
        "where tenant_id = :tenant and session_id = :session"
    ),
    "update perdure.sessions set status = 'idle' where tenant_id = :tenant and id = :session",
)


async def test_an_execution_whose_session_is_gone_is_ended(stack: Stack) -> None:
    """Its rows were deleted by hand: the doctor names the execution, the reconciler ends it, once and for all."""
    async with parked(stack) as (sessions, handle):
        key = handle.accepted.key
        own = [
            f"delete from perdure.{table.name} where tenant_id = :tenant and session_id = :session" for table in OWNED
        ]
        await execute(
            sessions, key, HELD, *own, "delete from perdure.sessions where tenant_id = :tenant and id = :session"
        )
        patient = Reconciler(sessions.client, sessions.database, pace=replace(AT_ONCE, young=timedelta(days=1)))
        assert await patient.end_strays() == 0
        assert await status_of(sessions, key) is WorkflowExecutionStatus.RUNNING
        reconciler = Reconciler(sessions.client, sessions.database, pace=AT_ONCE)

        async def ended() -> bool:
            return await status_of(sessions, key) is not WorkflowExecutionStatus.RUNNING

        await until_done(reconciler.end_strays, ended, "the end of the stray execution")

        async def nothing_found() -> bool:  # Temporal's list lags behind
            found = [(await doctor(sessions, name)).found for name in ("strays", "orphans")]
            return key.session not in str(found)

        await eventually(nothing_found, what="that the doctor finds nothing of the session")


async def test_an_execution_that_holds_nothing_is_ended(stack: Stack) -> None:
    """The rows say that the run has ended, and its execution waits for ever: it is ended, and the session goes on."""
    async with parked(stack) as (sessions, handle):
        key = handle.accepted.key
        await execute(sessions, key, *SETTLED, run=handle.id)
        reconciler = Reconciler(sessions.client, sessions.database, pace=AT_ONCE)

        async def ended() -> bool:
            return await status_of(sessions, key) is WorkflowExecutionStatus.TERMINATED

        await until_done(reconciler.end_strays, ended, "the end of the execution at rest")
        following = await waiting.submit(sessions, waiting.new_name(), "again", session=handle.session)
        assert (await following.result()).response.text == "again"


async def test_a_parked_run_is_left_alone(stack: Stack) -> None:
    """A run that waits for a person is neither lost nor stray nor stuck, however long it waits; its answer is heeded."""
    async with parked(stack) as (sessions, handle):
        key = handle.accepted.key
        old = "update perdure.session_heads set touched_at = now() - interval '1 year' where session_id = :session"
        await execute(sessions, key, old)
        before = (await sessions.client.get_workflow_handle(key.workflow_id).describe()).run_id
        reconciler = Reconciler(sessions.client, sessions.database, pace=AT_ONCE)
        for work in (reconciler.wake_lost_runs, reconciler.end_strays, reconciler.mend_rows):
            await work()
        progress = await doctor(sessions, "progress")
        (line,) = [line for line in progress.found if handle.session in line]
        assert "is not answered" in line
        assert (await sessions.client.get_workflow_handle(key.workflow_id).describe()).run_id == before
        (wait,) = await sessions.waits(handle.session)
        await sessions.answer(wait.id, {"decision": "approve"}, by="Ada")
        assert (await handle.result()).response.text == "done"
