"""Rows of sessions that are gone, in whatever table: a table is looked at if it has a column for the session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, delete, exists, func, select, text

from perdure.store.database import Database
from perdure.store.opening import lock_head
from perdure.store.tables import metadata, session_heads, sessions, stage_sessions
from perdure.uap.session_key import SessionKey

OWNED = [table for table in metadata.sorted_tables if {"tenant_id", "session_id"} <= set(table.c.keys())]
"""The tables that hold what belongs to sessions."""

_STEPS = """
with recursive ids as (
    (select session_id, 1 as n from perdure.{table}
      where tenant_id = :tenant and session_id > :after order by session_id limit 1)
    union all
    select (select t.session_id from perdure.{table} t
             where t.tenant_id = :tenant and t.session_id > ids.session_id order by t.session_id limit 1), ids.n + 1
      from ids where ids.session_id is not null and ids.n < :limit
)"""
_SCAN = """
with ids as (
    select distinct session_id from perdure.{table}
     where tenant_id = :tenant and session_id > :after order by session_id limit :limit
)"""
_KNOWN = """
select ids.session_id, exists (select 1 from perdure.sessions s where s.tenant_id = :tenant and s.id = ids.session_id)
       or exists (select 1 from perdure.stage_sessions s where s.tenant_id = :tenant and s.id = ids.session_id)
       as known from ids where ids.session_id is not null order by ids.session_id
"""


@dataclass(frozen=True, slots=True)
class Orphans:
    """Rows of one table whose session is gone."""

    table: str
    key: SessionKey
    count: int


@dataclass(frozen=True, slots=True)
class OrphanPage:
    """What a page of sessions that a table names came to. `last` is the id of the last, or None after the last page."""

    orphans: list[Orphans]
    last: str | None


async def page_orphans(database: Database, tenant: str, table: Table, *, after: str, limit: int) -> OrphanPage:
    """Look at the next sessions that a table names.

    An index is stepped through from session to session, so that a session with many rows costs no more than one with few.

    Args:
        database: the store.
        tenant: whose.
        table: one of `OWNED`.
        after: the last session of the page before; empty for the first.
        limit: how many sessions.
    """
    sql = (_STEPS if _has_index(table) else _SCAN).format(table=table.name) + _KNOWN
    async with database.reading(tenant) as connection:
        rows = (await connection.execute(text(sql), {"tenant": tenant, "after": after, "limit": limit})).all()
        gone = [row.session_id for row in rows if not row.known]
        own: Any = table.c.session_id
        counts = select(own, func.count()).where(table.c.tenant_id == tenant, own.in_(gone)).group_by(own).order_by(own)
        found: list[Any] = list((await connection.execute(counts)).all()) if gone else []
    orphans = [Orphans(table.name, SessionKey(tenant, row[0]), row[1]) for row in found]
    return OrphanPage(orphans, rows[-1].session_id if len(rows) >= limit else None)


def _has_index(table: Table) -> bool:
    """Whether an index leads from session to session of a tenant."""
    wanted = ["tenant_id", "session_id"]
    whole = [index for index in table.indexes if index.dialect_options["postgresql"]["where"] is None]
    columns = [list(table.primary_key.columns.keys()), *([column.key for column in index.columns] for index in whole)]
    return any(names[:2] == wanted for names in columns)


async def delete_orphans(database: Database, orphans: Orphans) -> int:
    """Delete rows of a table whose session is still gone; how many."""
    table: Any = metadata.tables[f"perdure.{orphans.table}"]
    tenant, session = orphans.key
    gone = [~exists().where(kind.c.tenant_id == tenant, kind.c.id == session) for kind in (sessions, stage_sessions)]
    async with database.transaction(orphans.key) as connection:
        if table is not session_heads:
            await lock_head(connection, orphans.key, stage=table.name.startswith("stage_"))
        own = (table.c.tenant_id == tenant, table.c.session_id == session)
        return (await connection.execute(delete(table).where(*own, *gone))).rowcount
