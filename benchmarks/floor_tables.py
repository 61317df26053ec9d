"""The floor's tables."""

from __future__ import annotations

import asyncpg

from benchmarks.floor_writer import COLUMNS
from perdure.migrations.migrate import migrate
from perdure.store.database import Database


async def make_tables(url: str) -> None:
    """Make the tables anew, in a database of the floor's own: copies of Perdure's with indexes, without triggers."""
    database = Database(url)
    try:
        await migrate(database)
    finally:
        await database.close()
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("drop schema if exists floor cascade; create schema floor; create sequence floor.seq")
        for table in COLUMNS:
            await connection.execute(f"create table floor.{table} (like perdure.{table} including all)")
        await connection.execute("alter table floor.events alter column seq set default nextval('floor.seq')")
    finally:
        await connection.close()
