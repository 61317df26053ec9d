"""Lists of sessions by metadata over HTTP, by the command and by pages: right at any depth, and each tenant's own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from sqlalchemy import text

from perdure.runtime.checks.servers import check_filters
from perdure.store.database import Database
from perdure.store.filterable_keys import set_filterable
from perdure.store.sessions import list_sessions
from perdure.uap.session_key import SessionKey
from tests.integration.access_stage import serving
from tests.integration.api_server import checked, code_of
from tests.integration.labelled import TENANT, filled, found, labelled, opened
from tests.integration.page_plans import Watched
from tests.integration.stack import ROOT, Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def database(stack: Stack) -> AsyncGenerator[Database]:
    async with labelled(stack, "team", "priority", "live") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def client(stack: Stack, database: Database) -> AsyncGenerator[httpx.AsyncClient]:
    async with serving(stack, database.dsn(), tenant=TENANT) as (_, made):
        yield made


async def asked(client: httpx.AsyncClient, *metadata: str, **more: str) -> list[str]:
    """The sessions of one page."""
    query = httpx.QueryParams([*(("metadata", one) for one in metadata), *more.items()])
    return [row["session"] for row in checked(await client.get("/api/sessions", params=query))["sessions"]]


async def in_status(database: Database, session: str, status: str) -> None:
    async with database.transaction() as connection:
        sql = text("update perdure.sessions set status = :status where id = :session")
        await connection.execute(sql, {"status": status, "session": session})


async def test_sessions_that_have_all_that_is_asked(client: httpx.AsyncClient, database: Database) -> None:
    """Several keys must all match, a status besides; a number and a text of it are two, and the first colon divides."""
    both = await opened(database, {"team": "web", "priority": 3})
    words = await opened(database, {"team": "web", "priority": "3"})
    odd = await opened(database, {"team": "a:b=c ü", "live": True})
    assert await asked(client, "team:web") == [words, both]
    assert await asked(client, "team:web", "priority:3") == [both]
    assert await asked(client, "team:web", "priority:3.0") == [both]
    assert await asked(client, "team:web", 'priority:"3"') == [words]
    assert await asked(client, "team:a:b=c ü") == await asked(client, "live:true", "team:a:b=c ü") == [odd]
    assert await asked(client, 'live:"true"') == await asked(client, "team:web", "live:true") == []
    await in_status(database, both, "paused")
    assert await asked(client, "team:web", status="paused") == [both]
    assert await asked(client, "team:web", status="idle") == [words]
    assert await asked(client, "team:web", "priority:3", status="idle") == []


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (["secret:x"], "'secret'"), (["team"], "must be KEY:VALUE"), ([":web"], "must be KEY:VALUE"),
        (["team:web", "team:ops"], "twice"), (["team:null"], "double quotes"), (["team:[1]"], "double quotes"),
        (["te'am\" $.a->>:x"], "PERDURE_FILTERABLE_METADATA"), (["\x00\ud83c:x".encode("utf-8", "replace").decode()], "key"),
    ],
)  # fmt: skip
async def test_what_cannot_be_asked_says_why(client: httpx.AsyncClient, metadata: list[str], said: str) -> None:
    """422 with the key or the form, and what to do."""
    response = await client.get("/api/sessions", params=[("metadata", one) for one in metadata])
    assert code_of(response, 422) == "invalid_input"
    assert said in response.json()["detail"]


async def test_half_an_answer_is_none(stack: Stack) -> None:
    """Between a key's becoming allowed and all sessions' being gone through the list answers 503, then all of them."""
    async with labelled(stack) as database, serving(stack, database.dsn(), tenant=TENANT) as (_, client):
        session = await opened(database, {"team": "web"})
        async with database.transaction() as holding:
            await holding.execute(text("update perdure.sessions set steps = 1"))
            await set_filterable(database, ["team"])
            response = await client.get("/api/sessions", params={"metadata": "team:web"})
            assert code_of(response, 503) == "filter_incomplete"
            assert "retry-after" in response.headers
            assert (await check_filters(database)).found == ["team: added"]
        await filled(database)
        assert (await check_filters(database)).found == ["team: complete"]
        assert await asked(client, "team:web") == [session]


async def test_tenants_are_apart(client: httpx.AsyncClient, database: Database) -> None:
    """The same label of another tenant is not shown, whatever cursor is given."""
    own = await opened(database, {"team": "web"})
    other = await opened(database, {"team": "web"}, tenant="other")
    assert await asked(client, "team:web") == [own]
    assert await found(database, {"team": "web"}, tenant="other") == [other]
    assert await found(database, {"team": "web"}, tenant="other", status="idle") == [other]


@pytest.mark.parametrize("metadata", [{"team": "web"}, {"team": "web", "priority": 1}])
@pytest.mark.parametrize("status", [None, "idle"])
async def test_each_session_is_on_one_page_while_others_are_opened(
    client: httpx.AsyncClient, database: Database, metadata: dict[str, Any], status: str | None
) -> None:
    """No gap and none twice, though others of the same label, and without it, are opened after each page."""
    known = [await opened(database, {"team": "web", "priority": n % 2}) for n in range(24)]
    wanted = known[1::2] if "priority" in metadata else known
    query: list[tuple[str, str]] = [
        ("limit", "5"),
        *(("metadata", f"{key}:{value}") for key, value in metadata.items()),
    ]
    query += [("status", status)] if status else []
    seen: list[str] = []
    cursor: str | None = None
    while True:
        opening = [opened(database, one) for one in ({"team": "web", "priority": 1}, {"team": "ops"}, {})]
        after = [("after", cursor)] if cursor else []
        asking = client.get("/api/sessions", params=httpx.QueryParams([*query, *after]))
        answer, _ = await asyncio.gather(asking, asyncio.gather(*opening))
        page = checked(answer)
        seen += [row["session"] for row in page["sessions"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert [one for one in seen if one in known] == wanted[::-1]
    assert len(seen) == len(set(seen))


async def test_a_label_says_what_the_session_does(client: httpx.AsyncClient, database: Database) -> None:
    """Whoever changes the status of a session changes the list by it and by a label."""
    session = await opened(database, {"team": "web"})
    for status in ("running", "paused", "idle"):
        await in_status(database, session, status)
        shown = {one: await asked(client, "team:web", status=one) for one in ("running", "paused", "idle")}
        assert shown == {"running": [], "paused": [], "idle": [], status: [session]}


async def test_sessions_of_one_moment_are_in_one_order(database: Database) -> None:
    """Created at the same time they are told apart by their ids, also where a page ends between them."""
    known = [await opened(database, {"team": "web"}) for _ in range(7)]
    moment = datetime.fromisoformat("2026-01-02T03:04:05+00:00")
    async with database.transaction() as connection:
        await connection.execute(text("update perdure.sessions set created_at = :at"), {"at": moment})
        await connection.execute(text("update perdure.session_labels set created_at = :at"), {"at": moment})
    assert await found(database, {"team": "web"}) == sorted(known, reverse=True)
    assert await found(database, {"team": "web"}, status="idle") == sorted(known, reverse=True)


MANY = """
insert into perdure.sessions (tenant_id, id, agent, agent_id, status, metadata, usage, created_at, updated_at)
select 'labelled', gen_random_uuid()::text, 'a', 'a', case n % 100 when 0 then 'running' else 'idle' end,
       json_build_object('team', n % 50, 'priority', n % 2), '{}', now() + n * interval '1 second', now()
  from generate_series(1, 20000) as n
"""
MANY_HEADS = """
insert into perdure.session_heads (tenant_id, session_id, touched_at) select tenant_id, id, now() from perdure.sessions
"""


async def test_a_page_costs_what_it_shows(database: Database) -> None:
    """By an index from where the page before ended, also with a status that few have; with a second key, what the fewer are."""
    async with database.driver() as connection:
        await connection.execute(MANY)
        await connection.execute(MANY_HEADS)
        await connection.execute("vacuum analyze")
    watched = Watched(database.dsn())
    rows = await list_sessions(watched, TENANT, metadata={"team": 7}, limit=200)
    middle = (rows[100].created_at, rows[100].key.session)
    cases: list[tuple[dict[str, Any], str | None, float]] = [
        ({"team": 7}, None, 310), ({"priority": 1}, None, 310), ({"priority": 1}, "running", 10), ({"team": 7}, "idle", 310),
        ({"priority": 1, "team": 7}, "idle", 7000), ({"priority": 0, "team": 7}, None, 7000),
    ]  # fmt: skip
    for metadata, status, most in cases:
        for before in (None, middle):
            cost = await watched.cost(
                lambda db, metadata=metadata, status=status, before=before: list_sessions(
                    db, TENANT, metadata=metadata, status=status, before=before
                )
            )
            assert cost.whole == [], (metadata, status)
            assert cost.rows <= most, (metadata, status, cost)
    await watched.close()


def command(database: Database, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """`perdure` with these arguments, for this database: its exit code, and what it wrote to stdout and stderr."""
    given = {
        "PERDURE_DATABASE_URL": database.dsn(),
        "PERDURE_TEMPORAL_ADDRESS": "127.0.0.1:1",
        "PERDURE_TENANT": TENANT,
    }
    done = subprocess.run(
        [str(Path(sys.executable).with_name("perdure")), *arguments],
        env={**os.environ, **given, **environment}, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


async def test_the_command_lists_by_metadata(stack: Stack) -> None:
    """`perdure migrate` allows the keys of the setting, and leaves them without it; `none` takes all away."""
    async with labelled(stack) as database:
        web = await opened(database, {"team": "web", "priority": 3})
        await opened(database, {"team": "ops", "priority": 3})

        def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
            return command(database, *arguments, **environment)

        code, _, said = await asyncio.to_thread(run, "sessions", "list", "--metadata", "team=web")
        assert (code, "no key" in said, "perdure migrate" in said) == (2, True, True)
        allowed = {"PERDURE_FILTERABLE_METADATA": "team, priority"}
        code, out, _ = await asyncio.to_thread(run, "migrate", "--json", **allowed)
        assert (code, set(json.loads(out)["filterable"])) == (0, {"team", "priority"})
        await filled(database)
        _, out, _ = await asyncio.to_thread(run, "migrate")
        assert "lists are filtered by priority (complete), team (complete)" in out
        asking = ("sessions", "list", "--json", "--metadata", "team=web", "--metadata", "priority=3")
        _, out, _ = await asyncio.to_thread(run, *asking)
        assert [row["session"] for row in json.loads(out)["sessions"]] == [web]
        code, _, said = await asyncio.to_thread(run, "sessions", "list", "--metadata", "team")
        assert (code, "KEY=VALUE" in said) == (2, True)
        _, out, _ = await asyncio.to_thread(run, "migrate", "--json", PERDURE_FILTERABLE_METADATA="none")
        assert json.loads(out)["filterable"] == {}


async def test_a_session_without_a_head_ends_no_list(database: Database) -> None:
    """A session without a head, which no list shows, does not end the list before its time."""
    known = [await opened(database, {"team": "web"}) for _ in range(6)]
    key = SessionKey(TENANT, known[4])
    async with database.transaction() as connection:
        sql = text("delete from perdure.session_heads where tenant_id = :tenant and session_id = :session")
        await connection.execute(sql, key._asdict())
    expected = [one for one in known[::-1] if one != key.session]
    assert await found(database, {"team": "web"}) == expected
    assert await found(database, {"team": "web"}, status="idle") == expected
