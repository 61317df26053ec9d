"""Sessions whose deletion was cut off."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import text

from perdure.store.database import Database

QUIET = timedelta(minutes=5)
"""A deletion that has done nothing for so long is not going on any more."""

_UNFINISHED = """
select h.session_id from perdure.session_heads h
  join perdure.sessions s on s.tenant_id = h.tenant_id and s.id = h.session_id
 where h.tenant_id = :tenant and h.session_id = any(cast(:sessions as text[])) and h.deleting
   and h.touched_at < clock_timestamp() - make_interval(secs => :quiet_s)
   and not exists (select 1 from perdure.sessions r where r.tenant_id = s.tenant_id and r.id = s.root_session)
 order by h.session_id
"""


async def find_unfinished(database: Database, tenant: str, sessions: Sequence[str]) -> list[str]:
    """Of these sessions those that are marked as being deleted, with nobody at it; a sub-agent's goes with its root's."""
    values = {"tenant": tenant, "sessions": list(sessions), "quiet_s": QUIET.total_seconds()}
    async with database.reading(tenant) as connection:
        return list(await connection.scalars(text(_UNFINISHED), values))
