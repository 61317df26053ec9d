"""Faults in strategies, in our own workflow code, and in deploys: nothing spins, and nothing fails that need not."""

from __future__ import annotations

import asyncio
import json

import pytest
from temporalio.client import WorkflowExecutionStatus

from perdure.activities.contracts import SESSION, SessionInput
from perdure.runtime.checks.servers import check_stuck
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.runtime.temporal import is_open
from perdure.uap.session_key import SessionKey
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit


def _workflow_id(handle: RunHandle) -> str:
    return SessionKey("default", handle.session).workflow_id


async def test_an_error_in_a_strategy_fails_the_run(stack: Stack) -> None:
    """S03, S57: A strategy that raises anything ends its run as `failed` with the type; no workflow task is tried again."""
    worker = WorkerProcess(stack, app="tests.integration.broken:app").wait_ready()
    try:
        async with stack.connect() as sessions:
            for name in ("broken_key", "broken_type", "broken_base"):
                handle = await sessions.submit(name, json.dumps(spec()))
                assert await finish(sessions, handle) == "failed"
                error = (await handle.status()).error or {}
                assert error["type"] == "StrategyError", error
                await check_session(stack, handle.session)
                assert await _failed_tasks(sessions, handle) == 0
    finally:
        worker.kill()


async def test_what_only_a_deploy_can_cure_is_listed_and_cured(stack: Stack) -> None:
    """A strategy that blocks its thread fails no run: the doctor lists it, and a worker with a cured one finishes it."""
    worker = WorkerProcess(stack, app="tests.integration.broken:app").wait_ready()
    async with stack.connect() as sessions:
        handle = await sessions.submit("blocking", json.dumps(spec()))

        async def listed() -> bool:
            return _workflow_id(handle) in (await check_stuck(sessions.client)).found

        try:
            await eventually(listed, what="the run in the doctor's list")
            assert (await handle.status()).status == "running"
        finally:
            worker.kill()
        cured = WorkerProcess(stack, app="tests.integration.broken:app", PERDURE_TEST_CURED="1").wait_ready()
        try:
            assert await finish(sessions, handle) == "completed"
        finally:
            cured.kill()
    await check_session(stack, handle.session)


async def test_an_error_of_ours_outside_a_strategy_ends_the_execution(stack: Stack) -> None:
    """S38, S03: What begin_run cannot do fails the execution with its type; the workflow task is not tried for ever."""
    worker = WorkerProcess(stack).wait_ready()
    try:
        async with stack.connect() as sessions:
            handle = await submit(sessions, spec(steps=0))
            await handle.result()
            client, key = sessions.client, SessionKey("default", handle.session)

            async def closed() -> bool:
                return not await is_open(client, key)

            await eventually(closed)
            started = await client.start_workflow(
                SESSION,
                SessionInput("default", handle.session, "nobody"),
                id=_workflow_id(handle),
                task_queue="perdure",
            )
            with pytest.raises(Exception, match="failed"):
                async with asyncio.timeout(90):
                    await started.result()
            described = await started.describe()
            assert described.status is WorkflowExecutionStatus.FAILED
            assert await _failed_tasks(sessions, handle) == 0
    finally:
        worker.kill()


async def test_a_worker_without_the_agent_hands_its_calls_on(stack: Stack) -> None:
    """S54: In the middle of a deploy some workers do not know the agent yet: its run goes on, and no tool is in doubt."""
    values = spec(steps=6, calls=2, tool="at_most_once")
    knowing = WorkerProcess(stack).wait_ready()
    unknowing = WorkerProcess(stack, app="tests.integration.broken:app").wait_ready()
    try:
        async with stack.connect() as sessions:
            handle = await submit(sessions, values)
            assert await finish(sessions, handle) == "completed"
            turn = await handle.result()
    finally:
        knowing.kill()
        unknowing.kill()
    assert [execution.is_error for execution in turn.tool_executions] == [False] * 12
    await check_session(stack, handle.session, values["name"])


async def _failed_tasks(sessions: Sessions, handle: RunHandle) -> int:
    """How many workflow tasks an error has failed; one whose thread a busy machine did not let run is none of them."""
    events = sessions.client.get_workflow_handle(_workflow_id(handle)).fetch_history_events()
    failed = [
        event.workflow_task_failed_event_attributes.failure.message
        async for event in events
        if event.HasField("workflow_task_failed_event_attributes")
    ]
    return sum("Potential deadlock detected" not in message for message in failed)
