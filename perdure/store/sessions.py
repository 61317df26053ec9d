"""Sessions as lists and pages show them. Lists are ordered by creation and paged by key, never by offset."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select, tuple_

from perdure.errors import InvalidInput, UnknownSession
from perdure.store.agents import AgentRow
from perdure.store.database import Database
from perdure.store.tables import agents, session_heads, sessions, thread_nodes
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

_COLUMNS = (
    sessions,
    session_heads.c.active_run,
    session_heads.c.paused,
    session_heads.c.last_seq,
    session_heads.c.late_results,
)
MAX_PAGE = 1000


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as lists show it."""

    key: SessionKey
    agent: str
    agent_id: str
    status: str
    title: str | None
    metadata: JSONObject
    current_node: str | None
    runs: int
    steps: int
    usage: JSONObject
    created_at: datetime
    updated_at: datetime
    active_run: str | None
    paused: bool
    last_seq: int
    late_results: int


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A thread node."""

    id: str
    parent: str | None
    name: str | None
    fork_index: int | None
    thread: str
    metadata: JSONObject
    created_at: datetime


def _joined() -> Any:
    on = (sessions.c.tenant_id == session_heads.c.tenant_id) & (sessions.c.id == session_heads.c.session_id)
    return select(*_COLUMNS).join_from(sessions, session_heads, on)


async def list_sessions(
    database: Database,
    tenant: str,
    *,
    status: str | None = None,
    before: tuple[datetime, str] | None = None,
    limit: int = 50,
) -> list[SessionRow]:
    """One page of a tenant's sessions, newest first.

    Args:
        database: the store.
        tenant: whose.
        status: only those of this status.
        before: creation time and id of the last session of the page before.
        limit: at most so many, 1 to `MAX_PAGE`.

    Raises:
        InvalidInput: a limit out of range.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit is {limit}; it must be 1 to {MAX_PAGE}")
    query = _joined().where(sessions.c.tenant_id == tenant)
    if status is not None:
        query = query.where(sessions.c.status == status)
    if before is not None:
        query = query.where(tuple_(sessions.c.created_at, sessions.c.id) < before)
    query = query.order_by(sessions.c.created_at.desc(), sessions.c.id.desc()).limit(limit)
    async with database.transaction() as connection:
        rows = (await connection.execute(query)).all()
    return [_session(row) for row in rows]


async def read_session(database: Database, key: SessionKey) -> SessionRow:
    """One session.

    Raises:
        UnknownSession: there is none.
    """
    query = _joined().where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
    async with database.transaction() as connection:
        row = (await connection.execute(query)).first()
    if row is None:
        raise UnknownSession(f"no session {key.session}; `perdure sessions list` shows those there are")
    return _session(row)


async def read_nodes(database: Database, key: SessionKey) -> list[NodeRow]:
    """A session's thread nodes, oldest first."""
    query = select(thread_nodes).where(thread_nodes.c.tenant_id == key.tenant, thread_nodes.c.session_id == key.session)
    async with database.transaction() as connection:
        rows = (await connection.execute(query.order_by(thread_nodes.c.created_at, thread_nodes.c.id))).all()
    return [
        NodeRow(row.id, row.parent_id, row.name, row.fork_index, row.thread_id, row.metadata, row.created_at)
        for row in rows
    ]


async def find_address(database: Database, key: SessionKey) -> AgentRow:
    """The registered agent of a session: which workers serve it.

    Raises:
        UnknownSession: there is no such session, or no worker has ever registered its agent.
    """
    on = (agents.c.tenant_id == sessions.c.tenant_id) & (agents.c.name == sessions.c.agent)
    query = (
        select(agents)
        .join_from(sessions, agents, on)
        .where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
    )
    async with database.transaction() as connection:
        row = (await connection.execute(query)).first()
    if row is None:
        raise UnknownSession(f"no session {key.session}; `perdure sessions list` shows those there are")
    return AgentRow(row.name, row.agent_id, row.workflow_type, row.task_queue, row.spec, row.seen_at)


def _session(row: Row[Any]) -> SessionRow:
    values = {name: getattr(row, name) for name in SessionRow.__dataclass_fields__ if name != "key"}
    return SessionRow(key=SessionKey(row.tenant_id, row.id), **values)
