"""Lists of stage sessions and of their actions, among very many: each once, by an index, from where the page before ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from perdure.errors import InvalidInput
from perdure.store.database import Database
from perdure.store.stages.actions import action_page
from perdure.store.stages.expiry import mark_expired
from perdure.store.stages.neglected import find_neglected, find_silent
from perdure.store.stages.sessions import session_page
from perdure.store.stages.waits import open_stage_waits
from perdure.uaip.session import SessionStatus
from perdure.uap.session_key import SessionKey
from tests.integration.access_stage import own_database
from tests.integration.page_plans import Watched
from tests.integration.stack import Stack
from tests.integration.stage_story import Shop, StageStory, call
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")

TENANT = "crowded"
COUNT = max(20_000, scaled(100_000))
LIMIT = 50
SESSIONS = """
insert into perdure.stage_sessions (tenant_id, id, workflow, definition, stage, status, version, taken, settled_at_ms, sizes,
    opening_sha256, created_at, updated_at, expires_at)
select $1, gen_random_uuid()::text, case when n % 4 = 0 then 'shop' else 'other' end, $2,
       case when n % 10 = 0 then 'checkout' else 'cart' end, case when n % 5 = 0 then 'terminated' else 'open' end, 0, 0, 0, '{}',
       '', now() - (n / 3) * interval '1 second', now(), case when n % 5 = 0 then null else now() + interval '1 day' end
  from generate_series(1, $3) n
"""
HEADS = """
insert into perdure.session_heads (tenant_id, session_id, stage, touched_at)
select tenant_id, id, true, now() from perdure.stage_sessions where tenant_id = $1 on conflict do nothing
"""
ACTIONS = """
insert into perdure.stage_actions (tenant_id, session_id, ordinal, id, kind, name, body, sha256, state, http, reply, accepted_at,
    settled_at)
select $1, $2, n, gen_random_uuid()::text, 'handshake', '""', '{}', '', 'settled', 200, '{}', now(), now()
  from generate_series(1, $3) n
"""
WAITS = """
with asked as (
    insert into perdure.stage_actions (tenant_id, session_id, ordinal, id, kind, name, body, sha256, state, accepted_at, started_at)
    select tenant_id, id, 1, gen_random_uuid()::text, 'method_call', '"refund"', '{}', '', 'waiting', now(), now()
      from perdure.stage_sessions where tenant_id = $1 and status = 'open' order by id limit 500
    returning tenant_id, session_id)
insert into perdure.stage_waits (tenant_id, session_id, ordinal, kind, attempt, asked_at)
select tenant_id, session_id, 1, 'approval', 0, now() from asked
"""
ANALYSED = ("stage_sessions", "session_heads", "stage_actions", "stage_waits", "stage_workflows")


@pytest.fixture(scope="module")
def url(stack: Stack) -> Iterator[str]:
    with own_database(stack) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(url: str) -> AsyncGenerator[Watched]:
    """Connections that note what they send, to a database with very many sessions."""
    database = Watched(url)
    async with database.driver() as connection:
        await connection.execute(SESSIONS, TENANT, Shop.definition.sha256, COUNT)
        await connection.execute(HEADS, TENANT)
        await connection.execute(WAITS, TENANT)
        await connection.execute(ACTIONS, TENANT, "busy", COUNT)
        for table in ANALYSED:
            await connection.execute(f"analyze perdure.{table}")
    database.sent.clear()
    yield database
    await database.close()


FILTERS: dict[str, dict[str, Any]] = {
    "all": {},
    "of a workflow": {"workflow": "shop"},
    "in a stage": {"workflow": "shop", "stage": "checkout"},
    "open": {"status": SessionStatus.OPEN},
    "ended": {"status": SessionStatus.TERMINATED},
    "of a workflow and open": {"workflow": "shop", "status": SessionStatus.OPEN},
}


def chosen(given: dict[str, Any]) -> Callable[[int], bool]:
    """Which of the numbers from which the sessions were made a filter leaves."""

    def keeps(n: int) -> bool:
        status = SessionStatus.TERMINATED if n % 5 == 0 else SessionStatus.OPEN
        made = {
            "workflow": "shop" if n % 4 == 0 else "other",
            "stage": "checkout" if n % 10 == 0 else "cart",
            "status": status,
        }
        return all(made[name] == value for name, value in given.items())

    return keeps


@pytest.mark.parametrize("name", FILTERS)
async def test_a_page_of_sessions_costs_what_it_shows(watched: Watched, name: str) -> None:
    """First, middle and last page of every filter; all pages together are all sessions, the newest first, each once."""
    given = FILTERS[name]
    places: list[Any] = []
    while page := await session_page(watched, TENANT, after=places[-1] if places else None, limit=1000, **given):
        places += [(row.created_at, row.key.session) for row in page]
    assert places == sorted(set(places), reverse=True)
    assert len(places) == len([n for n in range(1, COUNT + 1) if chosen(given)(n)])
    for at in (None, places[len(places) // 2], places[-LIMIT - 1]):
        cost = await watched.cost(lambda db, at=at: session_page(db, TENANT, after=at, limit=LIMIT, **given))
        assert cost.whole == [], at
        assert cost.rows <= 6 * LIMIT, (at, cost)


async def test_a_page_of_actions_and_waits_costs_what_it_shows(watched: Watched) -> None:
    """Actions of a session that has very many, from its middle; and waits among very many sessions."""
    key = SessionKey(TENANT, await busy(watched))
    page = await action_page(watched, key, after=COUNT // 2, limit=LIMIT)
    assert [row.ordinal for row in page] == list(range(COUNT // 2 + 1, COUNT // 2 + LIMIT + 1))
    cost = await watched.cost(lambda db: action_page(db, key, after=COUNT // 2, limit=LIMIT))
    assert (cost.whole, cost.rows <= LIMIT + 1) == ([], True), cost
    waits = await open_stage_waits(watched, TENANT, limit=LIMIT)
    assert len(waits) == LIMIT
    cost = await watched.cost(lambda db: open_stage_waits(db, TENANT, limit=LIMIT))
    assert (cost.whole, cost.rows <= 3 * LIMIT) == ([], True), cost


async def busy(database: Database) -> str:
    """The session that has very many actions, under an id that sessions have."""
    session = "b0000000-0000-4000-8000-000000000000"
    async with database.driver() as connection:
        await connection.execute("update perdure.stage_actions set session_id = $1 where session_id = 'busy'", session)
        await connection.execute("analyze perdure.stage_actions")
    return session


async def test_looking_for_work_costs_what_is_found(watched: Watched) -> None:
    """Every process looks for it every other second: it reads no table whole, however many sessions have nothing to do."""

    async def silent(database: Database) -> object:
        return await find_silent(database, seconds=3600)

    reads: list[Callable[[Database], Awaitable[object]]] = [mark_expired, find_neglected, silent]
    for read in reads:
        cost = await watched.cost(read)
        assert (cost.whole, cost.rows <= 10 * 500) == ([], True), cost


async def test_a_page_refuses_what_makes_no_sense(watched: Watched) -> None:
    """Limits out of range, and a stage of no workflow; names that nothing can have find nothing."""
    senseless: list[dict[str, Any]] = [{"limit": 0}, {"limit": 1001}, {"limit": 1, "stage": "cart"}]
    for given in senseless:
        with pytest.raises(InvalidInput):
            await session_page(watched, TENANT, **given)
    with pytest.raises(InvalidInput):
        await action_page(watched, SessionKey(TENANT, "x"), limit=0)
    assert await session_page(watched, TENANT, workflow="sh\0p", limit=1) == []
    assert await session_page(watched, "another", limit=1) == []


async def test_an_open_session_whose_time_is_over_is_on_no_page_of_open_ones(watched: Watched) -> None:
    """Before anybody has marked it, and with an open action it is."""
    story = StageStory(watched, "timely")
    await story.open()
    await story.let_pass(3600)
    assert await session_page(watched, "timely", status=SessionStatus.OPEN, limit=10) == []
    (row,) = await session_page(watched, "timely", limit=10)
    assert row.session.status is SessionStatus.EXPIRED
    await story.open()
    await story.accept(call("add", product="book"))
    await story.let_pass(3600)
    assert [row.key for row in await session_page(watched, "timely", status=SessionStatus.OPEN, limit=10)] == [
        story.key
    ]
