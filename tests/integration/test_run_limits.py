"""Limits of a run and of a session in the durable host: the same as in process, across waits, sub-agents and lost executions."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from temporalio import activity

from perdure.errors import LimitExceeded, SessionLimitReached
from perdure.inprocess import InProcessHost
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.session_limits import run_seconds
from perdure.store.waits import open_waits
from perdure.uap.agent import Agent, agent
from perdure.uap.host import connected
from perdure.uap.options import RunOptions
from perdure.uap.session import session
from perdure.uap.session_limits import SessionLimits
from perdure.upp.function_tool import tool
from perdure.upp.prices import Price
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.upp.tool_retry import ToolRetry
from perdure.upp.tools import ToolContext
from perdure.upp.usage import TokenUsage
from tests.integration.facts import check_session, read_facts
from tests.integration.serving import serving
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit

PRICES = {"scripted": {"scripted": Price(Decimal(1), Decimal(2))}}
USAGE = TokenUsage(1000, 500, 1500)
PATIENCE_S = 15.0
"""How long a run may take that waits for a person; what it does itself takes a moment."""

told: list[str] = []
"""What tools of this process have noted, by the input's text."""


@tool(effect="none")
async def dawdle(seconds: float, name: str) -> str:
    """Take long."""
    told.append(f"{name} began")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        told.append(f"{name} cancelled")
        raise
    return "at last"


@tool(effect="none", approval="human")
async def ask_first(name: str) -> str:
    """Need a person's approval."""
    return "approved"


@tool(effect="idempotent", retry=ToolRetry(max_attempts=3, initial=timedelta(milliseconds=10)))
async def flaky(name: str, context: ToolContext) -> str:
    """Fail twice."""
    told.append(f"{name} {context.attempt} {context.idempotency_key}")
    if context.attempt < 3:
        raise RuntimeError("not yet")
    return "worked"


@tool(effect="none")
async def whose(name: str) -> str:
    """Note the fairness key of the activity that this runs in."""
    told.append(f"{name} {activity.info().priority.fairness_key}")
    return "noted"


def _answer(request: LLMRequest) -> Answer:
    """Follows the input's JSON: {"name", "tool", "seconds", "rounds"}."""
    last = max(place for place, message in enumerate(request.messages) if message.type == "user")
    given: dict[str, Any] = json.loads(request.messages[last].text)
    answered = sum(message.type == "assistant" for message in request.messages[last:])
    if answered >= given.get("rounds", 9):
        return Answer("done", usage=USAGE)
    if given["tool"] == "inner":
        task = json.dumps({**given, "tool": given.get("task", "dawdle")})
        return Answer(tool_calls=[call("inner", task=task)], usage=USAGE)
    more = {"seconds": given.get("seconds", 0)} if given["tool"] == "dawdle" else {}
    return Answer(tool_calls=[call(given["tool"], name=given["name"], **more)], usage=USAGE)


def agents() -> list[Agent]:
    """One that works, and one that has it work."""
    inner = agent(name="inner", model=scripted(_answer), tools=[dawdle, whose])
    return [agent(name="limited", model=scripted(_answer), tools=[dawdle, ask_first, flaky, whose, inner])]


def text(**given: Any) -> str:
    return json.dumps({"name": uuid.uuid4().hex, "tool": "dawdle", **given})


OPTIONS = {
    "steps": RunOptions(max_steps=2),
    "tokens": RunOptions(max_total_tokens=4000),
    "cost": RunOptions(max_cost=Decimal(5)),
    "time": RunOptions(max_duration=timedelta(seconds=8)),
    "time of a sub-agent": RunOptions(max_duration=timedelta(seconds=8)),
}


@pytest.mark.parametrize("limit", OPTIONS)
async def test_each_limit_ends_a_run_alike_in_both_hosts(stack: Stack, limit: str) -> None:
    """With the same error, to the letter; what is under way when the time is over is cancelled, and nothing begins after."""
    timed = limit.startswith("time")
    given = text(tool="inner" if "sub-agent" in limit else "dawdle", seconds=600 if timed else 0)
    (limited,) = agents()

    async def in_process() -> LimitExceeded:
        with connected(InProcessHost(PRICES)), pytest.raises(LimitExceeded) as ended:
            await limited.run(given, options=OPTIONS[limit])
        return ended.value

    async with serving(stack, f"limits-{uuid.uuid4().hex}", agents(), prices=PRICES) as sessions:
        running = asyncio.create_task(in_process())
        handle = await sessions.submit("limited", given, options=OPTIONS[limit])
        with pytest.raises(LimitExceeded) as there:
            await handle.result()
        here = await running
        assert (str(there.value), there.value.code) == (str(here), here.code)
        facts = await read_facts(sessions, handle.session)
    kinds = [event.type for event in facts.events]
    assert kinds[-1] == "run.failed"
    if limit == "time":
        name = json.loads(given)["name"]
        mine = [said for said in told if said.startswith(name)]
        assert sorted(mine) == [*[f"{name} began"] * 2, *[f"{name} cancelled"] * 2]
        assert kinds.count("tool_execution_end") == 1
    await check_session(stack, handle.session)


async def test_the_time_in_which_a_run_is_parked_does_not_count(stack: Stack) -> None:
    """It waits for a person longer than it may take; of its own time that leaves enough."""
    async with serving(stack, f"limits-{uuid.uuid4().hex}", agents()) as sessions:
        options = RunOptions(max_duration=timedelta(seconds=PATIENCE_S))
        handle = await sessions.submit("limited", text(tool="ask_first", rounds=1), options=options)
        (wait,) = await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
        await asyncio.sleep(PATIENCE_S + 0.5)  # longer than the run's time
        assert (await handle.status()).status == "parked"
        await sessions.answer(wait.id, {"decision": "approve"}, by="test")
        assert await finish(sessions, handle) == "completed"
        row = await handle.status()
        assert row.ended_at is not None
        assert row.started_at is not None
        taken = await run_seconds(sessions.database, row.key, handle.id)
        assert taken < (row.ended_at - row.started_at).total_seconds() - PATIENCE_S


async def test_a_tool_is_tried_again_inside_its_call(stack: Stack) -> None:
    """One activity, one idempotency key, and the model sees what came of it in the end."""
    given = text(tool="flaky", rounds=1)
    name = json.loads(given)["name"]
    async with serving(stack, f"limits-{uuid.uuid4().hex}", agents()) as sessions:
        handle = await sessions.submit("limited", given)
        turn = await handle.result()
    assert [execution.result for execution in turn.tool_executions] == ["worked"]
    mine = [said.split() for said in told if said.startswith(name)]
    assert [attempt for _, attempt, _ in mine] == ["1", "2", "3"]
    assert len({key for _, _, key in mine}) == 1


async def test_a_durable_sessions_limits_are_those_of_one_in_process(stack: Stack) -> None:
    """Set when it is begun, changed when it is opened again, and kept across both."""
    given = text(seconds=0, rounds=2)
    async with serving(stack, f"limits-{uuid.uuid4().hex}", agents()) as sessions, stack.connect():
        (limited,) = agents()
        chat = session(limited, limits=SessionLimits(max_steps=4))
        await chat.run(given)
        with pytest.raises(LimitExceeded) as ended:
            await chat.run(given)
        assert ended.value.code == "session_max_steps"
        with pytest.raises(SessionLimitReached, match="max_steps of 4"):
            await chat.run(given)
        again = session(limited, id=chat.id, limits=SessionLimits(max_total_tokens=100_000))
        assert (await again.run(given)).response.text == "done"
        row = await sessions.patch(chat.id, title="as it was")
        assert row.limits == {"max_total_tokens": 100_000}


async def test_a_sessions_activities_carry_its_tenant(stack: Stack) -> None:
    """By it the server serves tenants in turn; a sub-agent's session inherits it, and all activities do."""
    tenant = f"tenant-{uuid.uuid4().hex}"
    async with serving(stack, f"limits-{uuid.uuid4().hex}", agents(), tenant=tenant) as sessions:
        name = uuid.uuid4().hex
        for tool_name in ("whose", "inner"):
            handle = await sessions.submit("limited", text(name=name, tool=tool_name, task="whose", rounds=1))
            await handle.result()
        assert [said for said in told if said.startswith(name)] == [f"{name} {tenant}"] * 2


async def test_the_seconds_of_a_run_leave_out_what_it_was_parked(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Also where several things were waited for at once, and where the execution that waited was lost."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, spec(steps=0))
        assert await finish(sessions, handle) == "completed"
        began = (await handle.status()).started_at
        assert began is not None
        marks = [(1, "parked"), (2, "parked"), (4, "resumed"), (5, "resumed"), (8, "parked"), (9, "adopted")]
        await _write_marks(sessions, handle, began, marks, ended=began + timedelta(seconds=20))
        assert await run_seconds(sessions.database, handle.accepted.key, handle.id) == pytest.approx(
            20 - 4 - 1, abs=0.01
        )


async def _write_marks(
    sessions: Sessions, handle: RunHandle, began: datetime, marks: list[tuple[int, str]], *, ended: datetime
) -> None:
    async with sessions.database.driver() as connection:
        key, seq = handle.accepted.key, 10_000
        for place, (second, kind) in enumerate(marks):
            await connection.execute(
                "insert into perdure.events (tenant_id, session_id, seq, run_id, source, type, data, at) "
                "values ($1, $2, $3, $4, 'run', $5, '{}', $6)",
                key.tenant, key.session, seq + place, handle.id, f"run.{kind}", began + timedelta(seconds=second),
            )  # fmt: skip
        sql = "update perdure.runs set ended_at = $1 where tenant_id = $2 and session_id = $3 and id = $4"
        await connection.execute(sql, ended, key.tenant, key.session, handle.id)
