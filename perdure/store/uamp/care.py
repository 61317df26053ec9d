"""UAMP's sessions that nobody uses any more."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from perdure.store.database import Database

_LIMIT = 100

_IDLE = """
select s.tenant_id, s.id from perdure.uamp_sessions s
 where s.ended_at is null and s.last_seen_at < clock_timestamp() - $1::interval
   and not exists (select 1 from perdure.uamp_open_responses r
                    where r.tenant_id = s.tenant_id and r.session_id = s.session_id and r.uamp_session = s.id)
 order by random() limit $2
"""
_ENDED = """
with gone as (
    delete from perdure.uamp_sessions s using (
        select tenant_id, id from perdure.uamp_sessions where ended_at < clock_timestamp() - $1::interval
         limit $2 for update skip locked
    ) as over where s.tenant_id = over.tenant_id and s.id = over.id returning s.tenant_id, s.id
), mail as (
    delete from perdure.uamp_mail m using gone where m.tenant_id = gone.tenant_id and m.uamp_session = gone.id
), taken as (
    delete from perdure.uamp_taken t using gone where t.tenant_id = gone.tenant_id and t.uamp_session = gone.id
), seats as (
    delete from perdure.uamp_seats e using gone
     where e.tenant_id = gone.tenant_id and e.uamp_session = gone.id
), responses as (
    delete from perdure.uamp_responses r using gone where r.tenant_id = gone.tenant_id and r.uamp_session = gone.id
) select count(*) from gone
"""
_OLD_MAIL = """
with over as (
    select ctid from perdure.uamp_mail where at < clock_timestamp() - $1::interval limit $2
) delete from perdure.uamp_mail m using over where m.ctid = over.ctid
"""
_OLD_TAKEN = """
with over as (
    select ctid from perdure.uamp_taken where body is null and taken_at < clock_timestamp() - $1::interval limit $2
) delete from perdure.uamp_taken t using over where t.ctid = over.ctid
"""


async def find_idle(database: Database, *, idle: timedelta) -> list[tuple[str, str]]:
    """Tenant and id of sessions that have not ended, have no open response, and whose client was silent for so long."""
    async with database.driver() as connection:
        return [(row["tenant_id"], row["id"]) for row in await connection.fetch(_IDLE, idle, _LIMIT)]


async def delete_old(database: Database, *, retention: timedelta) -> int:
    """Delete sessions that ended so long ago, and what others were sent and did that long ago; how many sessions."""
    async with database.driver() as connection:
        for sql in (_OLD_MAIL, _OLD_TAKEN):
            await connection.execute(sql, retention, 10 * _LIMIT)
        return cast(int, await connection.fetchval(_ENDED, retention, _LIMIT))
