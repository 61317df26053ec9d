"""L89: lists of very many rows: a page costs what it shows, wherever it stands, and each row is on one page."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio

from perdure.errors import UnknownRun
from perdure.store.api_keys import list_keys
from perdure.store.database import Database
from perdure.store.events import read_events
from perdure.store.pages import list_agents, page_checkpoints, page_messages, page_runs
from perdure.store.runs import find_run
from perdure.store.sessions import list_sessions
from perdure.store.waits import open_waits
from tests.integration.access_stage import serving
from tests.integration.api_server import checked
from tests.integration.crowd import KEYS, TENANT, WAITS, Crowd, crowd_of
from tests.integration.page_plans import Cost, Watched
from tests.integration.stack import Stack
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")

FEWEST = 20_000
LIMIT = 50
MOST_MS = 50.0
ROUNDS = max(5, scaled(100))
SHARE = 0.95 if ROUNDS >= 100 else 0.5
"""Of the rounds that must be within `MOST_MS`: at full scale the p95, on a small share the median, which no neighbour moves."""


@dataclass(frozen=True)
class PagedList:
    """How a list is read, what a page is asked for after, and how many rows of tables a row of it may touch."""

    read: Callable[[Database, Any, int], Awaitable[Sequence[Any]]]
    place: Callable[[Any], Any]
    touched: int = 2


NAMES = [
    "sessions", "idle sessions", "running sessions", "paused sessions", "runs", "waits", "waits of a session", "events",
    "checkpoints", "messages",
]  # fmt: skip


def lists_of(crowd: Crowd) -> dict[str, PagedList]:
    """Every list, by name."""
    key, root = crowd.big, crowd.root

    def of_status(status: str | None) -> PagedList:
        return PagedList(
            lambda db, at, n: list_sessions(db, TENANT, status=status, before=at, limit=n),
            lambda row: (row.created_at, row.key.session),
        )

    def of_waits(session: str | None) -> PagedList:
        return PagedList(
            lambda db, at, n: open_waits(db, TENANT, session, after=at, limit=n), lambda row: (row.asked_at, row.id), 4
        )

    return {
        "sessions": of_status(None),
        "idle sessions": of_status("idle"),
        "running sessions": of_status("running"),
        "paused sessions": of_status("paused"),
        "runs": PagedList(lambda db, at, n: page_runs(db, key, before=at, limit=n), lambda row: row.ordinal),
        "waits": of_waits(None),
        "waits of a session": replace(of_waits(key.session), touched=2 * WAITS // LIMIT),  # few: read whole, and sorted
        "events": PagedList(
            lambda db, at, n: read_events(db, key, after=at or 0, limit=n), lambda row: row.seq, touched=3
        ),
        "checkpoints": PagedList(
            lambda db, at, n: page_checkpoints(db, key, after=at, limit=n), lambda pair: pair[1], touched=4
        ),
        "messages": PagedList(
            lambda db, at, n: page_messages(db, key, root, after=at, limit=n),
            lambda item: (item.node, item.stored.position),
            touched=4,
        ),
    }


@pytest.fixture(scope="module")
def crowd(stack: Stack) -> Iterator[Crowd]:
    """100,000 sessions at full scale; never so few that the server reads them all because that is less work."""
    with crowd_of(stack, max(FEWEST, scaled(100_000))) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(crowd: Crowd) -> AsyncGenerator[Watched]:
    database = Watched(crowd.url)
    yield database
    await database.close()


def most_of(costs: Sequence[Cost]) -> float:
    """The milliseconds within which `SHARE` of the rounds were."""
    return sorted(cost.ms for cost in costs)[int(SHARE * (ROUNDS - 1))]


async def all_rows(database: Database, of: PagedList) -> list[Any]:
    """A whole list, by its longest pages."""
    rows: list[Any] = []
    while page := await of.read(database, of.place(rows[-1]) if rows else None, 1000):
        rows += page
    return rows


@pytest.mark.parametrize("name", NAMES)
async def test_l89_a_page_costs_what_it_shows(crowd: Crowd, watched: Watched, name: str) -> None:
    """L89: the first, the middle and the last page of every list: by an index, from where the page before ended."""
    of = lists_of(crowd)[name]
    rows = await all_rows(watched, of)
    places = [of.place(row) for row in rows]
    assert len(set(places)) == len(places) >= 4 * LIMIT
    for at in (None, places[len(places) // 2], places[-LIMIT - 1]):
        costs = [await watched.cost(lambda db, at=at: of.read(db, at, LIMIT)) for _ in range(ROUNDS)]
        assert costs[0].whole == [], at
        assert costs[0].rows <= of.touched * LIMIT + 10, (at, costs[0])
        assert most_of(costs) < MOST_MS, at


ADD_SESSIONS = """with made as (
    insert into perdure.sessions (tenant_id, id, agent, agent_id, status, metadata, usage, created_at, updated_at)
    select 'default', gen_random_uuid()::text, 'worker', 'w', 'running', '{}', '{}', now(), now() from generate_series(1, 7)
    returning tenant_id, id)
    insert into perdure.session_heads (tenant_id, session_id, touched_at) select tenant_id, id, now() from made"""
ADD_WAIT = """insert into perdure.waits (tenant_id, id, session_id, run_id, kind, message_id, index, asked, asked_at)
    select 'default', gen_random_uuid()::text, '{big}', gen_random_uuid()::text, 'client_tool', 'm', 0, '{"tool": "pick"}', now()"""
ADD_RUN = """insert into perdure.inputs (tenant_id, session_id, ordinal, key, opens_session, body_sha256, kind, message_id,
    message_sha, policy, run_id, state, created_at, not_before)
    select 'default', '{big}', max(ordinal) + 1, gen_random_uuid()::text, false, 'b', 'message', 'm', 's', 'enqueue',
    gen_random_uuid()::text, 'queued', now(), timestamptz '2100-01-01' from perdure.inputs where session_id = '{big}'"""
ADD_CHECKPOINT = """insert into perdure.checkpoints (tenant_id, session_id, id, run_id, node_id, step, position, at, record,
    temporal_run_id) select 'default', '{big}', gen_random_uuid()::text, id, '{root}', 99, 1, '2026-01-01T00:00:00.000Z', '{}', 't'
    from perdure.runs where session_id = '{big}' order by first_seq desc limit 1"""
ADD_MESSAGE = """insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256)
    select 'default', '{big}', gen_random_uuid()::text, node_id, position + 1, run_id, 1, type, body, sha256
    from perdure.messages where session_id = '{big}' order by position desc limit 1"""
SESSIONS = "select id from perdure.sessions where tenant_id = 'default'"
OPEN_WAITS = "select id from perdure.waits where answered_at is null"
LISTS = {
    "/sessions": (f"{SESSIONS} order by created_at desc, id desc", ADD_SESSIONS),
    "/sessions?status=running": (f"{SESSIONS} and status = 'running' order by created_at desc, id desc", ADD_SESSIONS),
    "/sessions/{big}/runs": (
        "select run_id from perdure.inputs where session_id = '{big}' order by ordinal desc",
        ADD_RUN,
    ),
    "/waits": (f"{OPEN_WAITS} order by asked_at, id", ADD_WAIT),
    "/waits?session={big}": (f"{OPEN_WAITS} and session_id = '{{big}}' order by asked_at, id", ADD_WAIT),
    "/sessions/{big}/checkpoints": (
        """select c.id from perdure.checkpoints c join perdure.runs r on r.session_id = c.session_id and r.id = c.run_id
           where c.session_id = '{big}' order by r.first_seq, c.step, c.at collate "C", c.id collate "C" """,
        ADD_CHECKPOINT,
    ),
    "/sessions/{big}/messages": (
        """select node_id || ' ' || position from perdure.messages where session_id = '{big}' and not discarded
           order by position""",
        ADD_MESSAGE,
    ),
}
"""Every list: what is in it, in order, and how something is added to it while it is read."""


async def _pages(client: httpx.AsyncClient, path: str) -> AsyncGenerator[list[dict[str, Any]]]:
    """A list's pages over HTTP."""
    query: dict[str, Any] = {"limit": 1000, **dict(httpx.URL(path).params)}
    while True:
        body: dict[str, Any] = checked(await client.get(f"/api{path.partition('?')[0]}", params=query))
        yield next(cast("list[dict[str, Any]]", value) for value in body.values() if isinstance(value, list))
        if body["next"] is None:
            return
        query["after"] = body["next"]


def _identity(row: dict[str, Any]) -> str:
    if "message" in row:
        return f"{row['node']} {row['position']}"
    return row.get("checkpoint") or row.get("wait") or row.get("run") or row["session"]


async def test_l89_each_row_is_on_one_page_while_rows_are_added(stack: Stack, crowd: Crowd) -> None:
    """L89: every list over HTTP, rows added after each page: what was there at the start comes once, in order."""
    database = Database(crowd.url, pool_size=1)

    def named(text: str) -> str:
        return text.replace("{big}", crowd.big.session).replace("{root}", crowd.root)

    async with serving(stack, crowd.url) as (_, client), database.driver() as connection:
        for path, (query, adding) in LISTS.items():
            known = [row[0] for row in await connection.fetch(named(query))]
            seen: list[str] = []
            async for page in _pages(client, named(path)):
                seen += [_identity(row) for row in page]
                await connection.execute(named(adding))
            assert len(seen) == len(set(seen)), path
            at_start = set(known)
            assert [one for one in seen if one in at_start] == known, path
    await database.close()


async def test_l89_short_lists_and_single_rows_need_no_walk(crowd: Crowd, watched: Watched) -> None:
    """L89: agents and keys of a tenant, a run by its id, also one that is queued, and an id that nobody has."""
    queued, begun = await _run_ids(crowd, watched)
    for run in (queued, begun, str(uuid.uuid4())):

        async def find(database: Database, run: str = run) -> None:
            try:
                await find_run(database, TENANT, run)
            except UnknownRun:
                assert run not in (queued, begun)

        cost = await watched.cost(find)
        assert (cost.whole, cost.rows <= 2) == ([], True), run
    async with watched.driver() as connection:
        await connection.execute(KEYS)
        await connection.execute("analyze perdure.api_keys")
    for read, count in ((list_agents, 200), (list_keys, 1000)):
        costs = [await watched.cost(lambda db, read=read: read(db, "other")) for _ in range(ROUNDS)]
        assert costs[0].rows <= 2 * count
        assert most_of(costs) < MOST_MS


async def _run_ids(crowd: Crowd, database: Database) -> tuple[str, str]:
    async with database.driver() as connection:
        queued = await connection.fetchval("select run_id from perdure.inputs where state = 'queued' limit 1")
        begun = await connection.fetchval("select id from perdure.runs where ordinal = $1", crowd.runs)
    return queued, begun
