"""API keys on a real database: what opens, for how long, and when nobody is asked."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from perdure.api.authentication import ANONYMOUS, CACHE_SECONDS, Authenticator, is_open, make_authenticator
from perdure.api.principal import Principal, Scope
from perdure.api.problems import Refused
from perdure.config import Settings
from perdure.errors import InvalidInput, ServerUnavailable
from perdure.runtime.temporal import connect_temporal
from perdure.store.api_keys import create_key, list_keys, revoke_key
from perdure.store.database import Database
from tests.integration import access_stage
from tests.integration.access_stage import OWNER
from tests.integration.stack import Stack
from tests.unit.api import issuer

CLIENT = "httpx"
"""Whose log records are the test's own: it puts a key into an address on purpose."""
GONE = "postgresql://u:p@127.0.0.1:1/none"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def url(stack: Stack) -> Iterator[str]:
    with access_stage.own_database(stack) as made:
        yield made


@pytest.fixture
async def database(url: str) -> AsyncGenerator[Database]:
    """The database without a key."""
    opened = Database(url, pool_size=2)
    await execute(opened, "delete from perdure.api_keys")
    yield opened
    await opened.close()


async def execute(database: Database, statement: str) -> None:
    async with database.driver() as connection:
        await connection.execute(statement)


async def ask(authenticator: Authenticator, *headers: tuple[str, str]) -> Principal:
    sent = [(name.lower().encode(), value.encode()) for name, value in headers]
    return await authenticator.authenticate(HTTPConnection({"type": "http", "headers": sent}))


async def status(authenticator: Authenticator, *headers: tuple[str, str]) -> int:
    try:
        await ask(authenticator, *headers)
    except Refused as refused:
        return refused.status
    return 200


def bearer(key: str) -> tuple[str, str]:
    return ("Authorization", f"Bearer {key}")


async def test_a_key_says_who_calls_and_what_it_may(database: Database) -> None:
    _, key = await create_key(database, OWNER, "robot", ["run", "read"])
    authenticator = Authenticator(database, tenant="default")
    for header in (bearer(key), ("authorization", f"BEARER  {key} "), ("X-API-Key", key)):
        principal = await ask(authenticator, header)
        assert principal == Principal("robot", OWNER, frozenset({Scope.READ, Scope.RUN}))
        assert principal.may(Scope.RUN)
        assert not principal.may(Scope.APPROVE)


async def test_of_a_key_only_the_hash_is_stored(database: Database, url: str) -> None:
    row, key = await create_key(database, OWNER, "robot", ["read"])
    ((stored,),) = await access_stage.rows(url, "select to_json(k)::text from perdure.api_keys k")
    assert json.loads(stored)["sha256"] == hashlib.sha256(key.encode()).hexdigest()
    assert key.split("_", 2)[2] not in stored
    assert row.sha256 not in repr(row)
    assert await access_stage.rows(url, f"select count(*) from perdure.tenants where tenant_id = '{OWNER}'") == [(1,)]


async def test_what_is_no_such_key_opens_nothing(database: Database) -> None:
    row, key = await create_key(database, OWNER, "robot", ["read"])
    authenticator = Authenticator(database, tenant="default")
    other = f"pdk_{row.id}_{'x' * 43}"
    for wrong in (other, key[:-1], key + "x", key.upper(), f"pdk_{row.id}_", "pdk_", row.sha256, f"{key}\u00e9"):
        assert await status(authenticator, bearer(wrong)) == 401, wrong
        assert await status(authenticator, ("X-API-Key", wrong)) == 401, wrong
    for odd in ("Basic eDp5", "Bearer", "Bearer ", key, "Bearer a b"):
        assert await status(authenticator, ("Authorization", odd)) == 401, odd
    assert await status(authenticator, bearer(key), ("X-API-Key", key)) == 400
    assert await status(authenticator, bearer(key), bearer(key)) == 400
    assert await status(authenticator, bearer(key)) == 200


async def test_a_request_costs_no_query_of_its_own_and_a_revoked_key_works_for_seconds_at_most(
    database: Database,
) -> None:
    clock = Clock()
    row, key = await create_key(database, OWNER, "robot", ["read"])
    authenticator = Authenticator(database, tenant="default", clock=clock)
    assert await status(authenticator, bearer(key)) == 200
    revoked = await revoke_key(database, OWNER, row.id)
    clock.now += CACHE_SECONDS - 0.1
    assert await status(authenticator, bearer(key)) == 200
    clock.now += 0.1
    assert await status(authenticator, bearer(key)) == 401
    assert (await revoke_key(database, OWNER, row.id)).revoked_at == revoked.revoked_at


async def test_a_key_expires_on_time_although_it_was_read_before(database: Database) -> None:
    authenticator = Authenticator(database, tenant="default", clock=Clock())
    key, soon = await read_before_it_expires(database, authenticator)
    while datetime.now(UTC) < soon:
        await execute(database, "select pg_sleep(0.05)")
    assert await status(authenticator, bearer(key)) == 401


async def read_before_it_expires(database: Database, authenticator: Authenticator) -> tuple[str, datetime]:
    """A key that was good when it was read, and when it is good no more; it lives for longer if reading took too long."""
    for life in (0.3, 3, 30):
        soon = datetime.now(UTC) + timedelta(seconds=life)
        _, key = await create_key(database, OWNER, "robot", ["read"], expires_at=soon)
        if await status(authenticator, bearer(key)) == 200:
            return key, soon
        assert datetime.now(UTC) >= soon, "it was refused before its time"
    raise AssertionError("no key was read in time")


async def test_the_last_use_is_kept_to_the_minute(database: Database) -> None:
    clock = Clock()
    _, key = await create_key(database, OWNER, "robot", ["read"])
    authenticator = Authenticator(database, tenant="default", clock=clock)
    await status(authenticator, bearer(key[:-1] + ("x" if key[-1] != "x" else "y")))
    assert [row.last_used_at for row in await list_keys(database, OWNER)] == [None]
    clock.now += CACHE_SECONDS
    await ask(authenticator, bearer(key))
    (first,) = await list_keys(database, OWNER)
    assert first.last_used_at is not None
    clock.now += CACHE_SECONDS
    await ask(authenticator, bearer(key))
    assert await list_keys(database, OWNER) == [first]
    await execute(database, "update perdure.api_keys set last_used_at = last_used_at - interval '61 s'")
    clock.now += CACHE_SECONDS
    await ask(authenticator, bearer(key))
    (later,) = await list_keys(database, OWNER)
    assert later.last_used_at is not None
    assert later.last_used_at >= first.last_used_at


async def test_a_tenants_keys_are_its_own(database: Database) -> None:
    row, _ = await create_key(database, OWNER, "robot", ["read"])
    assert await list_keys(database, "other") == []
    with pytest.raises(InvalidInput, match="perdure keys list"):
        await revoke_key(database, "other", row.id)
    assert (await list_keys(database, OWNER))[0].revoked_at is None


async def test_without_any_key_nobody_is_asked_until_there_is_one(database: Database) -> None:
    """A key closes a running server within seconds, and nothing opens it again: not even that all keys are gone."""
    clock = Clock()
    authenticator = Authenticator(database, tenant="mine", may_be_open=True, clock=clock)
    assert await ask(authenticator) == Principal(ANONYMOUS, "mine", frozenset({Scope.ADMIN}))
    await create_key(database, "anyone", "robot", ["read"])
    clock.now += CACHE_SECONDS
    assert await status(authenticator) == 401
    assert not authenticator.is_open
    await execute(database, "delete from perdure.api_keys")
    clock.now += CACHE_SECONDS
    assert await status(authenticator) == 401


async def test_a_wrong_key_is_refused_even_where_nobody_is_asked(database: Database) -> None:
    authenticator = Authenticator(database, tenant="mine", may_be_open=True)
    assert await status(authenticator, bearer("pdk_x")) == 401


async def test_revoking_the_last_key_opens_nothing(database: Database) -> None:
    assert await is_open(database, Settings())
    row, _ = await create_key(database, OWNER, "robot", ["read"])
    await revoke_key(database, OWNER, row.id)
    assert not await is_open(database, Settings())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "perdure.example", "localhost.evil.example", ""])
async def test_an_open_server_is_reached_from_this_machine_alone(database: Database, host: str) -> None:
    with pytest.raises(InvalidInput, match="perdure keys create"):
        await make_authenticator(database, Settings(), host=host)
    await create_key(database, OWNER, "robot", ["read"])
    assert not (await make_authenticator(database, Settings(), host=host)).is_open


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.2"])
async def test_this_machine_may_be_served_openly(database: Database, host: str) -> None:
    assert (await make_authenticator(database, Settings(), host=host)).is_open


async def test_a_database_that_is_away_is_no_refusal() -> None:
    database = Database(GONE)
    authenticator = Authenticator(database, tenant="mine", may_be_open=True)
    for headers in ([], [bearer(f"pdk_{'0' * 16}_{'x' * 43}")]):
        with pytest.raises(ServerUnavailable):
            await ask(authenticator, *headers)
    await database.close()


async def test_l97_a_key_and_a_token_are_found_nowhere(
    stack: Stack, url: str, database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in a table, a log record, an event, a history, an answer nor a metric, after requests good and bad."""
    now = int(datetime.now(UTC).timestamp())
    token = issuer.sign(issuer.RSA, "RS256", tenant=OWNER, scope="admin", iat=now, exp=now + 600)
    _, key = await create_key(database, OWNER, "robot", ["admin"])
    (tmp_path / "keys.json").write_bytes(issuer.key_set(issuer.RSA))
    tokens = {"jwt_issuer": issuer.NAME, "jwt_audience": issuer.AUDIENCE, "jwks_file": tmp_path / "keys.json"}
    worker = access_stage.owners_worker(stack, url)
    seen: list[str] = []
    with caplog.at_level(logging.DEBUG):
        async with access_stage.serving(stack, url, **tokens) as (_, client):
            for headers in ({"X-API-Key": key}, dict([bearer(key)]), dict([bearer(token)])):
                body: dict[str, Any] = {
                    "agent": "actor", "mode": "wait", "input": json.dumps({"name": "canary", "script": ["Done."]}),
                }  # fmt: skip
                run = await client.post("/api/runs", json=body, headers=headers)
                assert run.json()["status"] == "completed", run.text
                events = f"/api/runs/{run.json()['run']}/events"
                bad: list[Any] = [{**body, "odd": key}, {**body, "mode": token}, [key, token], {"agent": {"x": key}}]
                answers = [
                    run,
                    await client.get(events, headers=headers),
                    *[await client.post("/api/runs", json=item, headers=headers) for item in bad],
                    await client.post("/api/runs", content=f'{{"agent": "{key}', headers=headers),
                    await client.get("/api/sessions", params={"limit": key}, headers=headers),
                    await client.get("/api/sessions", headers={name: value + "x" for name, value in headers.items()}),
                    await client.get("/metrics"),
                ]
                seen += [answer.text + str(answer.headers) for answer in answers]
                workflow = f"session/{OWNER}/{run.json()['session']}"
                temporal = await connect_temporal(stack.addresses.temporal, "default")
                history = await temporal.get_workflow_handle(workflow).fetch_history()
                seen += [event.SerializeToString().decode("latin-1") for event in history.events]
    worker.kill()
    tables = await access_stage.rows(
        url, "select table_name from information_schema.tables where table_schema = 'perdure'"
    )
    for (table,) in tables:
        seen += [text for (text,) in await access_stage.rows(url, f"select t::text from perdure.{table} t")]
    seen += [
        worker.said,
        *(str(vars(record)) + record.getMessage() for record in caplog.records if record.name != CLIENT),
    ]
    everything = "\n".join(seen)
    for canary in (key.split("_", 2)[2], token.rpartition(".")[2]):  # a secret may have "_" in it
        assert canary not in everything
        assert canary.encode().hex() not in everything
