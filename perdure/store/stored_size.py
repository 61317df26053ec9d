"""How many bytes sessions' rows take. Only rows: what indexes and free space take belongs to no session."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Table

from perdure.store.database import Database
from perdure.store.orphans import OWNED
from perdure.store.tables import sessions

_ROW_BYTES = 28  # PostgreSQL's header of a row and the pointer to it
_SESSIONS = """
select id from perdure.sessions
 where tenant_id = $1 and (id = any($2::text[]) or root_session = any($2::text[]))
"""


async def stored_bytes(database: Database, tenant: str, session_ids: Collection[str]) -> int:
    """Bytes of all rows of sessions and of their sub-agents' sessions, compressed as they are stored.

    Args:
        database: the store.
        tenant: whose.
        session_ids: those that do not exist count nothing.
    """
    async with database.driver() as connection:
        found = await connection.fetch(_SESSIONS, tenant, list(session_ids))
        return int(await connection.fetchval(_SIZES, tenant, [row["id"] for row in found]))


def _size_of(table: Table, session: str) -> str:
    columns = "".join(f' + coalesce(pg_column_size("{column.name}"), 0)' for column in table.c)
    return (
        f"select coalesce(sum({_ROW_BYTES}{columns}), 0) as bytes from {table.fullname}"  # noqa: S608 - our own tables
        f" where tenant_id = $1 and {session} = any($2::text[])"
    )


_PARTS = [_size_of(sessions, "id"), *(_size_of(table, "session_id") for table in OWNED)]
_SIZES = f"select sum(bytes)::bigint from ({' union all '.join(_PARTS)}) as sized"  # noqa: S608 - likewise
