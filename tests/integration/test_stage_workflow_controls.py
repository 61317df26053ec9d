"""Stage sessions paused, resumed, terminated and cancelled, and over several executions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator

import pytest
import pytest_asyncio
from temporalio.client import WorkflowExecutionStatus

from tests.integration.stack import Stack, WorkerProcess
from tests.integration.stage_visits import APP, QUEUE, Visit, calling, error_of, visiting

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT = 100


@pytest.fixture(scope="module")
def worker(stack: Stack) -> Iterator[WorkerProcess]:
    environment = {"PERDURE_TASK_QUEUE": QUEUE, "PERDURE_CONTINUE_AS_NEW_EVENTS": str(LIMIT)}
    process = WorkerProcess(stack, APP, **environment).wait_ready()
    yield process
    process.kill()


@pytest_asyncio.fixture(loop_scope="module")
async def visit(stack: Stack, worker: WorkerProcess) -> AsyncGenerator[Visit]:
    async with visiting(stack) as opened:
        yield opened


async def test_a_paused_session_ends_its_task_and_takes_nothing_else(stack: Stack, visit: Visit) -> None:
    """What waits is done once it is resumed, in its order."""
    running = await visit.send(calling("add", seconds=1.0))
    await stack.until_entries(visit.id, "begun")
    await visit.signal("pause", {"id": "p"})
    await visit.until_status("paused")
    assert (await visit.settled(running)).body["result"] == 1
    waiting = [await visit.send(calling("add")) for _ in range(2)]
    await visit.executions()
    assert [row.state for row in (await visit.history())[1:]] == ["queued"] * 2
    await visit.signal("resume", {"id": "r"})
    assert [(await visit.settled(row)).body["result"] for row in waiting] == [2, 3]
    events = await visit.events()
    assert [events.count(kind) for kind in ("stage.paused", "stage.resumed")] == [1, 1]


async def test_a_control_is_applied_once_whenever_it_comes_again(visit: Visit) -> None:
    """Also in a later execution."""
    for name, ident in (("pause", "p"), ("resume", "r")):
        await visit.signal(name, {"id": ident})
        await visit.until_status("paused" if name == "pause" else "open")
    await visit.executions()
    await visit.signal("pause", {"id": "p"})
    await visit.executions()
    assert (await visit.row()).session.status == "open"


async def test_an_answer_given_while_the_session_is_paused_counts_once_it_is_resumed(
    stack: Stack, visit: Visit
) -> None:
    row = await visit.send(calling("open_door"))
    await visit.until_state(row, "waiting")
    await visit.signal("pause", {"id": "p"})
    await visit.until_status("paused")
    await visit.answer(row, {"approved": True})
    await visit.executions()
    assert stack.entries(visit.id) == []
    await visit.signal("resume", {"id": "r"})
    assert (await visit.settled(row)).body["result"] == "softly"


async def test_terminating_stops_the_task_that_runs(stack: Stack, visit: Visit) -> None:
    """Nothing of it is stored, and all that is open is answered that there is no such session."""
    running = await visit.send(calling("knock", seconds=60.0))
    queued = await visit.send(calling("add"))
    await stack.until_entries(visit.id, "begun")
    await visit.signal("terminate", {"id": "t", "reason": "enough"})
    assert [(await visit.settled(row)).status for row in (running, queued)] == [404, 404]
    row = await visit.row()
    assert (row.session.status, row.ended_reason, row.open_actions) == ("terminated", "enough", 0)
    (execution,) = await visit.executions()  # it has waited for the activity
    assert execution.status is WorkflowExecutionStatus.COMPLETED
    assert stack.entries(visit.id, "done") == []
    assert await visit.state() == {}
    assert (await visit.events()).count("stage.terminated") == 1


async def test_terminating_ends_a_wait(visit: Visit) -> None:
    row = await visit.send(calling("open_door"))
    await visit.until_state(row, "waiting")
    await visit.signal("terminate")
    assert (await visit.settled(row)).status == 404
    await visit.executions()


async def test_cancelling_the_workflow_ends_the_session(stack: Stack, visit: Visit) -> None:
    """As Temporal's own page or command does it."""
    row = await visit.send(calling("knock", seconds=60.0))
    await stack.until_entries(visit.id, "begun")
    await visit.handle.cancel()
    assert (await visit.settled(row)).status == 404
    assert (await visit.row()).ended_reason == "its workflow was cancelled"
    (execution,) = await visit.executions()
    assert execution.status is WorkflowExecutionStatus.CANCELED
    assert stack.entries(visit.id, "done") == []


async def test_a_long_inbox_goes_on_in_another_execution(visit: Visit) -> None:
    """Past the limit, between two actions; nothing is done twice, and Temporal still shows the stage."""
    count = 25
    await visit.pause()
    rows = [await visit.send(calling("add"), wake=False) for _ in range(count)]
    await visit.signal("resume", {"id": "r"})
    assert [(await visit.settled(row)).body["result"] for row in rows] == list(range(1, count + 1))
    executions = (await visit.executions())[1:]
    assert len(executions) >= 2
    assert [item.status for item in executions] == [
        *[WorkflowExecutionStatus.CONTINUED_AS_NEW] * (len(executions) - 1), WorkflowExecutionStatus.COMPLETED,
    ]  # fmt: skip
    assert executions[-1].search_attributes["PerdureStage"] == ["hall"]
    lengths = [item.history_length for item in executions]
    assert max(lengths) <= LIMIT + 15, lengths


async def test_a_terminated_execution_is_gone_on_with(stack: Stack, visit: Visit) -> None:
    """Whoever ends it by hand, in Temporal, ends no session: the next one finds what was begun, and the effect class decides."""
    row = await visit.send(calling("knock", seconds=60.0))
    await stack.until_entries(visit.id, "begun")
    await visit.handle.terminate()
    assert (await visit.call("add")).body["result"] == 1
    assert error_of(await visit.settled(row))[0] == "OutcomeUnknown"
    assert len(stack.entries(visit.id, "begun")) == 2
    assert await visit.state() == {"count": 1}


async def test_two_controls_at_once_are_applied_in_their_order(visit: Visit) -> None:
    await asyncio.gather(*(visit.signal("pause", {"id": f"p{number}"}) for number in range(3)))
    await visit.signal("resume", {"id": "r"})
    await visit.until_status("open")
    await visit.executions()
    assert (await visit.events())[1:] == ["stage.paused", "stage.resumed"]
