"""Copies of a session that was really run: all its rows, with ids of their own, so that each copy can be woken and goes on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import asyncpg

from perdure.uap.ids import answer_id, checkpoint_id, derive_id, new_id, root_node_id, run_id

_TABLES = ("sessions", "session_heads", "inputs", "thread_nodes", "messages", "runs", "checkpoints", "events")
_OTHERS = (
    "select table_name from information_schema.columns where table_schema = 'perdure' and column_name = 'session_id'"
)
_NO_IDS = ("agent_id", "temporal_run_id", "note_execution")
"""Columns whose ids are not of the session."""
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_WITHIN_S = 3600


async def copy_session(url: str, session: str, count: int) -> list[str]:
    """Copy a session of one run of one step whose deltas are folded; returns the copies' ids.

    Args:
        url: `postgresql://...`.
        session: its id, of the tenant "default".
        count: of the copies.

    Raises:
        RuntimeError: the session has rows in a table that is not copied.
    """
    connection = await asyncpg.connect(url, command_timeout=_WITHIN_S)
    try:
        await _check(connection, session)
        known = await _ids(connection, session)
        copies = [new_id() for _ in range(count)]
        names = [f"id{number}" for number in range(len(known))]
        await connection.execute(f"create temp table copies ({', '.join(f'{name} text' for name in names)})")
        records = [[_copied(one, session, copy) for one in known] for copy in copies]
        await connection.copy_records_to_table("copies", records=records, columns=names)
        async with connection.transaction():
            for table in _TABLES:
                await connection.execute(_insert(table, dict(zip(known, names, strict=True)), session))
        await connection.execute("vacuum analyze")
        return copies
    finally:
        await connection.close()


async def _check(connection: asyncpg.Connection[asyncpg.Record], session: str) -> None:
    for record in await connection.fetch(_OTHERS):
        table = str(record["table_name"])
        if table in (*_TABLES, "session_addresses"):
            continue
        if await connection.fetchval(f"select exists (select from perdure.{table} where session_id = $1)", session):
            raise RuntimeError(f"a session with rows in {table} cannot be copied")


async def _ids(connection: asyncpg.Connection[asyncpg.Record], session: str) -> list[str]:
    """All ids in the session's rows that belong to it alone."""
    found: dict[str, None] = {session: None}
    for table in _TABLES:
        row = f"to_jsonb(t) - array{list(_NO_IDS)}"
        query = f"select ({row})::text from perdure.{table} t where {_key(table)} = $1"
        for record in await connection.fetch(query, session):
            found |= dict.fromkeys(_UUID.findall(record[0]))
    agent = await connection.fetchval("select agent_id from perdure.sessions where id = $1", session)
    return [one for one in found if one != agent]


def _copied(known: str, session: str, copy: str) -> str:
    """The id in a copy that stands for one in the session: derived as the product does, where it derives it."""
    return {**dict(zip(_derived(session), _derived(copy), strict=True)), session: copy}.get(
        known, derive_id(copy, "copied", known)
    )


def _derived(session: str) -> Sequence[str]:
    run = run_id(session, 1)
    return root_node_id(session), run, answer_id(run, 1), checkpoint_id(run, 1)


def _insert(table: str, columns: Mapping[str, str], session: str) -> str:
    text = "to_json(t)::text"
    for known, name in columns.items():
        text = f"replace({text}, '{known}', c.{name})"
    return (
        f"insert into perdure.{table} select made.* from copies c, perdure.{table} t, "
        f"lateral json_populate_record(null::perdure.{table}, ({text})::json) as made where t.{_key(table)} = '{session}'"
    )


def _key(table: str) -> str:
    return "id" if table == "sessions" else "session_id"
