"""What the door of envelopes asks the database again and again costs the same however much was sent before."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from perdure.store.database import Database
from perdure.store.envelopes.beginning import begin_exchange
from perdure.store.envelopes.exchanges import exchanges_of_ended_runs, list_proposals, unbegun_exchanges
from perdure.store.envelopes.forgetting import forget_old
from perdure.store.envelopes.informs import take_informs, unjoined_informs
from perdure.store.envelopes.neglected import cancelled_with_open_runs, unread_subscriptions, untold_cancels
from tests.integration.access_stage import own_database
from tests.integration.envelope_story import OWN, PEER
from tests.integration.page_plans import Watched
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

TENANT = "default"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
MANY, FEW = 20_000, 60
DAY, HOUR = timedelta(days=1), timedelta(hours=1)

_EXCHANGES = """
insert into perdure.envelope_exchanges (tenant_id, id, own, sender, worker, envelope, intent, stream_id, principal, session_id,
                                        run_id, state, delta_window, is_over, opened_at, read_at, ended_at)
select 'default', 'x' || n, $2, $3, $2, 'urn:uuid:00000000-0000-4000-8000-' || lpad(n::text, 12, '0'), 'ask', 's' || n, $3,
       case when n > 1 then 'session' || n end, case when n > 1 then 'run' || n end,
       case when n <= $4 then 'in_progress' when n % 2 = 0 then 'cancelled' else 'completed' end, 64, n > $4,
       $5::timestamptz - n * interval '1 second', $5, case when n > $4 then $5::timestamptz - n * interval '1 second' end
  from generate_series(1, $1::int) as n
"""
_RUNS = """
insert into perdure.runs (tenant_id, session_id, id, ordinal, status, spec, node_id, start_position, step, usage, temporal_run_id,
                          first_seq, last_seq, started_at, ended_at, folded)
select 'default', 'session' || n, 'run' || n, 1, case when n <= $2 then 'running' else 'completed' end, '{}', 'node', 0, 1, '{}',
       't', 1, 9, $3, case when n > $2 then $3::timestamptz end, true from generate_series(1, $1::int) as n
"""
_INPUTS = """
insert into perdure.inputs (tenant_id, session_id, ordinal, key, opens_session, body_sha256, kind, message_id, message_sha, policy,
                            run_id, state, created_at)
select 'default', 'session' || n, 1, 'key ' || n, false, 'b', 'message', 'm' || n, 's', 'enqueue', 'run' || n, 'taken', $2
  from generate_series(1, $1::int) as n
"""
_SESSIONS = """
insert into perdure.session_heads (tenant_id, session_id, last_seq, next_ordinal, touched_at)
select 'default', 'session' || n, 0, 1, $2 from generate_series(1, $1::int) as n
"""
_ENVELOPES = """
insert into perdure.envelopes (tenant_id, own, sender, id, intent, sha256, raw, exchange, session_id, state, joined, joined_by, at)
select 'default', $2, $3, kind.intent || n, kind.intent, 'h', '{}', 'x' || n, 'session' || n, 'completed', kind.intent = 'inform',
       case kind.intent when 'inform' then 'x' || n end, $4::timestamptz - interval '3 days'
  from generate_series(1, $1::int) as n, (values ('ask'), ('inform')) as kind (intent)
"""
_ACKS = """
insert into perdure.envelopes (tenant_id, own, sender, id, intent, sha256, raw, exchange, session_id, state, at)
select 'default', $2, $3, 'ack' || n, 'progress', 'h', '{}', 'x1', 'session1', 'completed', $4::timestamptz - interval '3 days'
  from generate_series(1, $1::int) as n
"""


@pytest.fixture(scope="module")
def url(stack: Stack) -> Iterator[str]:
    with own_database(stack) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def watched(url: str) -> AsyncGenerator[Watched]:
    """A database in which many envelopes were taken, and which notes what the server does for each statement."""
    database = Watched(url)
    async with database.driver() as connection:
        await connection.execute(_EXCHANGES, MANY, OWN, PEER, FEW, NOW)
        await connection.execute(_RUNS, MANY, FEW, NOW)
        await connection.execute(_INPUTS, MANY, NOW)
        await connection.execute(_SESSIONS, MANY, NOW)
        await connection.execute(_ENVELOPES, MANY, OWN, PEER, NOW)
        await connection.execute("analyze")
    yield database
    await database.close()


async def _informs(database: Database) -> object:
    return await take_informs(database, TENANT, "session7", exchange="none")


async def _begin(database: Database) -> object:
    return await begin_exchange(database, TENANT, "x1", "session1", "run1")


ROUNDS: dict[str, Callable[[Database], Awaitable[object]]] = {
    "unbegun": lambda database: unbegun_exchanges(database, TENANT, before=NOW, limit=100),
    "ended runs": lambda database: exchanges_of_ended_runs(database, TENANT, limit=100),
    "untold cancels": lambda database: untold_cancels(database, TENANT, limit=100),
    "cancelled with open runs": lambda database: cancelled_with_open_runs(database, TENANT, limit=100),
    "unread subscriptions": lambda database: unread_subscriptions(database, TENANT, before=NOW, limit=100),
    "informs to join": lambda database: unjoined_informs(database, TENANT, before=NOW, limit=100),
    "forget": lambda database: forget_old(database, TENANT, now=NOW, retention=DAY, replay_memory=HOUR),
    "proposals": lambda database: list_proposals(database, TENANT, after=None, limit=100),
    "informs before an ask": _informs,
    "begin": _begin,
}


@pytest.mark.parametrize("name", ROUNDS)
async def test_a_look_meets_few_rows(watched: Watched, name: str) -> None:
    """Of very many that are over it meets none: only what is open, or due."""
    cost = await watched.cost(ROUNDS[name])
    assert (cost.whole, cost.rows > 20 * FEW) == ([], False), f"{name}: {cost}"
