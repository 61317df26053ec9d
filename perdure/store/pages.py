"""Pages of what a session holds, each row once, also while rows are added: ordered by what never changes, never by offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.agents import AgentRow, agent_row
from perdure.store.ancestry import read_ancestry
from perdure.store.checkpoints import CheckpointRow
from perdure.store.database import Database
from perdure.store.inputs import RUNS
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.runs import RunRow, queued_row, run_row
from perdure.store.tables import agents, checkpoints, inputs, messages, runs
from perdure.uap.session_key import SessionKey

_IMPORTED = """
select * from (
  select id, run_id, record, imported_sha, null::bigint as first_seq, 0 as place,
         coalesce((record ->> 'imported')::bigint, 0) as rank, step, at collate "C" as moment
    from perdure.checkpoints
   where tenant_id = :tenant and session_id = :session and imported_sha is not null) as known
 where (rank, step, moment, id collate "C") > (:rank, :step, :moment, :id)
 order by rank, step, moment, id collate "C" limit :limit
"""
_TAKEN = """
select c.id, c.run_id, c.record, c.imported_sha, r.first_seq, 1 as place, r.first_seq as rank, c.step, c.moment
  from perdure.runs r
 cross join lateral (
    select id, run_id, record, imported_sha, step, at collate "C" as moment from perdure.checkpoints
     where tenant_id = :tenant and session_id = :session and run_id = r.id and imported_sha is null
       and (step, at collate "C", id collate "C")
           > (case when r.first_seq = :rank then :step else -1 end, case when r.first_seq = :rank then :moment else '' end,
              case when r.first_seq = :rank then :id else '' end)
     order by step, at collate "C", id collate "C" limit :limit) c
 where r.tenant_id = :tenant and r.session_id = :session and r.first_seq >= :rank
 order by r.first_seq, c.step, c.moment, c.id collate "C" limit :limit
"""


@dataclass(frozen=True, slots=True)
class CheckpointPlace:
    """Where a checkpoint stands in its session's order: those that it came with first, then by run and step."""

    place: int
    rank: int
    step: int
    moment: str
    id: str


_START = CheckpointPlace(0, -1, -1, "", "")
_FIRST_TAKEN = CheckpointPlace(1, -1, -1, "", "")


async def list_agents(database: Database, tenant: str) -> list[AgentRow]:
    """All agents that workers have registered, by name."""
    query = select(agents).where(agents.c.tenant_id == tenant).order_by(agents.c.name)
    async with database.reading() as connection:
        rows = (await connection.execute(query)).all()
    return [agent_row(row) for row in rows]


async def page_runs(database: Database, key: SessionKey, *, before: int | None, limit: int) -> list[RunRow]:
    """A session's runs, newest first, those that are still queued too.

    Args:
        database: the store.
        key: the session.
        before: the ordinal of the last run of the page before.
        limit: at most so many.
    """
    query = select(inputs).where(
        inputs.c.tenant_id == key.tenant, inputs.c.session_id == key.session, inputs.c.kind.in_(RUNS)
    )
    if before is not None:
        query = query.where(inputs.c.ordinal < before)
    async with database.reading(key) as connection:
        given = (await connection.execute(query.order_by(inputs.c.ordinal.desc()).limit(limit))).all()
        begun = select(runs).where(
            runs.c.tenant_id == key.tenant,
            runs.c.session_id == key.session,
            runs.c.ordinal.in_([row.ordinal for row in given]),
        )
        known = {row.ordinal: row for row in (await connection.execute(begun)).all()}
    return [run_row(known[row.ordinal]) if row.ordinal in known else queued_row(row) for row in given]


async def list_queued(database: Database, key: SessionKey, *, limit: int) -> list[RunRow]:
    """The runs of a session's inputs that nobody has taken yet, in order.

    Args:
        database: the store.
        key: the session.
        limit: at most so many.
    """
    query = select(inputs).where(
        inputs.c.tenant_id == key.tenant,
        inputs.c.session_id == key.session,
        inputs.c.kind.in_(RUNS),
        inputs.c.state == "queued",
    )
    async with database.reading(key) as connection:
        rows = (await connection.execute(query.order_by(inputs.c.ordinal).limit(limit))).all()
    return [queued_row(row) for row in rows]


async def page_checkpoints(
    database: Database, key: SessionKey, *, after: CheckpointPlace | None, limit: int
) -> list[tuple[CheckpointRow, CheckpointPlace]]:
    """A session's checkpoints in their order, oldest first, each with its place.

    Args:
        database: the store.
        key: the session.
        after: the place of the last checkpoint of the page before.
        limit: at most so many.
    """
    at = after or _START
    rows: list[Row[Any]] = []
    async with database.reading(key) as connection:
        if at.place == 0:
            rows += await _checkpoints_after(connection, key, _IMPORTED, at, limit)
            at = _FIRST_TAKEN
        if len(rows) < limit:
            rows += await _checkpoints_after(connection, key, _TAKEN, at, limit - len(rows))
    return [(_checkpoint(row), CheckpointPlace(row.place, row.rank, row.step, row.moment, row.id)) for row in rows]


async def _checkpoints_after(
    connection: AsyncConnection, key: SessionKey, query: str, at: CheckpointPlace, limit: int
) -> Sequence[Row[Any]]:
    place = {"rank": at.rank, "step": at.step, "moment": at.moment, "id": at.id}
    statement = text(query).columns(record=checkpoints.c.record.type)
    return (await connection.execute(statement, {**key._asdict(), **place, "limit": limit})).all()


def _checkpoint(row: Row[Any]) -> CheckpointRow:
    return CheckpointRow(row.id, row.run_id, row.record, row.imported_sha, row.first_seq)


@dataclass(frozen=True, slots=True)
class PlacedMessage:
    """A message of a thread, and the node and position at which it stands."""

    node: str
    stored: StoredMessage


async def page_messages(
    database: Database, key: SessionKey, node: str, *, after: tuple[str, int] | None, limit: int
) -> list[PlacedMessage]:
    """The thread of a node, oldest first, from the root's beginning; each message with the node that it stands in.

    Args:
        database: the store.
        key: the session.
        node: whose thread.
        after: node and position of the last message of the page before.
        limit: at most so many.
    """
    segments: list[tuple[str, int | None]] = [*await read_ancestry(database, key, node), (node, None)]
    first = 0
    if after is not None:
        names = [name for name, _ in segments]
        if after[0] not in names:
            return []
        segments, first = segments[names.index(after[0]) :], after[1] + 1
    found: list[PlacedMessage] = []
    for name, end in segments:
        positions = await _positions(database, key, name, first, end, limit - len(found))
        if positions:
            stored = await read_messages(database, key, name, first=positions[0], end=positions[-1] + 1)
            found += [PlacedMessage(name, item) for item in stored if item.position in positions]
        if len(found) >= limit:
            break
        first = 0
    return found


async def _positions(
    database: Database, key: SessionKey, node: str, first: int, end: int | None, limit: int
) -> Sequence[int]:
    query = select(messages.c.position).where(
        messages.c.tenant_id == key.tenant,
        messages.c.session_id == key.session,
        messages.c.node_id == node,
        messages.c.position >= first,
        ~messages.c.discarded,
        ~messages.c.scaffold,
    )
    if end is not None:
        query = query.where(messages.c.position < end)
    async with database.reading() as connection:
        return (await connection.execute(query.order_by(messages.c.position).limit(limit))).scalars().all()
