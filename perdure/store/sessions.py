"""Sessions as lists and pages show them. Lists are ordered by creation and paged by key, never by offset."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Row, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput
from perdure.store.agents import AgentRow
from perdure.store.database import Database
from perdure.store.session_filter import page_filtered
from perdure.store.tables import session_addresses, session_heads, sessions, thread_nodes
from perdure.uap.session_key import SessionKey, unknown_session
from perdure.upp.json_value import JSONObject, JSONValue

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
    """A session as lists show it. `imported` is what a document from elsewhere said of it besides; `limits` is JSON."""

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
    imported: JSONObject | None = None
    limits: JSONObject | None = None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A thread node.

    Attributes:
        fork_index: the position in its parent's thread at which it leaves it; None for the root, and for a node from
            elsewhere that goes on from all of it, also what is said there later.
        imported: of a node from elsewhere what its document said of it besides: "index" (its place), "thread" (id and
            dates), "children" and "count" (of its messages).
    """

    id: str
    parent: str | None
    name: str | None
    fork_index: int | None
    thread: str
    metadata: JSONObject
    created_at: datetime
    imported: JSONObject | None = None


def _joined() -> Any:
    on = (sessions.c.tenant_id == session_heads.c.tenant_id) & (sessions.c.id == session_heads.c.session_id)
    return select(*_COLUMNS).join_from(sessions, session_heads, on)


async def list_sessions(
    database: Database,
    tenant: str,
    *,
    status: str | None = None,
    metadata: Mapping[str, JSONValue] | None = None,
    before: tuple[datetime, str] | None = None,
    limit: int = 50,
) -> list[SessionRow]:
    """One page of a tenant's sessions, newest first.

    Args:
        database: the store.
        tenant: whose.
        status: only those of this status.
        metadata: only those whose metadata has all of this: by key a text, a number or a boolean, equal as JSON. The keys
            are among those that the deployment lets lists be filtered by.
        before: creation time and id of the last session of the page before.
        limit: at most so many, 1 to `MAX_PAGE`.

    Raises:
        InvalidInput: a limit out of range, or lists cannot be filtered by one of the keys or values.
        FilterIncomplete: sessions that are there already are still gone through for one of the keys.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit is {limit}; it must be 1 to {MAX_PAGE}")
    async with database.reading(tenant) as connection:
        query = _joined().where(sessions.c.tenant_id == tenant)
        if metadata:
            page = await page_filtered(connection, tenant, metadata, status=status, before=before, limit=limit)
            query = query.join(page, sessions.c.id == page.c.session_id)
            query = query.order_by(page.c.created_at.desc(), page.c.session_id.desc())
        else:
            query = _page(query, status, before, limit)
        rows = (await connection.execute(query)).all()
    return [_session(row) for row in rows]


def _page(query: Any, status: str | None, before: tuple[datetime, str] | None, limit: int) -> Any:
    if status is not None:
        query = query.where(sessions.c.status == status)
    if before is not None:
        query = query.where(tuple_(sessions.c.created_at, sessions.c.id) < before)
    return query.order_by(sessions.c.created_at.desc(), sessions.c.id.desc()).limit(limit)


async def read_session(database: Database, key: SessionKey) -> SessionRow:
    """One session.

    Raises:
        UnknownSession: there is none.
    """
    async with database.reading(key) as connection:
        return await session_of(connection, key)


async def session_of(connection: AsyncConnection, key: SessionKey) -> SessionRow:
    """One session, in a transaction. Raises UnknownSession."""
    query = _joined().where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
    row = (await connection.execute(query)).first()
    if row is None:
        raise unknown_session(key.session)
    return _session(row)


async def read_nodes(database: Database, key: SessionKey) -> list[NodeRow]:
    """A session's thread nodes, oldest first."""
    async with database.reading(key) as connection:
        return await nodes_of(connection, key)


async def nodes_of(connection: AsyncConnection, key: SessionKey) -> list[NodeRow]:
    """A session's thread nodes, those that it came with first, then in the order in which they were made."""
    query = select(thread_nodes).where(thread_nodes.c.tenant_id == key.tenant, thread_nodes.c.session_id == key.session)
    rows = (await connection.execute(query.order_by(thread_nodes.c.created_at, thread_nodes.c.id))).all()
    nodes = [
        NodeRow(
            row.id, row.parent_id, row.name, row.fork_index, row.thread_id, row.metadata, row.created_at, row.imported
        )
        for row in rows
    ]
    return sorted(nodes, key=_came_first)


def _came_first(node: NodeRow) -> int:
    return sys.maxsize if node.imported is None else cast(int, node.imported["index"])


async def find_address(database: Database, key: SessionKey) -> AgentRow:
    """The registered agent of a session: which workers serve it. A sub-agent's has its path for a name.

    Raises:
        UnknownSession: there is no such session, or no worker has ever registered its agent.
    """
    query = select(session_addresses).where(
        session_addresses.c.tenant_id == key.tenant, session_addresses.c.session_id == key.session
    )
    async with database.reading() as connection:
        row = (await connection.execute(query)).first()
    if row is None:
        raise unknown_session(key.session)
    return AgentRow(row.name, row.agent_id, row.workflow_type, row.task_queue, row.spec, row.seen_at)


def _session(row: Row[Any]) -> SessionRow:
    values = {name: getattr(row, name) for name in SessionRow.__dataclass_fields__ if name != "key"}
    return SessionRow(key=SessionKey(row.tenant_id, row.id), **values)
