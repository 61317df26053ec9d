"""Workers and servers that die between steps: no session is blocked, none is forgotten, and nothing is shown that is not stored."""

from __future__ import annotations

import asyncio
from pathlib import Path

from perdure.runtime.reconciler import Reconciler
from perdure.store.events import Event, read_events
from perdure.uap.ids import new_id
from tests.integration.agents import HELD
from tests.integration.facts import check_session, read_facts
from tests.integration.reconciling import AT_ONCE, doctor, execute
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_kills import finish, spec, submit
from tests.scale import scaled


async def test_a_run_that_the_head_forgot_is_gone_on_with(stack: Stack) -> None:
    """The head was restored without its active run while no worker was there: the run is made active, and completes."""
    values = spec(steps=2, seconds=HELD, tool="none")
    first = WorkerProcess(stack).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "tool")
        first.kill()
        stack.release(values)
        key = handle.accepted.key
        await sessions.client.get_workflow_handle(key.workflow_id).terminate("by hand")
        forget = (
            "update perdure.session_heads set active_run = null where tenant_id = :tenant and session_id = :session"
        )
        await execute(sessions, key, forget)
        check = await doctor(sessions, "runs", repair=True)
        assert f"run {handle.id} is running and does not count as active" in str(check.found)
        await Reconciler(sessions.client, sessions.database, pace=AT_ONCE).wake_lost_runs()
        second = WorkerProcess(stack).wait_ready()
        try:
            assert await finish(sessions, handle) == "completed"
        finally:
            second.kill()
    await check_session(stack, handle.session, values["name"], storing_s=0.5)


async def test_what_a_stuck_run_waits_for_is_said(stack: Stack) -> None:
    """Without a worker a run does not get on: the doctor says so, and why, and it is no question of a person's."""
    values = spec(steps=2, latency=HELD, tool="none")
    first = WorkerProcess(stack).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model")
        first.kill()
        stack.release(values)
        old = "update perdure.session_heads set touched_at = now() - interval '1 hour' where session_id = :session"
        await execute(sessions, handle.accepted.key, old)
        check = await doctor(sessions, "progress")
        (line,) = [line for line in check.found if handle.session in line]
        assert not check.ok
        assert f"run {handle.id} has written nothing since" in line
        second = WorkerProcess(stack).wait_ready()
        try:
            assert await finish(sessions, handle) == "completed"
        finally:
            second.kill()
        assert handle.session not in str((await doctor(sessions, "progress")).found)


async def test_l36_kills_between_steps_never_block_a_session(stack: Stack, tmp_path: Path) -> None:
    """L36: a session's inputs wait for one another; workers die between its steps, and all come to their end in order."""
    values = [spec(steps=2, tool="none") for _ in range(scaled(40))]
    session = new_id()
    worker = WorkerProcess(stack, PERDURE_CRASH_AT="call_tool.reporting").wait_ready()
    async with stack.connect() as sessions:
        handles = [await submit(sessions, one, session=session, create=True) for one in values]
        for number in range(len(values)):
            await asyncio.to_thread(worker.wait_dead, 120)
            point = "generate.reporting" if number % 2 else "call_tool.reporting"
            last = {} if number == len(values) - 1 else {"PERDURE_CRASH_AT": point}
            worker = WorkerProcess(stack, **last).wait_ready()
        try:
            for handle in handles:
                assert await finish(sessions, handle) == "completed"
        finally:
            worker.kill()
    facts = await check_session(stack, session, *(one["name"] for one in values))
    begun = [event.run for event in facts.events if event.type == "run.started"]
    assert begun == [handle.id for handle in handles]


async def test_l42_nothing_is_shown_that_is_not_stored(stack: Stack) -> None:
    """L42: worker and Temporal die mid-run: the run goes on, and all that a viewer was shown before and after is stored."""
    values = spec(steps=3, latency=0.3, tool="none")
    first = WorkerProcess(stack).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)

        async def watch() -> list[Event]:
            return [event async for event in handle.events()]

        viewer = asyncio.create_task(watch())
        await stack.until_entries(values["name"], "model", 2)
        stack.kill("temporal")
        first.kill()
        second = WorkerProcess(stack).wait_ready()
        try:
            async with asyncio.timeout(90):
                shown = await viewer
        finally:
            second.kill()
        stored = {event.seq: event for event in await read_events(sessions.database, handle.accepted.key, after=0)}
        assert [event for event in shown if stored.get(event.seq) != event] == []
        assert shown[-1].type == "run.completed"
        assert (await read_facts(sessions, handle.session)).runs == {handle.id: "completed"}
