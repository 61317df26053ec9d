"""Runs that are too long for one execution."""

from __future__ import annotations

from tests.integration.facts import check_session, count_activities, history_sizes
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit
from tests.scale import scaled


async def test_a_long_run_continues_as_new(stack: Stack) -> None:
    """S51, S52: A run of many steps goes through several executions, each below its limit, and is one run all the same."""
    steps = max(50, scaled(1000))
    limit = 3000 if steps >= 1000 else 200
    worker = WorkerProcess(stack, PERDURE_CONTINUE_AS_NEW_EVENTS=str(limit)).wait_ready()
    values = spec(steps=steps)
    try:
        async with stack.connect() as sessions:
            handle = await submit(sessions, values)
            assert await finish(sessions, handle, seconds=600) == "completed"
            session, expected = handle.session, {"perdure.generate": steps + 1, "perdure.call_tool": steps}

            async def are_listed() -> bool:
                return await count_activities(sessions, session) == expected

            await eventually(are_listed, what="all executions in Temporal's list, which is late")
            sizes = await history_sizes(sessions, session)
            turn = await handle.result()
    finally:
        worker.kill()
    assert len(sizes) >= 3
    assert max(events for events, _ in sizes) < limit + 1000
    assert turn.cycles == steps + 1
    assert len(turn.messages) == 2 * steps + 2
    assert len(turn.usage.cycles or []) == steps + 1
    await check_session(stack, handle.session, values["name"])
