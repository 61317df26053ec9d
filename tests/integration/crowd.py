"""A database of its own that holds very many sessions, and one session that holds very much.

Its own, so that no sweep and no doctor of another test ever meets these rows. They are made by SQL, for the product would take
hours; each has the form in which the product leaves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from perdure.store.database import Database
from perdure.uap.ids import root_node_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import dumps, sha256_hex
from perdure.upp.messages import UserMessage
from tests.integration.access_stage import own_database
from tests.integration.stack import Stack

TENANT = "default"
_BODY = dumps(UserMessage("hello").to_json())

_FUNCTIONS = r"""
create function pg_temp.made(kind text, n bigint) returns text language sql immutable as $$
  select regexp_replace(md5(kind || n), '^(.{8})(.{4}).(.{3}).(.{3})(.{12})$', '\1-\2-4\3-8\4-\5') $$;
create function pg_temp.moment(n bigint) returns timestamptz language sql immutable as $$
  select timestamptz '2026-01-01 00:00:00+00' + (n / 3) * interval '1 second' $$;
"""

_SESSIONS = """
insert into perdure.sessions (tenant_id, id, agent, agent_id, status, metadata, usage, current_node, created_at, updated_at,
                              parent_session, root_session)
select t.tenant, pg_temp.made(t.tenant, n), 'worker', 'w', case n % 20 when 0 then 'running' when 1 then 'paused' else 'idle' end,
       '{}', '{}', null, pg_temp.moment(n), pg_temp.moment(n),
       case when n % 50 = 7 then pg_temp.made(t.tenant, n - 1) end, case when n % 50 = 7 then pg_temp.made(t.tenant, n - 1) end
  from (values ('default', $1::bigint), ('other', $1 / 5)) as t (tenant, count), generate_series(1, t.count) as n
"""

_HEADS = """
insert into perdure.session_heads (tenant_id, session_id, last_seq, next_ordinal, touched_at)
select tenant_id, id, 0, 1, created_at from perdure.sessions
"""

_WAITS = """
insert into perdure.waits (tenant_id, id, session_id, run_id, kind, message_id, index, asked, asked_at, answer, answered_by,
                           answered_at, delivered)
select 'default', pg_temp.made('wait', n), pg_temp.made('default', 1 + n * 3 % $1), pg_temp.made('parked', n), 'client_tool',
       'm', n, '{"tool": "pick"}', pg_temp.moment(n), case when n % 2 = 0 then '{"result": 1}'::json end,
       case when n % 2 = 0 then '"me"'::json end, case when n % 2 = 0 then pg_temp.moment(n) end, n % 2 = 0
  from generate_series(1, $1) as n
"""

_BIG_WAITS = """
insert into perdure.waits (tenant_id, id, session_id, run_id, kind, message_id, index, asked, asked_at)
select 'default', pg_temp.made('own wait', n), $2, pg_temp.made('parked', n), 'client_tool', 'm', n, '{"tool": "pick"}',
       pg_temp.moment(n * 40) from generate_series(1, $1::bigint) as n
"""

_RUNS = """
insert into perdure.runs (tenant_id, session_id, id, ordinal, status, spec, node_id, start_position, step, usage, temporal_run_id,
                          first_seq, last_seq, started_at, ended_at, folded)
select 'default', $2, pg_temp.made('run', n), n, 'completed', '{}', $3, n, 3, '{}', 't', n * 10, n * 10 + 9, pg_temp.moment(n),
       pg_temp.moment(n), true from generate_series(1, $1::bigint) as n
"""

_INPUTS = """
insert into perdure.inputs (tenant_id, session_id, ordinal, key, opens_session, body_sha256, kind, message_id, message_sha, policy,
                            run_id, state, created_at, not_before)
select 'default', $2, n, 'key ' || n, false, 'b', 'message', 'm' || n, 's', 'enqueue', pg_temp.made('run', n),
       case when n <= $1 then 'taken' else 'queued' end, pg_temp.moment(n), case when n > $1 then timestamptz '2100-01-01' end
  from generate_series(1, $1::bigint + 100) as n
"""

_CHECKPOINTS = """
insert into perdure.checkpoints (tenant_id, session_id, id, run_id, node_id, step, position, at, record, temporal_run_id)
select 'default', $2, pg_temp.made('checkpoint ' || step, n), pg_temp.made('run', n), $3, step, n, '2026-01-01T00:00:00.000Z',
       json_build_object('step', step, 'position', n, 'filler', repeat('x', 500)), 't'
  from generate_series(1, $1::bigint) as n, generate_series(1, case when n = $1 / 2 then $1 / 2 else 1 end) as step
"""

_MESSAGES = """
insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256, discarded)
select 'default', $2, 'm' || n, $3, n, pg_temp.made('run', 1 + n / 2), 1, 'user', $4::bytea, $5, n % 10 = 5
  from generate_series(0, $1::bigint * 2 - 1) as n
"""

_EVENTS = """
insert into perdure.events (tenant_id, session_id, seq, run_id, source, type, data, at)
select 'default', $2, n, pg_temp.made('run', 1 + n / 10), 'upp', 'text_delta', json_build_object('delta', n), pg_temp.moment(n)
  from generate_series(1, $1::bigint * 10) as n
"""

_AGENTS = """
insert into perdure.agents (tenant_id, name, agent_id, workflow_type, task_queue, spec, seen_at)
select t, 'agent ' || n, 'a', 'w', 'q', '{}', now() from unnest(array['default', 'other']) t, generate_series(1, 200) n
"""
KEYS = """
insert into perdure.api_keys (tenant_id, id, sha256, name, scopes, created_at)
select 'other', 'k' || n, 'none', 'robot', '["read"]', now() from generate_series(1, 1000) n
"""
"""Keys, for the test that comes last: one key closes the API to all who have none."""
WAITS = 250


@dataclass(frozen=True)
class Crowd:
    """The database: its address, how many sessions it has, and the one that holds much."""

    url: str
    count: int
    big: SessionKey
    runs: int

    @property
    def root(self) -> str:
        """The big session's thread node."""
        return root_node_id(self.big.session)


@contextmanager
def crowd_of(stack: Stack, count: int) -> Generator[Crowd]:
    """So many sessions of one tenant, a fifth as many of another; one of them with a fifth as many runs."""
    with own_database(stack) as url:
        yield asyncio.run(_fill(url, count))


async def _fill(url: str, count: int) -> Crowd:
    database = Database(url, pool_size=1)
    runs = count // 5
    async with database.driver() as connection, connection.transaction():
        await connection.execute("set local statement_timeout = 0")
        await connection.execute(_FUNCTIONS)
        await connection.execute(_SESSIONS, count, timeout=300)
        await connection.execute(_HEADS, timeout=300)
        big = await connection.fetchval("select pg_temp.made('default', $1)", count // 2)
        root = root_node_id(big)
        await connection.execute("update perdure.sessions set current_node = $2 where id = $1", big, root)
        node = "insert into perdure.thread_nodes values ('default', $1, $2, null, null, null, $2, '{}', now())"
        await connection.execute(node, big, root)
        await connection.execute(_WAITS, count, timeout=300)
        await connection.execute(_BIG_WAITS, WAITS, big, timeout=300)
        await connection.execute(_RUNS, runs, big, root, timeout=300)
        await connection.execute(_INPUTS, runs, big, timeout=300)
        await connection.execute(_CHECKPOINTS, runs, big, root, timeout=300)
        await connection.execute(_MESSAGES, runs, big, root, _BODY, sha256_hex(_BODY), timeout=300)
        await connection.execute(_EVENTS, runs, big, timeout=300)
        await connection.execute(_AGENTS)
    async with database.driver() as connection:
        await connection.execute("analyze", timeout=300)
    await database.close()
    return Crowd(url, count, SessionKey(TENANT, big), runs)
