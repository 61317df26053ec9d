"""What a step costs in Temporal's history: a constant, whatever is said."""

from __future__ import annotations

import json
from typing import Any

from perdure.runtime.sessions import Sessions
from perdure.uap.session_key import SessionKey
from tests.integration.facts import check_session, history_sizes
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_kills import finish, spec, submit
from tests.scale import scaled

BODY_BYTES = 200_000
MOST_EVENTS = 14
MOST_BYTES = 4096


async def _step_costs(sessions: Sessions, session: str) -> list[tuple[int, int]]:
    """Events and bytes between one scheduled model call and the next, per step, oldest first."""
    handle = sessions.client.get_workflow_handle(SessionKey(sessions.tenant, session).workflow_id)
    costs: list[list[int]] = []
    async for event in handle.fetch_history_events():
        detail = event.activity_task_scheduled_event_attributes
        if detail.activity_type.name == "perdure.generate":
            costs.append([0, 0])
        if costs:
            costs[-1][0] += 1
            costs[-1][1] += event.ByteSize()
    return [(events, size) for events, size in costs[:-1]]


async def _run(stack: Stack, values: dict[str, Any]) -> tuple[str, list[tuple[int, int]]]:
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        assert await finish(sessions, handle, seconds=900) == "completed"
        return handle.session, await _step_costs(sessions, handle.session)


async def test_a_step_costs_a_constant(stack: Stack, steady_worker: WorkerProcess) -> None:
    """S26: At most 14 events and 4 KB per step of one call, the same at step 10 and at the last, with 200 KB bodies."""
    steps = max(20, scaled(200))
    session, costs = await _run(stack, spec(steps=steps, size=BODY_BYTES))
    assert len(costs) == steps
    assert all(events <= MOST_EVENTS and size <= MOST_BYTES for events, size in costs), costs
    early, late = costs[9], costs[-1]
    assert late[0] == early[0]
    assert abs(late[1] - early[1]) <= 64, (early, late)
    await check_session(stack, session)


async def test_a_small_run_is_small(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A turn of one answer is one model call, two local activities, and few events."""
    async with stack.connect() as sessions:
        handle = await sessions.submit("worker", json.dumps(spec(steps=0)))
        await handle.result()
        sizes = await history_sizes(sessions, handle.session)
    assert len(sizes) == 1
    assert sizes[0][0] <= 16, sizes
