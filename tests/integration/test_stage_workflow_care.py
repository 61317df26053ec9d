"""Stage sessions whose execution was lost, or outlived them: who finds it and mends it; and what a fault of ours comes to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from datetime import timedelta

import pytest
import pytest_asyncio
from temporalio.client import WorkflowExecutionStatus

from perdure.runtime.checks.check import Check, Scope
from perdure.runtime.checks.examination import examine
from perdure.runtime.reconciler import Reconciler
from perdure.runtime.stage_sweep import StageSweep
from perdure.store.stages.rows import ActionRow, StageSessionRow
from perdure.store.stages.sessions import delete_session
from tests.integration.reconciling import AT_ONCE, execute, until_done
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.stage_house import TENT_S
from tests.integration.stage_visits import APP, QUEUE, Visit, calling, error_of, visiting

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module", autouse=True)
def worker(stack: Stack) -> Iterator[WorkerProcess]:
    process = WorkerProcess(stack, APP, PERDURE_TASK_QUEUE=QUEUE).wait_ready()
    yield process
    process.kill()


@pytest_asyncio.fixture(loop_scope="module")
async def visit(stack: Stack) -> AsyncGenerator[Visit]:
    async with visiting(stack) as opened:
        yield opened


async def waiting(visit: Visit) -> ActionRow:
    """An action that waits for a person, for whom nothing holds its execution but that."""
    return await visit.until_state(await visit.send(calling("open_door")), "waiting")


async def tasks(visit: Visit, *, repair: bool = False) -> Check:
    """What `perdure doctor` says of tasks, however young they are."""
    scope = Scope(visit.database, visit.key.tenant, visit.client, timedelta())
    (check,) = [check async for check in examine(scope, only=["tasks"], repair=repair)]
    return check


async def is_running(visit: Visit) -> bool:
    return (await visit.handle.describe()).status is WorkflowExecutionStatus.RUNNING


@pytest.mark.parametrize("finder", ["sweep", "reconciler", "doctor"])
async def test_a_wait_whose_execution_was_lost_has_one_again(visit: Visit, finder: str) -> None:
    """Terminated by hand, in Temporal: it is found, and waits on for the same answer."""
    row = await waiting(visit)
    await visit.handle.terminate()
    sweep = StageSweep(visit.client, visit.database, silent_s=0.0)
    reconciler = Reconciler(visit.client, visit.database, pace=AT_ONCE)
    if finder == "doctor":
        found = [finding for finding in (await tasks(visit)).findings if finding.key == visit.key]
        assert [finding.what for finding in found if "open execution" in finding.what] == [
            "action 1, task 'open_door' of stage 'hall' of workflow 'house', was begun and has no open execution"
        ]

    async def mend() -> object:
        if finder == "doctor":
            return await tasks(visit, repair=True)
        return await (sweep.look() if finder == "sweep" else reconciler.wake_lost_stages())

    await until_done(mend, lambda: is_running(visit), "an execution")
    await visit.answer(row, {"approved": True})
    assert (await visit.settled(row)).body["result"] == "softly"


async def test_an_execution_whose_session_was_deleted_is_ended(visit: Visit) -> None:
    """Its rows went, and it waits for an answer that nobody can give."""
    await waiting(visit)
    assert await delete_session(visit.database, visit.key)
    reconciler = Reconciler(visit.client, visit.database, pace=AT_ONCE)

    async def ended() -> bool:
        return not await is_running(visit)

    await until_done(reconciler.end_strays, ended, "the end of the execution")
    assert await visit.history() == []


async def test_an_execution_of_a_session_with_work_is_left_alone(visit: Visit) -> None:
    """Also one that waits for a person, for as long as it likes."""
    row = await waiting(visit)
    await Reconciler(visit.client, visit.database, pace=AT_ONCE).end_strays()
    assert await is_running(visit)
    assert [finding for finding in (await tasks(visit)).findings if finding.key == visit.key] == []
    await visit.answer(row, {"approved": False})
    await visit.settled(row)


async def test_a_session_whose_time_is_over_is_marked(stack: Stack) -> None:
    """By the sweep of any worker; its end is in the log."""
    async with stack.connect() as sessions:
        visit = await Visit.begin(sessions, "tent")
        assert (await visit.call("look")).body["result"] == "grass"
        aged = (
            "update perdure.stage_sessions set expires_at = now() - interval '1 s', "
            "settled_at_ms = settled_at_ms - :age_ms where tenant_id = :tenant and id = :session"
        )
        await execute(sessions, visit.key, aged, age_ms=(TENT_S + 1) * 1000)

        async def marked() -> StageSessionRow | None:
            row = await visit.row()
            return row if row.ended_at is not None else None

        row = await eventually(marked, what="the end of a session")
        assert row.session.status == "expired"
        assert (await visit.events())[-1] == "stage.expired"


async def test_a_fault_of_ours_in_a_task_is_its_answer(visit: Visit) -> None:
    """The state cannot be read: the call is answered with the error, and the actions behind it are done."""
    await visit.call("add")
    damage = "update perdure.stage_values set value = 'no json' where tenant_id = :tenant and session_id = :session"
    await execute(visit.sessions, visit.key, damage)
    first, second = [await visit.send(calling("add")) for _ in range(2)]
    for row in (first, second):
        kind, message = error_of(await visit.settled(row))
        assert (kind, "JSONDecodeError" in message) == ("RunError", True)
    assert (await visit.put(count=5)).body["status"] == "ok"
    assert (await visit.call("add")).body["result"] == 6
