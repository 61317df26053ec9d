"""The run that a session is at: what is followed where none is named."""

from __future__ import annotations

from perdure.store.database import Database
from perdure.store.inputs import RUNS
from perdure.uap.session_key import SessionKey

_IN_HAND = """
select coalesce(h.active_run, (
         select i.run_id from perdure.inputs i
          where i.tenant_id = $1 and i.session_id = $2 and i.state = 'queued' and i.kind = any($3)
            and (i.not_before is null or i.not_before <= clock_timestamp())
          order by i.ordinal limit 1))
  from perdure.session_heads h where h.tenant_id = $1 and h.session_id = $2
"""
"""One statement, which sees an input either in the queue or as the active run, and never in between."""


async def find_run_in_hand(database: Database, key: SessionKey) -> str | None:
    """The id of the run that is active, or else is due next; None if the session has nothing to do, or is not there."""
    async with database.driver(key) as connection:
        found: str | None = await connection.fetchval(_IN_HAND, key.tenant, key.session, list(RUNS))
    return found
