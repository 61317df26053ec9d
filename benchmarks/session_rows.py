"""A million sessions, made by SQL in the form in which the product leaves them: to run them would take hours."""

from __future__ import annotations

from datetime import datetime

import asyncpg

from perdure.runtime.filterable import apply_filterable
from perdure.store.database import Database
from perdure.store.filterable_keys import COMPLETE, list_filterable

FILTERABLE = ("team", "priority")
"""Of the keys of their metadata those by which lists are filtered."""
TEAMS = 500
"""Each has 0.2 % of the sessions, by the key "team" of their metadata."""
SESSIONS_PER_WAIT = 10
_WITHIN_S = 3600

_FUNCTIONS = r"""
create function pg_temp.made(n bigint) returns text language sql immutable as $$
  select regexp_replace(md5('session' || n), '^(.{8})(.{4}).(.{3}).(.{3})(.{12})$', '\1-\2-4\3-8\4-\5') $$;
create function pg_temp.moment(n bigint) returns timestamptz language sql immutable as $$
  select timestamptz '2026-01-01 00:00:00+00' + (n / 3) * interval '1 second' $$;
"""
_SESSIONS = """
insert into perdure.sessions (tenant_id, id, agent, agent_id, status, title, metadata, usage, runs, steps, created_at, updated_at)
select 'default', pg_temp.made(n), 'stepper', 'a', case n % 20 when 0 then 'running' when 1 then 'paused' else 'idle' end,
       json_build_object('title', 'Conversation ' || n) -> 'title',
       json_build_object('team', 'team ' || n % $2, 'user', 'user ' || n % 100000, 'channel', 'web', 'priority', n % 5),
       '{"inputTokens": 1000, "outputTokens": 200, "totalTokens": 1200}', 3, 9, pg_temp.moment(n), pg_temp.moment(n + 600)
  from generate_series(1, $1::bigint) as n
"""
_HEADS = """
insert into perdure.session_heads (tenant_id, session_id, last_seq, next_ordinal, touched_at)
select tenant_id, id, 60, 4, updated_at from perdure.sessions
"""
_WAITS = """
insert into perdure.waits (tenant_id, id, session_id, run_id, kind, message_id, index, asked, asked_at)
select 'default', pg_temp.made(-n), pg_temp.made(n * $2), pg_temp.made(-n), 'client_tool', 'm', 0,
       json_build_object('tool', 'pick', 'number', n), pg_temp.moment(n * $2)
  from generate_series(1, $1::bigint / $2) as n
"""
_PLACES = """
select created_at, id from perdure.sessions join unnest($1::bigint[]) with ordinality as picked (n, place)
    on tenant_id = 'default' and id = pg_temp.made(picked.n) order by place
"""


async def make_sessions(url: str, count: int) -> None:
    """Fill an empty database with our schema: sessions of the tenant "default", and for each tenth a wait that is open.

    Lists can be filtered by `FILTERABLE`; the database itself writes what they need for that, as for every session.

    Args:
        url: `postgresql://...`.
        count: of the sessions.
    """
    await _allow_filters(url)
    connection = await asyncpg.connect(url, command_timeout=_WITHIN_S)
    try:
        await connection.execute(_FUNCTIONS)
        await connection.execute(_SESSIONS, count, TEAMS)
        await connection.execute(_HEADS)
        await connection.execute(_WAITS, count, SESSIONS_PER_WAIT)
        await connection.execute("vacuum analyze")
    finally:
        await connection.close()


async def _allow_filters(url: str) -> None:
    database = Database(url, pool_size=1)
    while set((await list_filterable(database)).values()) != {COMPLETE}:  # other works of the server may hold it up
        await apply_filterable(database, FILTERABLE)
    await database.close()


async def places_of(url: str, numbers: list[int]) -> list[tuple[datetime, str]]:
    """Creation time and id of the sessions that were made with these numbers, from 1, in their order."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_FUNCTIONS)
        return [(row["created_at"], row["id"]) for row in await connection.fetch(_PLACES, numbers)]
    finally:
        await connection.close()
