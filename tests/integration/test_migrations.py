"""The schema on real databases: made once by whoever comes first, equal to the tables, refused if it is another."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from perdure.errors import SchemaOutdated, ServerUnavailable
from perdure.migrations.migrate import migrate
from perdure.migrations.schema import HEAD_REVISION, check_schema
from perdure.store.database import Database
from perdure.store.tables import SCHEMA, metadata

SQL = Path(str(files("perdure.migrations.sql")))
STORE = Path(str(files("perdure.store")))
MADE = """
select 'relation', oid::bigint, relname::text from pg_class where relnamespace = 'perdure'::regnamespace
union all
select 'function', oid::bigint, proname::text from pg_proc where pronamespace = 'perdure'::regnamespace
order by 1, 2
"""


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Database]:
    """A pool of its own, as another process would have."""
    database = Database(url, pool_size=1)
    try:
        yield database
    finally:
        await database.close()


async def migrated(url: str) -> tuple[str | None, str]:
    """One process that migrates."""
    async with opened(url) as database:
        return await migrate(database)


async def made(database: Database) -> list[Any]:
    """Every relation and function of the schema by its number, which a new one never has."""
    async with database.driver() as connection:
        return [tuple(row.values()) for row in await connection.fetch(MADE)]


async def test_five_processes_migrate_at_once(empty: str) -> None:
    """L101: One of them makes the schema, the others wait for it and find it made."""
    found = await asyncio.gather(*(migrated(empty) for _ in range(5)))
    assert [after for _, after in found] == [HEAD_REVISION] * 5
    assert sorted(before or "" for before, _ in found) == ["", *[HEAD_REVISION] * 4]
    async with opened(empty) as database:
        await check_schema(database)


async def test_migrating_twice_changes_nothing(empty: str) -> None:
    """A second migration finds the schema there and keeps every table, function and row of it."""
    async with opened(empty) as database:
        await migrate(database)
        before = await made(database)
        async with database.driver() as connection:
            await connection.execute(
                "insert into perdure.payloads (tenant_id, session_id, sha256, bytes) values ('t', 's', 'h', 'b')"
            )
        assert await migrate(database) == (HEAD_REVISION, HEAD_REVISION)
        assert await made(database) == before
        async with database.driver() as connection:
            assert await connection.fetchval("select count(*) from perdure.payloads") == 1
    assert len(before) > 20


async def test_a_database_of_the_version_before_is_brought_up(empty: str) -> None:
    """What is in it stays; its sessions are agents', and the new tables and columns are those of a new database."""
    async with opened(empty) as database:
        async with database.transaction() as connection:
            await connection.run_sync(_upgrade_to, "0005")
        async with database.driver() as connection:
            await connection.execute(
                "insert into perdure.session_heads (tenant_id, session_id, touched_at) values ('t', 's', now())"
            )
        before = await made(database)
        assert await migrate(database) == ("0005", HEAD_REVISION)
        after = await made(database)
        assert [one for one in before if one not in after] == []
        async with database.driver() as connection:
            assert await connection.fetchval("select stage from perdure.session_heads") is False
        async with database.transaction() as connection:
            assert await connection.run_sync(_differences) == []


def test_the_needed_revision_is_the_last_there_is() -> None:
    """What `check_schema` asks for, without loading alembic, is what alembic calls its head."""
    config = Config()
    config.set_main_option("script_location", str(files("perdure.migrations")))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD_REVISION]


async def test_the_tables_are_those_that_the_revisions_make(empty: str) -> None:
    """Columns, types, nullability, defaults, constraints and indexes that the code knows are those of the database."""
    async with opened(empty) as database:
        await migrate(database)
        async with database.transaction() as connection:
            assert await connection.run_sync(_differences) == []


async def test_the_partial_indexes_are_those_that_the_revisions_make(empty: str) -> None:
    """Which rows an index covers, which alembic does not compare, is as the code says."""
    async with opened(empty) as database:
        await migrate(database)
        async with database.transaction() as connection:
            found = await connection.run_sync(_predicates)
    known = {
        str(index.name): _plain(str(index.dialect_options["postgresql"]["where"]))
        for table in metadata.tables.values()
        for index in table.indexes
        if index.dialect_options["postgresql"]["where"] is not None
    }
    assert found == known
    assert len(known) > 3


async def test_every_function_of_the_revisions_is_made(empty: str) -> None:
    """None is lost where the file is taken apart into statements, and each that the store calls is among them."""
    written = _named(SQL, "*.sql", r"create function perdure\.(\w+)\(")
    called = _named(STORE, "*.py", r"\"(\w+_v\d+)\"")
    async with opened(empty) as database:
        await migrate(database)
        found = {name for kind, _, name in await made(database) if kind == "function"}
    assert found == written
    assert called <= found
    assert len(called) >= 7


async def test_a_newer_schema_is_not_touched(empty: str) -> None:
    """The schema of a later version is neither migrated nor used."""
    async with opened(empty) as database:
        await migrate(database)
        async with database.driver() as connection:
            await connection.execute("update perdure.alembic_version set version_num = '9999'")
        before = await made(database)
        with pytest.raises(SchemaOutdated, match="9999, newer than this version knows; upgrade perdure"):
            await migrate(database)
        with pytest.raises(SchemaOutdated, match=f"at revision 9999, newer than {HEAD_REVISION}"):
            await check_schema(database)
        assert await made(database) == before


async def test_an_empty_database_says_what_to_run(empty: str) -> None:
    """Where nothing was migrated, the error names the command that does it."""
    async with opened(empty) as database:
        with pytest.raises(SchemaOutdated, match=r"revision none.*run `perdure migrate`"):
            await check_schema(database)


async def test_a_closed_port_is_a_server_that_is_away() -> None:
    """Where nothing listens, the error names the address without the password."""
    with socket.socket() as held:  # bound, so that nobody else takes the port, but not listening
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        async with opened(f"postgresql://someone:secret@127.0.0.1:{port}/nothing") as database:
            with pytest.raises(ServerUnavailable, match=f"127.0.0.1:{port}/nothing does not answer") as caught:
                await check_schema(database)
    assert "secret" not in str(caught.value)


def _named(folder: Path, files: str, pattern: str) -> set[str]:
    return {name for path in folder.glob(files) for name in re.findall(pattern, path.read_text(encoding="utf-8"))}


def _upgrade_to(connection: Connection, revision: str) -> None:
    connection.execute(text("create schema perdure"))
    config = Config()
    config.set_main_option("script_location", str(files("perdure.migrations")))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _differences(connection: Connection) -> list[Any]:
    def ours(name: str | None, kind: str, _parents: object) -> bool:
        return kind != "schema" or name == SCHEMA

    context = MigrationContext.configure(
        connection,
        opts={
            "include_schemas": True,
            "include_name": ours,
            "version_table_schema": SCHEMA,
            "compare_type": True,
            "compare_server_default": True,
        },
    )
    return list(compare_metadata(context, metadata))


def _predicates(connection: Connection) -> dict[str, str]:
    inspector = inspect(connection)
    found: dict[str, str] = {}
    for table in metadata.tables.values():
        for index in inspector.get_indexes(table.name, schema=SCHEMA):
            where = index.get("dialect_options", {}).get("postgresql_where")
            if where is not None:
                found[str(index["name"])] = _plain(str(where))
    return found


def _plain(predicate: str) -> str:
    """A predicate without the brackets and casts that the server adds."""
    return predicate.replace("(", "").replace(")", "").replace("::text", "").lower()
