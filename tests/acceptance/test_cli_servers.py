"""Commands where no servers are, where they are away, and where their schema is another."""

from __future__ import annotations

import asyncio
import json
import time

import asyncpg
import pytest

from tests.acceptance.terminal import Terminal
from tests.scale import allowed_s

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "arguments",
    [("run", "calc", "x"), ("sessions", "list"), ("doctor",), ("migrate",), ("waits", "list")],
    ids=lambda arguments: arguments[0],
)
def test_without_servers_a_command_says_how_to_get_some(elsewhere: Terminal, arguments: tuple[str, ...]) -> None:
    """In a folder without servers every command ends at once with code 3 and the remedy."""
    began = time.monotonic()
    elsewhere(*arguments, code=3).check_error("perdure dev MODULE:APP", "PERDURE_TEMPORAL_ADDRESS")
    assert time.monotonic() - began < allowed_s(10)


def test_servers_that_are_away_are_named(perdure: Terminal) -> None:
    """A server that does not answer is named with its address within 10 s, its password never; doctor finds it."""
    url = f"postgresql://me:secret@{NOWHERE}/x"
    began = time.monotonic()
    without_database = perdure.with_environment(PERDURE_DATABASE_URL=url)
    without_database("sessions", "list", code=3).check_error("PostgreSQL", NOWHERE)
    without_temporal = perdure.with_environment(PERDURE_TEMPORAL_ADDRESS=NOWHERE)
    without_temporal("run", "calc", "x", code=3).check_error("Temporal", NOWHERE)
    assert time.monotonic() - began < allowed_s(10)
    without_temporal("sessions", "list")
    sick = without_database("doctor", "--json", code=1)
    assert "secret" not in sick.out + sick.err
    assert [check["name"] for check in sick.json["checks"] if not check["ok"]] == ["postgresql"]


def test_an_old_schema_is_not_used(perdure: Terminal) -> None:
    """A database without our schema is refused with the command that helps, which then helps."""
    url = json.loads((perdure.folder / ".perdure/servers.json").read_text())["postgres"]["url"]

    async def create() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("create database bare")
        await connection.close()

    asyncio.run(create())
    bare = perdure.with_environment(PERDURE_DATABASE_URL=f"{url.rpartition('/')[0]}/bare")
    for arguments in (("run", "calc", "x"), ("sessions", "list"), ("worker", "agents:app")):
        bare(*arguments, code=3).check_error("revision none", "perdure migrate")
    assert bare("migrate", "--json").json["before"] is None
    assert "as this version needs it" in bare("migrate").out
    assert bare("sessions", "list", "--json").json == {"sessions": [], "next": None}


def test_a_setting_that_cannot_be_used_is_named(elsewhere: Terminal) -> None:
    """A wrong variable is a user's error that names it."""
    elsewhere.with_environment(PERDURE_TEMPORAL_ADDRESS="nowhere")("sessions", "list", code=2).check_error(
        "PERDURE_TEMPORAL_ADDRESS", "'nowhere'"
    )
