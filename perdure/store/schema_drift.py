"""Where a database's schema is not what its revision made: somebody has changed it by hand, or restored half of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

from sqlalchemy import text
from sqlalchemy.dialects import postgresql

from perdure.store.database import Database
from perdure.store.tables import metadata

_COLUMNS = """
select c.relname || '.' || a.attname as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as needed
  from pg_attribute a join pg_class c on c.oid = a.attrelid
 where c.relnamespace = 'perdure'::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
"""
_INDEXES = "select indexname from pg_indexes where schemaname = 'perdure'"
_FUNCTIONS = "select distinct proname from pg_proc where pronamespace = 'perdure'::regnamespace"
_OURS = "perdure.migrations.sql"
_CHANGE = re.compile(r"\b(create(?: or replace)?|drop) function (?:if exists )?perdure\.(\w+)", re.IGNORECASE)
_NOT_OURS = "alembic_version."


async def find_drift(database: Database) -> list[str]:
    """What of the schema is missing, wrong or not ours, a phrase each, in order."""
    async with database.transaction() as connection:
        columns = (await connection.execute(text(_COLUMNS))).all()
        indexes = set(await connection.scalars(text(_INDEXES)))
        functions = set(await connection.scalars(text(_FUNCTIONS)))
    there = {row.name: _column(row.type, needed=row.needed) for row in columns if not row.name.startswith(_NOT_OURS)}
    return [
        *_differences(_known_columns(), there),
        *(f"index {name} is missing" for name in sorted(_known_indexes() - indexes)),
        *(f"function {name} is missing" for name in sorted(known_functions() - functions)),
    ]


def _differences(known: dict[str, str], there: dict[str, str]) -> Iterator[str]:
    for name in sorted(known.keys() | there.keys()):
        if name not in there:
            yield f"column {name} is missing"
        elif name not in known:
            yield f"column {name} is not ours"
        elif known[name] != there[name]:
            yield f"column {name} is {there[name]}; it must be {known[name]}"


def _known_columns() -> dict[str, str]:
    dialect = postgresql.dialect()
    return {
        f"{table.name}.{column.name}": _column(column.type.compile(dialect=dialect), needed=not column.nullable)
        for table in metadata.sorted_tables
        for column in table.columns
    }


def _column(type_: str, *, needed: bool) -> str:
    return type_.lower() + (" not null" if needed else "")


def _known_indexes() -> set[str]:
    return {str(index.name) for table in metadata.sorted_tables for index in table.indexes}


def known_functions() -> set[str]:
    """The SQL functions that the revisions leave, by name."""
    found: set[str] = set()
    for path in sorted(files(_OURS).iterdir(), key=lambda path: path.name):
        if path.name.endswith(".sql"):
            for verb, name in _CHANGE.findall(path.read_text(encoding="utf-8")):
                (found.discard if verb.lower() == "drop" else found.add)(name)
    return found
