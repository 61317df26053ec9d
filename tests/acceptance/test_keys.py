"""`perdure keys`: made, shown once, listed, revoked; and those that sign. In a database of its own, since a key closes the API."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy import make_url

from perdure.migrations.migrate import migrate
from perdure.store.database import Database
from tests.acceptance.terminal import Terminal


@pytest.fixture
def terminal(perdure: Terminal) -> Iterator[Terminal]:
    """A terminal whose database is new."""
    record = json.loads((perdure.folder / ".perdure" / "servers.json").read_bytes())
    shared = make_url(record["postgres"]["url"])
    name = f"keys_{uuid.uuid4().hex}"
    url = shared.set(database=name).render_as_string(hide_password=False)
    asyncio.run(administer(shared.render_as_string(hide_password=False), f"create database {name}"))
    asyncio.run(migrated(url))
    yield perdure.with_environment(PERDURE_DATABASE_URL=url)
    asyncio.run(administer(shared.render_as_string(hide_password=False), f"drop database {name} with (force)"))


async def administer(url: str, statement: str) -> None:
    database = Database(url, pool_size=1)
    async with database.driver() as connection:
        await connection.execute(statement)
    await database.close()


async def migrated(url: str) -> None:
    database = Database(url, pool_size=1)
    await migrate(database)
    await database.close()


def test_a_key_is_made_listed_and_revoked(terminal: Terminal) -> None:
    assert "no keys" in terminal("keys", "list").err
    shown = terminal("keys", "create", "the robot", "--scope", "run", "--scope", "read", "--days", "30")
    key = shown.out.strip()
    assert key.startswith("pdk_")
    assert "cannot be shown again" in shown.err
    page = terminal("keys", "list").out
    assert "the robot" in page
    assert "read run" in page
    (listed,) = terminal("keys", "list", "--json").json["keys"]
    assert key.split("_")[1] == listed["id"]
    assert (listed["tenant"], listed["scopes"], listed["revoked_at"]) == ("default", ["read", "run"], None)
    assert listed["expires_at"] > listed["created_at"]
    assert key.split("_", 2)[2] not in page + json.dumps(listed)
    assert listed["id"] in terminal("keys", "revoke", listed["id"]).out
    (revoked,) = terminal("keys", "list", "--json").json["keys"]
    assert revoked["revoked_at"] is not None


def test_a_key_of_another_tenant_is_out_of_reach(terminal: Terminal) -> None:
    made = terminal("keys", "create", "robot", "--scope", "admin", "--tenant", "acme", "--json").json
    assert made["key"].startswith(f"pdk_{made['id']}_")
    assert terminal("keys", "list", "--json").json == {"keys": []}
    terminal("keys", "revoke", made["id"], code=2).check_error(made["id"], "perdure keys list")
    assert terminal("keys", "revoke", made["id"], "--tenant", "acme", "--json").json["revoked_at"] is not None


def test_what_cannot_be_a_key_is_refused(terminal: Terminal) -> None:
    terminal("keys", "create", " ", "--scope", "read", code=2).check_error("NAME")
    terminal("keys", "create", "robot", code=2).check_error("--scope")
    terminal("keys", "create", "robot", "--scope", "write", code=2).check_error("write")
    terminal("keys", "create", "robot", "--scope", "read", "--days", "0", code=2).check_error("--days")
    terminal("keys", "create", "robot", "--scope", "read", "--tenant", "a/b", code=2).check_error("tenant")


def test_a_key_that_signs_is_followed_and_forgotten(terminal: Terminal) -> None:
    assert "no signing key yet" in terminal("signing", "list").err
    (first,) = terminal("signing", "rotate", "--json").json["keys"]
    assert first["signs"] is True
    shown = terminal("signing", "rotate")
    assert "in 2 minutes" in shown.err
    assert first["id"] in shown.out
    new, old = terminal("signing", "list", "--json").json["keys"]
    assert (old["id"], old["signs"], new["signs"]) == (first["id"], True, False)
    assert "private" not in json.dumps([new, old])
    refused = terminal("signing", "forget", old["id"], code=2)
    assert "perdure signing rotate" in refused.err
    assert "perdure signing list" in terminal("signing", "forget", "nobody", code=2).err
    assert new["id"] in terminal("signing", "forget", new["id"]).out
    assert [key["id"] for key in terminal("signing", "list", "--json").json["keys"]] == [old["id"]]
