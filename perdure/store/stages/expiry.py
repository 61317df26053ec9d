"""Ending sessions whose time is over."""

from __future__ import annotations

from sqlalchemy import text

from perdure.store.database import Database
from perdure.store.stages.held import hold, let_expire
from perdure.uap.session_key import SessionKey

_DUE = text("""
select tenant_id, id from perdure.stage_sessions
 where expires_at is not null and open_actions = 0 and expires_at <= now()
 order by expires_at limit :limit
""")


async def mark_expired(database: Database, *, limit: int = 100) -> list[SessionKey]:
    """End the sessions, of all tenants, whose time is over and of which no action is open.

    Args:
        database: the store.
        limit: at most so many, those that have been due longest first.

    Returns:
        Those that were ended by this call.
    """
    async with database.reading() as connection:
        due = (await connection.execute(_DUE, {"limit": limit})).all()
    return [key for row in due if await _expire(database, key := SessionKey(row.tenant_id, row.id))]


async def _expire(database: Database, key: SessionKey) -> bool:
    async with database.transaction(key) as connection:
        held = await hold(connection, key)
        return held is not None and await let_expire(held)
