"""The stage workflow on real servers: what becomes of actions, their tasks and what people are asked about them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionStatus

from perdure.errors import WaitStale
from perdure.store.stages.waits import answer_wait
from perdure.uaip.action import Action, ActionKind
from tests.integration.agents import HELD
from tests.integration.stack import Stack, WorkerProcess, eventually
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


async def test_actions_of_every_kind_are_done_in_their_order(visit: Visit) -> None:
    """Handed in together and woken once, each is answered as the ones before it have left the session."""
    await visit.pause()  # else the sweep of a worker wakes it while they are handed in
    actions = [
        Action(ActionKind.HANDSHAKE),
        Action(ActionKind.STAGE_TRANSITION, "room"),
        calling("add", by=2),
        Action(ActionKind.STATE_INPUT, updates={"user.name": "x"}),
        Action(ActionKind.STAGE_TRANSITION, "room"),
        calling("add"),
        calling("rest"),
        Action(ActionKind.TERMINATE_SESSION, reason="done"),
        calling("rest"),
    ]
    rows = [await visit.send(action, wake=False) for action in actions]
    await visit.signal("resume", {"id": "r"})
    await visit.settled(rows[-1])
    history = await visit.history()
    assert [row.ordinal for row in history] == list(range(1, 10))
    assert [(row.status, row.reply.status if row.reply else 0) for row in history] == [
        ("ok", 200), ("input_required", 422), ("ok", 200), ("ok", 200), ("ok", 200), ("error", 422), ("ok", 200),
        ("terminated", 200), ("", 404),
    ]  # fmt: skip
    assert [row.stage for row in history] == ["hall"] * 5 + ["room"] * 3 + [""]
    assert await visit.state() == {"count": 2, "user.name": "x"}
    row = await visit.row()
    assert (row.session.stage, row.session.status, row.ended_reason, row.open_actions) == (
        "room", "terminated", "done", 0,
    )  # fmt: skip
    assert len(await visit.executions()) == 2, "one of the pause, one of all actions"


async def test_temporal_shows_the_stage(visit: Visit) -> None:
    """In its lists by a search attribute, and as the current details of an open execution."""
    await visit.call("add")
    await visit.go("room")
    busy = await visit.send(Action(ActionKind.STAGE_TRANSITION, "hall"))
    await visit.settled(busy)
    asked = await visit.send(calling("open_door"))
    await visit.until_state(asked, "waiting")

    async def listed() -> bool:
        query = (
            f"PerdureStage = 'hall' AND WorkflowId = '{visit.key.stage_workflow_id}' AND ExecutionStatus = 'Running'"
        )
        return [item.id async for item in visit.client.list_workflows(query)] == [visit.key.stage_workflow_id]

    await eventually(listed, what="the stage in Temporal's list")
    status = await visit.handle.query("status")
    assert (status["stage"], status["task"], status["waits_for"]) == ("hall", "open_door", "approval")
    assert status["action"] == asked.id
    details = await visit.details()
    assert "stage `hall`" in details
    assert "`open_door` waits for a person (approval)" in details
    await visit.answer(asked, {"approved": False})
    await visit.settled(asked)
    last = (await visit.executions())[-1]
    assert last.search_attributes["PerdureStage"] == ["hall"]


async def test_a_history_does_not_grow_with_the_state(visit: Visit) -> None:
    """A hundred keys and 300 kB of values later an action costs Temporal what it did before."""
    sizes: list[int] = []
    for updates in ({}, {f"key.{number:03}": "x" * 3000 for number in range(100)}):
        if updates:
            await visit.put(**updates)
            await visit.executions()
        await visit.call("add")
        last = (await visit.executions())[-1]
        history = await visit.client.get_workflow_handle(last.id, run_id=last.run_id).fetch_history()
        sizes.append(sum(event.ByteSize() for event in history.events if not is_of_workflow_task(event)))
    assert sizes[1] < sizes[0] + 200, sizes


def is_of_workflow_task(event: HistoryEvent) -> bool:
    """Whether how busy the machine is decides how many of such events there are."""
    return EventType.Name(event.event_type).startswith("EVENT_TYPE_WORKFLOW_TASK_")


async def test_what_a_task_raised_is_its_answer_and_keeps_nothing(visit: Visit) -> None:
    reply = await visit.call("stumble")
    assert (reply.status, reply.body["status"], error_of(reply)) == (200, "error", ("RuntimeError", "ouch"))
    assert await visit.state() == {}
    assert (await visit.call("add")).body["result"] == 1


async def test_a_task_is_tried_again_as_it_says(stack: Stack, visit: Visit) -> None:
    """Each try begins with the state as it was, under one key; only the last one's changes are kept."""
    assert (await visit.call("push")).body["result"] == 3
    assert await visit.state() == {"push.3": True}
    tries = stack.entries(visit.id, "begun")
    assert [entry["attempt"] for entry in tries] == [1, 2, 3]
    assert len({entry["key"] for entry in tries}) == 1
    assert error_of(await visit.call("push", gives_way=9)) == ("RuntimeError", "stuck at 3")


async def test_a_task_that_takes_too_long_is_answered_in_time(visit: Visit) -> None:
    assert error_of(await visit.call("wait")) == ("TimeoutError", "task 'wait' timed out after 0.3 s")


async def test_arguments_that_do_not_fit_are_refused_and_not_run(stack: Stack, visit: Visit) -> None:
    reply = await visit.call("add", by="two")
    assert reply.status == 422
    assert stack.entries(visit.id, "begun") == []


async def test_a_person_approves_with_other_arguments(stack: Stack, visit: Visit) -> None:
    """Nothing runs before, and what was approved runs once."""
    row = await visit.send(calling("open_door", how="loudly"))
    await visit.until_state(row, "waiting")
    assert stack.entries(visit.id, "begun") == []
    await visit.answer(row, {"approved": True, "arguments": {"how": "slowly"}})
    assert (await visit.settled(row)).body["result"] == "slowly"
    assert await visit.state() == {"door": "slowly"}
    assert len(stack.entries(visit.id, "begun")) == 1


async def test_a_person_denies(stack: Stack, visit: Visit) -> None:
    row = await visit.send(calling("open_door"))
    await visit.answer(row, {"approved": False}, reason="It is late.")
    assert error_of(await visit.settled(row)) == ("Denied", "A person rejected this call. It was not run. It is late.")
    assert stack.entries(visit.id) == []
    assert (await visit.call("look")).body["status"] == "ok"


async def test_nobody_is_asked_about_a_call_that_cannot_be_run(stack: Stack, visit: Visit) -> None:
    """Arguments that do not fit are refused at once, and the session goes on."""
    reply = await visit.settled(await visit.send(calling("open_door", how=7)))
    assert (reply.status, reply.body["task"]) == (422, "open_door")
    assert "stage.waiting" not in await visit.events()
    assert stack.entries(visit.id) == []
    asked = await visit.send(calling("open_door"))
    await visit.answer(asked, {"approved": True})
    assert (await visit.settled(asked)).body["result"] == "softly"


async def test_an_approval_that_nobody_gives_in_time_is_denied_and_says_so(stack: Stack, visit: Visit) -> None:
    row = await visit.send(calling("hurry"))
    assert error_of(await visit.settled(row)) == ("Denied", "Nobody approved this call in time. It was not run.")
    assert stack.entries(visit.id) == []
    with pytest.raises(WaitStale):
        await answer_wait(visit.database, visit.key, row.id, {"approved": True}, by="late")


async def test_an_answer_that_nobody_was_told_of_is_found(visit: Visit) -> None:
    """The one who answered died before the signal: the sweep of a worker sends it."""
    row = await visit.send(calling("open_door"))
    await visit.answer(row, {"approved": True}, tell=False)
    assert (await visit.settled(row)).body["result"] == "softly"


async def test_an_action_that_nobody_was_told_of_is_done(visit: Visit) -> None:
    row = await visit.send(calling("add"), wake=False)
    assert (await visit.settled(row)).body["result"] == 1


async def test_an_action_that_is_delivered_many_times_is_done_once(stack: Stack, visit: Visit) -> None:
    rows = await asyncio.gather(*(visit.send(calling("add", seconds=0.2), key="one") for _ in range(5)))
    assert len({row.id for row in rows}) == 1
    for _ in range(5):
        await visit.signal("wake")
        await visit.signal("answer")
    assert (await visit.settled(rows[0])).body["result"] == 1
    await visit.executions()
    again = await visit.send(calling("add", seconds=0.2), key="one")
    assert again.state == "settled"
    assert len(stack.entries(visit.id, "begun")) == 1
    assert await visit.state() == {"count": 1}


GARBAGE: list[Any] = [None, 1, "text", [1, {"id": 2}], {"id": 7}, {"id": "x" * 300}, {"reason": []}, {"id": None}]


async def test_whatever_is_signalled_ends_nothing(stack: Stack, visit: Visit) -> None:
    """As `temporal workflow signal` may send it, on every name; what cannot be read is counted."""
    row = await visit.send(calling("look", seconds=HELD))
    for name in ("wake", "answer", "pause", "nonsense"):
        for value in GARBAGE:
            await visit.handle.signal(name, value)
    await visit.handle.signal("resume", args=[{"id": "r"}, 2, 3])
    unreadable = 6 + len(GARBAGE)

    async def counted() -> bool:
        return (await visit.handle.query("status"))["unreadable_signals"] == unreadable

    await eventually(counted, what="every signal that could not be read")
    stack.release({"name": visit.id})
    assert (await visit.settled(row)).body["status"] == "ok"
    await visit.executions()
    assert (await visit.row()).session.status == "open"
    assert (await visit.call("look")).body["status"] == "ok"


async def test_a_session_that_is_not_there_has_nothing_done(visit: Visit) -> None:
    """A wake of an id without a row completes at once and creates nothing."""
    gone = Visit(visit.sessions, await visit.row())
    gone.key = visit.key._replace(session="00000000-0000-4000-8000-000000000001")
    await gone.signal("wake")
    await gone.signal("pause", {"id": "p"})
    assert {item.status for item in await gone.executions()} == {WorkflowExecutionStatus.COMPLETED}
    assert await gone.events() == []


async def test_open_actions_of_an_ended_session_are_answered_so(visit: Visit) -> None:
    """They were stored before it ended, while it was paused."""
    await visit.pause()
    rows = [await visit.send(calling("add"), wake=False) for _ in range(3)]
    await visit.signal("terminate", {"id": "t", "reason": "enough"})
    assert [(await visit.settled(row)).status for row in rows] == [404] * 3
    assert await visit.state() == {}
    before = await visit.executions()
    await visit.signal("wake")
    after = await visit.executions()
    assert len(after) == len(before) + 1
    assert {item.status for item in after} == {WorkflowExecutionStatus.COMPLETED}
