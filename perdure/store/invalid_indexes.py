"""Indexes that are not valid: a concurrent build that dies leaves one behind, and says nothing of it later."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg
from sqlalchemy import text

from perdure.store.database import Database
from perdure.store.faults import GONE, MENDED
from perdure.store.tables import metadata

_PATIENCE_S = 3600
_INVALID = """
select format('%I.%I', n.nspname, c.relname) as name, c.relname as plain, i.indisunique or i.indisprimary as kept
  from pg_index i
  join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'perdure' and not i.indisvalid
   and not exists (select 1 from pg_stat_progress_create_index p where p.index_relid = i.indexrelid)
 order by 1
"""
_LEFT_BY_REINDEX = ("_ccnew", "_ccold")


@dataclass(frozen=True, slots=True)
class InvalidIndex:
    """An index that serves no read. `known`: the schema has it; else it is the leaving of a build."""

    name: str
    known: bool

    @property
    def cure(self) -> str:
        """The statement that mends it."""
        return f"{'reindex index' if self.known else 'drop index'} concurrently {self.name}"


async def find_invalid(database: Database) -> list[InvalidIndex]:
    """The invalid indexes of the schema, but for those that are being built just now; by name."""
    known = {index.name for table in metadata.sorted_tables for index in table.indexes}
    async with database.reading() as connection:
        rows = (await connection.execute(text(_INVALID))).all()
    return [InvalidIndex(row.name, row.plain in known or (row.kept and not _is_leaving(row.plain))) for row in rows]


def _is_leaving(name: str) -> bool:
    return name.rstrip("0123456789").endswith(_LEFT_BY_REINDEX)


async def mend_index(database: Database, index: InvalidIndex) -> str:
    """Build an index anew, or take it away if the schema has no such; others read and write meanwhile.

    Returns:
        What came of it. Waits for transactions that began before, an hour at most.
    """
    if index.name not in [found.name for found in await find_invalid(database)]:
        return GONE
    async with database.driver() as connection:
        try:
            await connection.execute(index.cure, timeout=_PATIENCE_S)
        except asyncpg.PostgresError as error:
            return f"not repaired: {error}"
    return MENDED
