"""Agents that walk a workflow: the session belongs to the thread, whichever host runs it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from perdure import session
from perdure.runtime.rebuild import RebuildReport
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.runtime.temporal import is_open
from perdure.store.unnamed_payloads import find_unnamed
from perdure.store.waits import open_waits
from perdure.uap.session import Session
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONValue
from perdure.upp.turn import Turn
from tests.integration.facts import check_session
from tests.integration.rebuilt_sessions import INDEX, rebuild, take_snapshot, wipe
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.staged_agents import buyer, forgetful
from tests.integration.test_kills import finish

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "tests.integration.staged_agents:app"
GO: list[Any] = ["transition_stage", {"target_stage": "cart"}]
DESK: list[Any] = ["transition_stage", {"target_stage": "desk"}]
COUNT: list[Any] = ["count", {}]


@pytest.fixture(scope="module")
def worker(stack: Stack) -> Iterator[WorkerProcess]:
    process = WorkerProcess(stack, APP).wait_ready()
    yield process
    process.kill()


def add(name: str = "a", **more: Any) -> list[Any]:
    """A call of the task that puts one more into the cart."""
    return ["add", {"name": name, **more}]


def script(*answers: Any, name: str = "a") -> str:
    """The text of an input."""
    return json.dumps({"name": name, "answers": answers})


def told(turn: Turn) -> list[Any]:
    """What stands in the thread of each call: the last line of its words and its stage, or the error."""
    return [_told(item.result) for item in turn.tool_executions]


def _told(result: JSONValue) -> Any:
    if not isinstance(result, dict):
        return result
    return [str(result["content"]).rpartition("\n")[2], result["stage"]]


async def walk_and_go_back() -> list[Any]:
    """Runs of one session, each on what the one before it left, then on earlier checkpoints."""
    chat: Session = session(buyer)
    said: list[Any] = []

    async def run(*answers: Any) -> None:
        turn = await chat.run(script(*answers))
        said.append([told(turn), turn.response.text])

    await run([GO, add()], [add()], "?")
    await run([DESK], [["count", {}]], "?")
    await chat.restore(chat.checkpoints[1].id)
    await run([COUNT, add()], "?")
    await chat.restore(chat.checkpoints[0].id)
    await run([COUNT], "?")
    await chat.restore(chat.checkpoints[0].id)
    said.append(told(await chat.resume()))
    await run([["terminate_session", {}]], [COUNT], "?")
    await run("?")
    return said


async def test_the_session_belongs_to_the_thread(stack: Stack, worker: WorkerProcess) -> None:
    """A run goes on where the last one left it; a restored checkpoint has its stage and its values; both hosts agree."""
    here = await walk_and_go_back()
    async with stack.connect():
        there = await walk_and_go_back()
    assert there == here
    cart, desk = (
        "add count ask transition_stage terminate_session look",
        "pay ship transition_stage terminate_session look",
    )
    assert here == [
        [[["Successfully transitioned from 'shelf' to 'cart'.", "cart"], ["1", "cart"], ["2", "cart"]], cart],
        [[["Successfully transitioned from 'cart' to 'desk'.", "desk"], "Error: Task 'count' not found in stage 'desk'"], desk],
        [[['{"items":2}', "cart"], ["3", "cart"]], cart],
        [[['{"items":1}', "cart"]], cart],
        [["Successfully transitioned from 'shelf' to 'cart'.", "cart"], ["1", "cart"], ["2", "cart"]],
        [[["Session terminated.", ""], "Error: Session not found"], "look"],
        [[], "search transition_stage terminate_session look"],
    ]  # fmt: skip


async def walk_forgetfully() -> list[Any]:
    """Runs of a session whose model is sent nothing of the ones before."""
    chat: Session = session(forgetful)
    turns = [await chat.run(script(*answers)) for answers in ([[GO, add()]], ["?"], [[add(), COUNT]])]
    return [[told(turn), turn.response.text] for turn in turns]


async def test_what_a_model_is_not_sent_counts_all_the_same(stack: Stack, worker: WorkerProcess) -> None:
    """Middleware that shortens the history leaves the thread as it is, and so the session."""
    here = await walk_forgetfully()
    async with stack.connect():
        assert await walk_forgetfully() == here
    assert here[1][1].startswith("add count ")
    assert here[2][0] == [["2", "cart"], ['{"items":2}', "cart"]]


async def submit(sessions: Sessions, *answers: Any, name: str = "a", session: str | None = None) -> RunHandle:
    return await sessions.submit("buyer", script(*answers, name=name), session=session)


async def test_values_stay_out_of_history(stack: Stack, worker: WorkerProcess) -> None:
    """Rule 2: history grows by a constant per step, however large the state is; and a later run has the state."""
    name = uuid.uuid4().hex
    sizes: list[int] = []
    async with stack.connect() as sessions:
        for size in (1, 300_000):
            handle = await submit(sessions, [GO, add(name, size=size)], [add(name, size=size)], name=name)
            assert (await handle.result()).response.text == "end"
            key = SessionKey(sessions.tenant, handle.session)
            await eventually(lambda key=key: is_closed(sessions, key), what="the end of its execution")
            history = await sessions.client.get_workflow_handle(key.workflow_id).fetch_history()
            assert not any(b"xxxx" in event.SerializeToString() for event in history.events)
            sizes.append(sum(event.ByteSize() for event in history.events if not is_of_workflow_task(event)))
        again = await submit(sessions, [COUNT], session=handle.session)
        assert told(await again.result()) == [['{"items":2}', "cart"]]
    assert sizes[1] - sizes[0] < 500
    await check_session(stack, handle.session)
    assert {entry["session"] for entry in stack.entries(name, "add")[2:]} == {handle.session}


async def is_closed(sessions: Sessions, key: SessionKey) -> bool:
    return not await is_open(sessions.client, key)


def is_of_workflow_task(event: HistoryEvent) -> bool:
    """Whether how busy the machine is decides how many of such events there are."""
    return EventType.Name(event.event_type).startswith("EVENT_TYPE_WORKFLOW_TASK_")


async def test_doctor_and_rebuild_know_its_bodies(stack: Stack, worker: WorkerProcess) -> None:
    """Snapshots, values and the definition are named by results: no repair deletes them. A rebuilt index is the same."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, [GO, add()], [DESK, add()])
        await finish(sessions, handle)
        key = SessionKey(sessions.tenant, handle.session)
        quiet = text(
            "update perdure.session_heads set touched_at = touched_at - interval '5 min' where session_id = :id"
        )
        async with sessions.database.transaction() as connection:
            await connection.execute(quiet, {"id": handle.session})
        assert await find_unnamed(sessions.database, key.tenant, [key.session]) == []
        before = await take_snapshot(sessions.database, key)
        await wipe(sessions.database, key, *INDEX)
        assert await rebuild(sessions, key) == RebuildReport(runs=1, checkpoints=3, tool_calls=4, nodes=1)
        assert await take_snapshot(sessions.database, key) == before


async def test_a_person_approves_a_task_and_a_sub_agent_is_one(stack: Stack, worker: WorkerProcess) -> None:
    """What both give is the task's result: in the state if the task says so; the stage goes on after it."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        asking: list[Any] = [["ask", {"task": "pens"}], ["ask", {}], COUNT]
        handle = await submit(sessions, [GO, *asking, add()], [DESK, ["pay", {"name": name}]], "?", name=name)
        (wait,) = await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
        await sessions.answer(wait.id, {"decision": "approve"}, by="test")
        turn = await handle.result()
    assert told(turn) == [
        ["Successfully transitioned from 'shelf' to 'cart'.", "cart"],
        ['"about pens"', "cart"],
        "Error: Invalid arguments for task 'ask': $: 'task' is a required property",
        ['{"advice":"about pens"}', "cart"],
        ["1", "cart"],
        ["Successfully transitioned from 'cart' to 'desk'.", "desk"],
        ['"paid"', "desk"],
    ]
    assert turn.response.text == "pay ship transition_stage terminate_session look"
    assert [item.approved for item in turn.tool_executions][-1] is True
    assert len(stack.entries(name, "pay")) == 1
