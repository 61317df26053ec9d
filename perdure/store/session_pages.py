"""Pages of sessions for who goes through all of them, in the order of their keys: each once, however many there are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from perdure.store.database import Database
from perdure.uap.session_key import SessionKey

_IDS = "select id from perdure.sessions where tenant_id = :tenant and id > :after order by id limit :limit"
_HEADS = """
select tenant_id, session_id, touched_at < clock_timestamp() - make_interval(secs => :quiet_s) as quiet
  from perdure.session_heads where (tenant_id, session_id) > (:tenant, :session)
 order by tenant_id, session_id limit :limit
"""


@dataclass(frozen=True, slots=True)
class HeadPage:
    """The sessions of a page that nothing was written to lately. `last` is the page's last, or None after the last page."""

    quiet: list[SessionKey]
    last: SessionKey | None


async def page_ids(database: Database, tenant: str, *, after: str, limit: int) -> list[str]:
    """The ids of a tenant's next sessions.

    Args:
        database: the store.
        tenant: whose.
        after: the last id of the page before; empty for the first page.
        limit: at most so many.
    """
    async with database.reading(tenant) as connection:
        return list(await connection.scalars(text(_IDS), {"tenant": tenant, "after": after, "limit": limit}))


async def page_heads(database: Database, *, quiet: timedelta, after: SessionKey | None, limit: int) -> HeadPage:
    """All tenants' next sessions.

    Args:
        database: the store.
        quiet: how long nothing was written to those that are given.
        after: the last of the page before; None for the first page.
        limit: at most so many are looked at.
    """
    tenant, session = after or ("", "")
    values: dict[str, Any] = {"tenant": tenant, "session": session, "limit": limit, "quiet_s": quiet.total_seconds()}
    async with database.reading() as connection:
        rows = (await connection.execute(text(_HEADS), values)).all()
    keys = [SessionKey(row.tenant_id, row.session_id) for row in rows]
    return HeadPage(
        [key for key, row in zip(keys, rows, strict=True) if row.quiet], keys[-1] if len(keys) == limit else None
    )
