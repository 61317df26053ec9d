"""What a step costs in Temporal's history and in the store: a constant, whatever is said."""

from __future__ import annotations

import json
from typing import Any

from temporalio.api.history.v1 import HistoryEvent

from perdure.runtime.sessions import Sessions
from perdure.store.checkpoints import list_checkpoints
from perdure.uap.session_key import SessionKey
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit
from tests.scale import scaled

BODY_BYTES = 200_000
MOST_EVENTS = 14
MOST_BYTES = 4096


async def _history(sessions: Sessions, session: str) -> list[HistoryEvent]:
    """Of the session's only execution."""
    handle = sessions.client.get_workflow_handle(SessionKey(sessions.tenant, session).workflow_id)
    return [event async for event in handle.fetch_history_events()]


def _is_lost(event: HistoryEvent) -> bool:
    """Whether a task had to be done again, for its worker stood still: on a busy machine, which is no cost of a step."""
    if event.HasField("activity_task_started_event_attributes"):
        return event.activity_task_started_event_attributes.attempt > 1
    return event.HasField("workflow_task_timed_out_event_attributes")


async def _step_costs(sessions: Sessions, session: str) -> list[tuple[int, int] | None]:
    """Events and bytes between one scheduled model call and the next, per step, oldest first; None if a task was lost."""
    steps: list[list[HistoryEvent]] = []
    for event in await _history(sessions, session):
        if event.activity_task_scheduled_event_attributes.activity_type.name == "perdure.generate":
            steps.append([])
        if steps:
            steps[-1].append(event)
    return [
        None if any(map(_is_lost, step)) else (len(step), sum(event.ByteSize() for event in step))
        for step in steps[:-1]
    ]


async def _run(stack: Stack, values: dict[str, Any]) -> tuple[str, list[tuple[int, int] | None]]:
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        assert await finish(sessions, handle, seconds=900) == "completed"
        return handle.session, await _step_costs(sessions, handle.session)


async def test_a_step_costs_a_constant(stack: Stack, steady_worker: WorkerProcess) -> None:
    """S26: At most 14 events and 4 KB per step of one call, the same at step 10 and at the last, with 200 KB bodies."""
    steps = max(20, scaled(200))
    session, all_costs = await _run(stack, spec(steps=steps, size=BODY_BYTES))
    assert len(all_costs) == steps
    costs, later = ([cost for cost in part if cost is not None] for part in (all_costs, all_costs[9:]))
    assert len(later) > (steps - 9) / 2, all_costs
    assert all(events <= MOST_EVENTS and size <= MOST_BYTES for events, size in costs), costs
    early, late = later[0], later[-1]
    assert late[0] == early[0]
    assert abs(late[1] - early[1]) <= 64, (early, late)
    await check_session(stack, session)


async def test_a_small_run_is_small(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A turn of one answer is one model call, two local activities, and few events."""
    async with stack.connect() as sessions:

        async def undisturbed() -> list[HistoryEvent] | None:
            handle = await sessions.submit("worker", json.dumps(spec(steps=0)))
            await handle.result()
            events = await _history(sessions, handle.session)
            return None if any(map(_is_lost, events)) else events

        events = await eventually(undisturbed, what="a run of which no task was lost")
    assert len(events) <= 16, events


async def test_l91_a_sessions_rows_grow_with_what_is_said(stack: Stack, steady_worker: WorkerProcess) -> None:
    """L91: 1,000 turns, scaled: the second half of them adds as many bytes as the first, in all tables together."""
    half = max(10, scaled(500))
    async with stack.connect() as sessions:
        handle = await submit(sessions, spec(steps=0))
        await handle.result()
        sizes = [await _stored_bytes(sessions, handle.session)]
        for _ in range(2):
            for _ in range(half):
                handle = await submit(sessions, spec(steps=0), session=handle.session)
            assert await finish(sessions, handle, seconds=90 + half) == "completed"
            sizes.append(await _stored_bytes(sessions, handle.session))
        checkpoints = await list_checkpoints(sessions.database, handle.accepted.key)
    assert sizes[2] - sizes[1] <= 1.1 * (sizes[1] - sizes[0])
    assert len(checkpoints) == 2 * half + 1


async def _stored_bytes(sessions: Sessions, session: str) -> int:
    """Of all rows of a session, uncompressed."""
    total = 0
    async with sessions.database.driver() as connection:
        query = "select table_name from information_schema.columns where table_schema = 'perdure' and column_name = 'session_id'"
        for (table,) in await connection.fetch(f"{query} and table_name <> 'session_addresses'"):
            sql = (
                f"select coalesce(sum(octet_length(to_json(t)::text)), 0) from perdure.{table} t where session_id = $1"
            )
            total += await connection.fetchval(sql, session)
    return total
