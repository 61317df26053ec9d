"""Bodies in the claim check that nothing in the store names.

Every row that names one has a column for its hash; results of stages' tools name those of stage sessions inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, text
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.store.opening import lock_head
from perdure.store.orphans import OWNED
from perdure.store.stage_names import read_stage_names
from perdure.store.tables import payloads
from perdure.uap.session_key import SessionKey

QUIET = timedelta(minutes=1)
"""A body is written shortly before what names it: only sessions that nobody has written to for so long are looked at."""

NAMES = [
    (table.name, column.name)
    for table in OWNED
    if table is not payloads
    for column in table.columns
    if "sha" in column.name
]
"""The columns that name bodies, by table and column."""

_NAMED = " ".join(
    f"except select session_id, {column} from perdure.{table} "  # noqa: S608 -- our own tables
    "where tenant_id = :tenant and session_id = any(cast(:sessions as text[]))"
    for table, column in NAMES
)
_UNNAMED = f"""
select u.session_id, u.sha256, octet_length(p.bytes) as size_bytes from (
    select p.session_id, p.sha256 from perdure.payloads p
      join perdure.session_heads h on h.tenant_id = p.tenant_id and h.session_id = p.session_id
     where p.tenant_id = :tenant and p.session_id = any(cast(:sessions as text[])) and not h.deleting
       and h.active_run is null and h.touched_at < clock_timestamp() - make_interval(secs => :quiet_s)
       and substring(p.bytes from 1 for 1) <> decode('0a', 'hex')  -- a payload of Temporal's: a history names it
    {_NAMED}) u
  join perdure.payloads p on p.tenant_id = :tenant and p.session_id = u.session_id and p.sha256 = u.sha256
 order by u.session_id, u.sha256
"""  # noqa: S608 -- our own tables


@dataclass(frozen=True, slots=True)
class UnnamedPayload:
    """A body that no row names; a history may."""

    key: SessionKey
    sha256: str
    size_bytes: int


async def find_unnamed(database: Database, tenant: str, sessions: Sequence[str]) -> list[UnnamedPayload]:
    """The bodies of these sessions that no row names, of sessions that nothing runs in."""
    async with database.reading(tenant) as connection:
        return await _find(connection, tenant, sessions)


async def delete_unnamed(database: Database, payload: UnnamedPayload) -> bool:
    """Delete a body if it is still so; whether it was."""
    key = payload.key
    async with database.transaction(key) as connection:
        await lock_head(connection, key)
        if payload not in await _find(connection, key.tenant, [key.session]):
            return False
        own = (payloads.c.tenant_id == key.tenant, payloads.c.session_id == key.session)
        await connection.execute(delete(payloads).where(*own, payloads.c.sha256 == payload.sha256))
    return True


async def _find(connection: AsyncConnection, tenant: str, sessions: Sequence[str]) -> list[UnnamedPayload]:
    values = {"tenant": tenant, "sessions": list(sessions), "quiet_s": QUIET.total_seconds()}
    rows = (await connection.execute(text(_UNNAMED), values)).all()
    found = [UnnamedPayload(SessionKey(tenant, row.session_id), row.sha256, row.size_bytes) for row in rows]
    keys = dict.fromkeys(payload.key for payload in found)
    named = {key: await read_stage_names(connection, key) for key in keys}
    return [payload for payload in found if payload.sha256 not in named[payload.key]]
