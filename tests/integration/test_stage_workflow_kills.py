"""Stage sessions whose worker dies by SIGKILL, or lacks a task: what runs again, what is told, and who is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.runtime.checks.check import Scope
from perdure.runtime.checks.examination import examine
from perdure.testing.crash import CRASH_POINTS
from perdure.uaip.action import Action, ActionKind
from tests.integration.agents import HELD
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.stage_visits import APP, QUEUE, Visit, calling, error_of, visiting

pytestmark = pytest.mark.asyncio(loop_scope="module")

POINTS = [point for point in CRASH_POINTS if point.startswith(("take_action.", "run_task.", "control_stage."))]


@contextmanager
def serving(stack: Stack, app: str = APP, **environment: str) -> Generator[WorkerProcess]:
    process = WorkerProcess(stack, app, PERDURE_TASK_QUEUE=QUEUE, **environment).wait_ready()
    try:
        yield process
    finally:
        process.kill()


@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_dies_at_each_point(stack: Stack, tmp_path: Path, point: str) -> None:
    """One action after the other, with a pause between them: each is answered once, and changes the state once."""
    with serving(stack, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")) as first:
        async with visiting(stack) as visit:
            await visit.signal("pause", {"id": "p"})
            await visit.signal("resume", {"id": "r"})
            actions = [calling("add", by=2), Action(ActionKind.STAGE_TRANSITION, "room"), calling("rest")]
            rows = [await visit.send(action) for action in actions]
            await asyncio.to_thread(first.wait_dead)
            with serving(stack):
                replies = [await visit.settled(row) for row in rows]
                await visit.executions()
            assert [reply.body["status"] for reply in replies] == ["ok", "ok", "ok"]
            assert replies[2].body["result"] == 2
            assert await visit.state() == {"count": 2}
            assert await visit.settled_once()
            assert (await visit.row()).session.status == "open"
            begun = stack.entries(visit.id, "begun")
            assert len(begun) == (2 if point == "run_task.ran" else 1)
            assert len({entry["key"] for entry in begun}) == 1


async def test_the_effect_class_decides_after_a_kill(stack: Stack) -> None:
    """Killed in the middle of five tasks: two run again, of one it is told that nobody knows, of two a person is asked."""
    tasks = ["look", "add", "knock", "ring", "ring"]
    async with stack.connect() as sessions:
        with serving(stack) as first:
            visits = [await Visit.begin(sessions) for _ in tasks]
            calls = [calling(task, seconds=HELD) for task in tasks]
            rows = [await visit.send(call) for visit, call in zip(visits, calls, strict=True)]
            for visit in visits:
                await stack.until_entries(visit.id, "begun")
            first.kill()
            for visit in visits:
                stack.release({"name": visit.id})
        with serving(stack):
            look, add, knock, happened, not_done = zip(visits, rows, strict=True)
            await happened[0].answer(happened[1], {"outcome": "done", "result": "seen"})
            await not_done[0].answer(not_done[1], {"outcome": "not_done"})
            replies = [await visit.settled(row) for visit, row in (look, add, knock, happened, not_done)]
            for visit in visits:
                await visit.executions()
    assert [reply.body.get("result") for reply in replies] == ["a door", 1, None, "seen", "rung"]
    assert error_of(replies[2])[0] == "OutcomeUnknown"
    assert [len(stack.entries(visit.id, "begun")) for visit in visits] == [2, 2, 1, 1, 2]


async def test_a_try_that_was_marked_and_not_run_is_not_run(stack: Stack, tmp_path: Path) -> None:
    """Nobody can tell it from one that was: at most once is at most once."""
    with serving(stack, PERDURE_CRASH_AT="run_task.claimed", PERDURE_CRASH_ONCE=str(tmp_path / "c")) as first:
        async with visiting(stack) as visit:
            row = await visit.send(calling("knock"))
            await asyncio.to_thread(first.wait_dead)
            with serving(stack):
                assert error_of(await visit.settled(row))[0] == "OutcomeUnknown"
                await visit.executions()
    assert stack.entries(visit.id) == []


async def test_a_wait_is_still_open_after_everything_was_killed(stack: Stack) -> None:
    """Worker, Temporal and PostgreSQL; the answer is given while no worker runs."""
    async with stack.connect() as sessions:
        with serving(stack):
            visit = await Visit.begin(sessions)
            row = await visit.send(calling("open_door"))
            await visit.until_state(row, "waiting")
            for name in ("temporal", "postgres"):
                stack.kill(name)
    async with stack.reconnect() as sessions:
        visit.sessions = sessions
        await visit.answer(row, {"approved": True}, tell=False)
        with serving(stack):
            assert (await visit.settled(row)).body["result"] == "softly"
            await visit.executions()
    assert len(stack.entries(visit.id, "begun")) == 1


async def test_a_task_that_no_worker_has_waits_for_one_that_does(stack: Stack) -> None:
    """A session stays on its definition: the next version's worker does not answer that the task is gone. It can be ended."""
    async with visiting(stack) as visit:
        with serving(stack):
            assert (await visit.call("add")).body["result"] == 1
            other = await Visit.begin(visit.sessions)
        with serving(stack, "tests.integration.stage_house:cottage"):
            row = await visit.send(calling("add"))

            async def tried() -> str:
                raw = (await visit.handle.describe()).raw_description
                failures = [item.last_failure.message for item in raw.pending_activities if item.attempt > 1]
                return failures[0] if failures else ""

            said = await eventually(tried, what="a try that failed")
            assert "this worker has no function for task 'add' of stage 'hall' of workflow 'house'" in said
            assert (await visit.until_state(row, "running")).attempt == 0
            scope = Scope(visit.database, visit.key.tenant, visit.client, timedelta())
            (check,) = [check async for check in examine(scope, only=["tasks"])]
            (told,) = [finding.what for finding in check.findings if finding.key == visit.key]
            assert "activity perdure.run_task is at attempt" in told
            assert "this worker has no function for task 'add'" in told
            given_up = await other.send(calling("knock"))
            await other.until_state(given_up, "running")
            await other.signal("terminate")
            assert (await other.settled(given_up)).status == 404
            await other.executions()
            newer = await Visit.begin(visit.sessions)
            assert (await newer.call("look")).body["result"] == "a wall"
        with serving(stack):
            assert (await visit.settled(row)).body["result"] == 2
    assert len(stack.entries(visit.id, "begun")) == 2
