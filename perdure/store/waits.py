"""What parked runs wait for. A wait is a row that is answered once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Select, or_, select, update

from perdure.errors import UnknownWait
from perdure.store.database import Database
from perdure.store.tables import sessions, waits
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject


@dataclass(frozen=True, slots=True)
class WaitRow:
    """An open or answered wait.

    Attributes:
        key: the session.
        id: the wait's id.
        run: the parked run.
        kind: "outcome" (did a `once` tool have its effect?) or "client_tool" (what was its result?).
        asked: tool name, call id and preview of the arguments.
        asked_at: when.
        answer: what was answered, or None.
        answered_by: who, or None.
        root: the session whose sub-agent's, or its sub-agent's, it is; the session itself if it is nobody's.
        path: the agent's path: the root agent's name and the names of the tools that led to it, joined by `/`.
    """

    key: SessionKey
    id: str
    run: str
    kind: str
    asked: JSONObject
    asked_at: datetime
    answer: JSONObject | None
    answered_by: str | None
    root: str = ""
    path: str = ""


async def open_waits(database: Database, tenant: str, session: str | None = None) -> list[WaitRow]:
    """Waits without an answer, oldest first; of one session and its sub-agents' if it is named."""
    query = _select().where(waits.c.tenant_id == tenant, waits.c.answered_at.is_(None))
    if session is not None:
        query = query.where(or_(waits.c.session_id == session, sessions.c.root_session == session))
    async with database.transaction() as connection:
        rows = (await connection.execute(query.order_by(waits.c.asked_at, waits.c.id))).all()
    return [_wait(row) for row in rows]


async def read_wait(database: Database, tenant: str, wait: str) -> WaitRow:
    """One wait by id.

    Raises:
        UnknownWait: there is none for this tenant.
    """
    query = _select().where(waits.c.tenant_id == tenant, waits.c.id == wait)
    async with database.transaction() as connection:
        row = (await connection.execute(query)).first()
    if row is None:
        raise UnknownWait(f"no wait {wait}; `perdure waits list` shows the open ones")
    return _wait(row)


async def answer_wait(database: Database, tenant: str, wait: str, answer: JSONObject, by: str) -> WaitRow:
    """Answer a wait once.

    Raises:
        UnknownWait: there is no such wait, or it has been answered.
    """
    query = (
        update(waits)
        .where(waits.c.tenant_id == tenant, waits.c.id == wait, waits.c.answered_at.is_(None))
        .values(answer=answer, answered_by=by, answered_at=datetime.now(UTC))
    )
    named = _select().where(waits.c.tenant_id == tenant, waits.c.id == wait)
    async with database.transaction() as connection:
        answered = (await connection.execute(query)).rowcount
        row = (await connection.execute(named)).first() if answered else None
    if row is None:
        raise UnknownWait(f"no open wait {wait}; it may have been answered: `perdure waits list` shows the open ones")
    return _wait(row)


def _select() -> Select[Any]:
    """Waits with the place of their session among those of its root."""
    on = (sessions.c.tenant_id == waits.c.tenant_id) & (sessions.c.id == waits.c.session_id)
    return select(waits, sessions.c.agent, sessions.c.root_session).join_from(waits, sessions, on)


def _wait(row: Row[Any]) -> WaitRow:
    return WaitRow(
        SessionKey(row.tenant_id, row.session_id),
        row.id,
        row.run_id,
        row.kind,
        row.asked,
        row.asked_at,
        row.answer,
        row.answered_by,
        row.root_session or row.session_id,
        row.agent,
    )
