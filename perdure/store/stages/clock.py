"""The store's clock, by which waits and sessions expire."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select

from perdure.store.database import Database


async def store_time(database: Database) -> datetime:
    """What time it is for the store."""
    async with database.transaction() as connection:
        now = await connection.scalar(select(func.clock_timestamp()))
    assert now is not None, "the clock always answers"
    return now
