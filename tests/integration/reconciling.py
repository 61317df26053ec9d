"""What tests of the reconciler share: a pace at which nothing is too young, damage by hand, and rounds until something is so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from sqlalchemy import text
from temporalio.client import WorkflowExecutionStatus

from perdure.runtime.checks.check import Check, Scope
from perdure.runtime.checks.examination import examine
from perdure.runtime.reconciler import Pace
from perdure.runtime.sessions import Sessions
from perdure.uap.session_key import SessionKey
from tests.integration.stack import eventually

AT_ONCE = Pace(young=timedelta(), runs=1000, executions=1000, sessions=10_000, repairs=1000)
"""For tests, which cannot wait until something is old."""


async def execute(sessions: Sessions, key: SessionKey, *statements: str, **values: object) -> None:
    """Damage a session's rows by hand."""
    async with sessions.database.transaction() as connection:
        for statement in statements:
            used = {name: value for name, value in {**key._asdict(), **values}.items() if f":{name}" in statement}
            await connection.execute(text(statement), used)


async def status_of(sessions: Sessions, key: SessionKey) -> WorkflowExecutionStatus | None:
    return (await sessions.client.get_workflow_handle(key.workflow_id).describe()).status


async def until_done(work: Callable[[], Awaitable[object]], done: Callable[[], Awaitable[bool]], what: str) -> None:
    """Make rounds until something is so."""

    async def once() -> bool:
        await work()
        return await done()

    await eventually(once, seconds=90, what=what)


async def doctor(sessions: Sessions, name: str, *, repair: bool = False) -> Check:
    scope = Scope(sessions.database, sessions.tenant, sessions.client)
    (check,) = [check async for check in examine(scope, only=[name], repair=repair)]
    return check
