"""What is new in a session since a reader looked last: by number, so that nothing is read twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.checkpoints import CheckpointRow
from perdure.store.database import Database
from perdure.store.sessions import NodeRow, SessionRow, nodes_of, session_of
from perdure.store.tables import checkpoints, runs, session_heads, sessions
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

_CHECKPOINTS = """
select c.id, c.run_id, c.record, c.imported_sha, r.first_seq
  from perdure.checkpoints c
  left join perdure.runs r on r.tenant_id = c.tenant_id and r.session_id = c.session_id and r.id = c.run_id
       and c.imported_sha is null
 where c.tenant_id = :tenant and c.session_id = :session and (:since = 0 or r.first_seq >= :since)
 order by c.imported_sha is null, (c.record ->> 'imported')::integer, r.first_seq, c.step, c.at, c.id
"""
_MOVED = """
select i.detail from perdure.inputs i
 where i.tenant_id = :tenant and i.session_id = :session and i.kind in ('restore', 'resume') and i.state = 'taken'
 order by i.ordinal desc limit 1
"""


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a run stands.

    Attributes:
        first_seq: number of its first event.
        status: "running", "completed" and so on.
        step: its last step.
    """

    id: str
    node: str
    start: int
    first_seq: int
    status: str
    step: int
    is_open: bool


@dataclass(frozen=True, slots=True)
class SessionNews:
    """A session at one moment, without bodies of messages.

    Attributes:
        row: the session.
        discards: how often messages have left a thread.
        usage_by_agent: TokenUsage JSON by agent path; None before a run has ended.
        nodes: all of them, in the order of the session's document.
        runs: those that began since.
        checkpoints: those of these runs, in the order of the session's document; of the first look all.
        moved: what restored a checkpoint last: {"checkpoint", "seq"}.
    """

    row: SessionRow
    discards: int
    usage_by_agent: dict[str, JSONObject] | None
    nodes: list[NodeRow]
    runs: list[RunPlace]
    checkpoints: list[CheckpointRow]
    moved: JSONObject


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """Where a message stands. `hidden`: it is no part of the thread. `scaffold`: it is the strategy's own."""

    node: str
    position: int
    hidden: bool
    scaffold: bool


async def read_next_ordinal(database: Database, key: SessionKey) -> int | None:
    """The place of the session's next input; None if there is no such session."""
    query = select(session_heads.c.next_ordinal).where(
        session_heads.c.tenant_id == key.tenant, session_heads.c.session_id == key.session
    )
    async with database.transaction() as connection:
        return await connection.scalar(query)


async def read_news(database: Database, key: SessionKey, since: int) -> SessionNews:
    """The session as it is, and its runs from one on.

    Args:
        database: the store.
        key: the session.
        since: `first_seq` of the first run of interest; 0 for all.

    Raises:
        UnknownSession: there is no such session.
    """
    values = {**key._asdict(), "since": since}
    async with database.transaction(key) as connection:
        await connection.execute(text("set transaction isolation level repeatable read, read only"))
        row = await session_of(connection, key)
        on = (sessions.c.tenant_id == session_heads.c.tenant_id) & (sessions.c.id == session_heads.c.session_id)
        head = (
            select(session_heads.c.discards, sessions.c.usage_by_agent)
            .join_from(sessions, session_heads, on)
            .where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
        )
        counts = (await connection.execute(head)).one()
        taken = text(_CHECKPOINTS).columns(record=checkpoints.c.record.type)
        found = (await connection.execute(taken, values)).all()
        moved = await connection.scalar(text(_MOVED).columns(detail=checkpoints.c.record.type), key._asdict())
        return SessionNews(
            row=row,
            discards=counts.discards,
            usage_by_agent=counts.usage_by_agent,
            nodes=await nodes_of(connection, key),
            runs=await _runs(connection, key, since),
            checkpoints=[
                CheckpointRow(one.id, one.run_id, one.record, one.imported_sha, one.first_seq) for one in found
            ],
            moved=cast("JSONObject | None", moved) or {},
        )


async def _runs(connection: AsyncConnection, key: SessionKey, since: int) -> list[RunPlace]:
    query = select(runs).where(
        runs.c.tenant_id == key.tenant, runs.c.session_id == key.session, runs.c.first_seq >= since
    )
    return [
        RunPlace(
            row.id, row.node_id, row.start_position, row.first_seq, row.status, row.step, is_open=row.ended_at is None
        )
        for row in await connection.execute(query.order_by(runs.c.first_seq))
    ]


async def read_places(database: Database, key: SessionKey, first: Mapping[str, int]) -> list[MessagePlace]:
    """Where messages stand, without their bodies, by node and position.

    Args:
        database: the store.
        key: the session.
        first: by node, the position to begin with.
    """
    sql = (
        "select m.node_id, m.position, m.discarded or m.scaffold as hidden, m.scaffold "
        "from unnest($3::text[], $4::integer[]) as n(id, first) join perdure.messages m "
        "on m.node_id = n.id and m.position >= n.first where m.tenant_id = $1 and m.session_id = $2 "
        "order by m.node_id, m.position"
    )
    async with database.driver() as connection:
        rows = await connection.fetch(sql, key.tenant, key.session, list(first), list(first.values()))
    return [MessagePlace(row["node_id"], row["position"], row["hidden"], row["scaffold"]) for row in rows]
