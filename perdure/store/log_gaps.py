"""Numbers that the event log lacks, although no folded event stands for them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, insert, text

from perdure.store.database import Database
from perdure.store.events import read_events
from perdure.store.opening import lock_head
from perdure.store.tables import events
from perdure.uap.session_key import SessionKey

FILLED = "log.filled"
"""The type of the event that says which numbers were lost."""

_UNEVEN = """
select h.session_id from perdure.session_heads h
 where h.tenant_id = :tenant and h.session_id = any(cast(:sessions as text[])) and not h.deleting
   and h.last_seq <> (select count(*) from perdure.events e
                       where e.tenant_id = h.tenant_id and e.session_id = h.session_id)
 order by h.session_id
"""
_LAST = "select last_seq from perdure.session_heads where tenant_id = :tenant and session_id = :session"
Gap = tuple[int, int]
"""The first and the last number that is missing."""


async def find_uneven(database: Database, tenant: str, sessions: Sequence[str]) -> list[str]:
    """Of these sessions those whose log has fewer events than numbers: folded, or with a gap."""
    async with database.reading(tenant) as connection:
        rows = await connection.scalars(text(_UNEVEN), {"tenant": tenant, "sessions": list(sessions)})
        return list(rows)


async def find_gaps(database: Database, key: SessionKey) -> list[Gap]:
    """The numbers that are missing from a session's log, in order; few events at a time are in memory."""
    async with database.reading(key) as connection:
        last = await connection.scalar(text(_LAST), key._asdict()) or 0
    missing: list[Gap] = []
    seen = 0
    while page := await read_events(database, key, after=seen):
        for event in page:
            if event.seq > seen + 1:
                missing.append((seen + 1, event.seq - 1))
            seen = event.seq
            if event.folded_from is not None:
                missing = [rest for gap in missing for rest in _without(gap, (event.folded_from, event.seq))]
    return [*missing, (seen + 1, last)] if seen < last else missing


def _without(gap: Gap, span: Gap) -> list[Gap]:
    """What of a gap lies outside a span."""
    rest = [(gap[0], min(gap[1], span[0] - 1)), (max(gap[0], span[1] + 1), gap[1])]
    return [part for part in rest if part[0] <= part[1]]


async def fill_gaps(database: Database, key: SessionKey) -> list[Gap]:
    """Write one event for each gap, which says that what it stands for is lost; the gaps that there were."""
    async with database.transaction(key) as connection:
        head = await lock_head(connection, key)
        if head is None or head.deleting:
            return []
        gaps = await find_gaps(database, key)
        for first, last in gaps:
            await connection.execute(
                insert(events).values(
                    tenant_id=key.tenant, session_id=key.session, seq=last, source="run", type=FILLED,
                    data={"folded": {"from": first, "to": last}}, at=func.clock_timestamp(),
                )
            )  # fmt: skip
        return gaps
