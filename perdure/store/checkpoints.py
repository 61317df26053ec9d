"""The index of checkpoints. Temporal's history holds them first; nothing that runs reads them from here but by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.store.tables import checkpoints, inputs, sessions
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

_ALL = """
select c.id, c.run_id, c.record, c.imported_sha, r.first_seq
  from perdure.checkpoints c
  left join perdure.runs r on r.tenant_id = c.tenant_id and r.session_id = c.session_id and r.id = c.run_id
       and c.imported_sha is null
 where c.tenant_id = :tenant and c.session_id = :session
 order by c.imported_sha is null, (c.record ->> 'imported')::integer, r.first_seq, c.step, c.at, c.id
"""


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A checkpoint.

    Attributes:
        id: its id.
        run: the run it belongs to.
        record: everything but its messages' bodies; of one from elsewhere what lists need.
        imported_sha: of one from elsewhere: sha256 of its CheckpointJSON, which is a payload.
        first_seq: number of its run's first event.
    """

    id: str
    run: str
    record: JSONObject
    imported_sha: str | None
    first_seq: int | None


async def last_checkpoint(database: Database, key: SessionKey, run: str) -> JSONObject | None:
    """The record of a run's last checkpoint: only for a run whose execution's history is gone."""
    sql = (
        "select record from perdure.checkpoints where tenant_id = $1 and session_id = $2 and run_id = $3 "
        "and imported_sha is null order by step desc limit 1"
    )
    async with database.driver(key) as connection:
        record = await connection.fetchval(sql, key.tenant, key.session, run)
    return cast("JSONObject | None", record)


async def list_checkpoints(database: Database, key: SessionKey, run: str | None = None) -> list[JSONObject]:
    """The records of a session's checkpoints, or of one run's, oldest first."""
    async with database.reading(key) as connection:
        rows = await read_checkpoints(connection, key)
    return [row.record for row in rows if run in (None, row.run)]


async def read_checkpoints(connection: AsyncConnection, key: SessionKey) -> list[CheckpointRow]:
    """A session's checkpoints in the order of its document: those that it came with, then those taken here."""
    rows = (await connection.execute(text(_ALL).columns(record=checkpoints.c.record.type), key._asdict())).all()
    return [CheckpointRow(row.id, row.run_id, row.record, row.imported_sha, row.first_seq) for row in rows]


async def current_checkpoint(
    connection: AsyncConnection, key: SessionKey, rows: Sequence[CheckpointRow]
) -> CheckpointRow | None:
    """The one that the session stands at: the latest, or the one restored after it; None before the first.

    Args:
        connection: in a transaction.
        key: the session.
        rows: all of its checkpoints, in order.
    """
    query = select(inputs.c.detail).where(
        inputs.c.tenant_id == key.tenant,
        inputs.c.session_id == key.session,
        inputs.c.kind.in_(("restore", "resume")),
        inputs.c.state == "taken",
    )
    moved = cast("JSONObject | None", await connection.scalar(query.order_by(inputs.c.ordinal.desc()).limit(1)))
    imported = select(sessions.c.imported).where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
    came = cast("JSONObject", await connection.scalar(imported) or {})
    named, since = (moved.get("checkpoint"), moved.get("seq")) if moved else (came.get("checkpoint"), 0)
    later = any(row.first_seq is not None and row.first_seq > cast(int, since or 0) for row in rows)
    found = None if later else next((row for row in rows if row.id == named), None)
    return found or (rows[-1] if rows else None)
