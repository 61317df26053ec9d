"""Runs that are open in the rows, page by page; and of sessions, whether anything holds an execution of theirs open."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from perdure.store.database import Database
from perdure.uap.session_key import SessionKey

_OPEN = """
select r.tenant_id, r.session_id, r.id, r.started_at, r.status, h.touched_at, h.paused, s.agent, a.task_queue,
       w.kind as wait_kind, w.id as wait_id, w.asked_at
  from perdure.runs r
  join perdure.session_heads h on h.tenant_id = r.tenant_id and h.session_id = r.session_id and h.active_run = r.id
       and not h.deleting
  join perdure.sessions s on s.tenant_id = r.tenant_id and s.id = r.session_id
  left join perdure.session_addresses a on a.tenant_id = s.tenant_id and a.session_id = s.id
  left join lateral (
       select w.kind, w.id, w.asked_at from perdure.waits w
        where w.tenant_id = r.tenant_id and w.session_id = r.session_id and w.run_id = r.id and w.answered_at is null
        order by w.asked_at, w.id limit 1) w on true
 where r.ended_at is null and (cast(:tenant as text) is null or r.tenant_id = :tenant)
   and h.touched_at < clock_timestamp() - make_interval(secs => :quiet_s)
   and (r.started_at, r.id) > (:started, :id)
 order by r.started_at, r.id limit :limit
"""
_STANDING = """
select asked.tenant, asked.session, s.id is not null as known, coalesce(h.deleting, false) as deleting,
       h.active_run is null and not h.paused and h.touched_at < clock_timestamp() - make_interval(secs => :quiet_s)
       and not exists (select 1 from perdure.inputs i where i.tenant_id = h.tenant_id and i.session_id = h.session_id
                          and i.state = 'queued' and (i.not_before is null or i.not_before <= clock_timestamp()))
       as idle
  from unnest(cast(:tenants as text[]), cast(:sessions as text[])) as asked (tenant, session)
  left join perdure.sessions s on s.tenant_id = asked.tenant and s.id = asked.session
  left join perdure.session_heads h on h.tenant_id = asked.tenant and h.session_id = asked.session
"""
_CLAIM = "select pg_try_advisory_xact_lock(hashtextextended(:name, 0))"
_BEGINNING = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

GONE, IDLE, BUSY = "gone", "idle", "busy"


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that is active.

    Attributes:
        key: its session.
        id: its id.
        started_at: when it began.
        status: "running" or "parked".
        touched_at: when anything was last written to its session.
        paused: the session is.
        task_queue: whose workers serve it; None if its agent is not registered.
        wait: kind, id and time of the oldest question that it waits for, or None.
    """

    key: SessionKey
    id: str
    started_at: datetime
    status: str
    touched_at: datetime
    paused: bool
    task_queue: str | None
    wait: tuple[str, str, datetime] | None


async def page_open_runs(
    database: Database, tenant: str | None, *, quiet: timedelta, after: OpenRun | None, limit: int
) -> list[OpenRun]:
    """The next runs that are active, those that began first first.

    Args:
        database: the store.
        tenant: whose; None for all tenants'.
        quiet: only of sessions that nothing was written to for so long.
        after: the last of the page before; None for the first page.
        limit: at most so many.
    """
    values: dict[str, Any] = {"tenant": tenant, "quiet_s": quiet.total_seconds(), "limit": limit}
    values |= {"started": after.started_at if after else _BEGINNING, "id": after.id if after else ""}
    async with database.reading(tenant) as connection:
        rows = (await connection.execute(text(_OPEN), values)).all()
    return [
        OpenRun(
            SessionKey(row.tenant_id, row.session_id), row.id, row.started_at, row.status, row.touched_at, row.paused,
            row.task_queue, None if row.wait_id is None else (row.wait_kind, row.wait_id, row.asked_at),
        )
        for row in rows
    ]  # fmt: skip


async def read_standings(
    database: Database, keys: Iterable[SessionKey], *, quiet: timedelta, query: str = _STANDING
) -> dict[SessionKey, str]:
    """Of each of these sessions what its rows say of it.

    Args:
        database: the store.
        keys: sessions, which may be gone.
        quiet: how long nothing was written to a session that counts as idle.
        query: gives tenant, session, known, deleting and idle of each; for sessions of another kind than agents'.

    Returns:
        `GONE`: there is no such session; `IDLE`: nothing runs, and nothing waits to be run; `BUSY`: anything else.
    """
    asked = list(keys)
    values = {
        "tenants": [key.tenant for key in asked], "sessions": [key.session for key in asked],
        "quiet_s": quiet.total_seconds(),
    }  # fmt: skip
    async with database.reading() as connection:
        rows = (await connection.execute(text(query), values)).all()
    found: dict[SessionKey, str] = {}
    for row in rows:
        standing = IDLE if row.idle and not row.deleting else BUSY
        found[SessionKey(row.tenant, row.session)] = standing if row.known or row.deleting else GONE
    return found


@asynccontextmanager
async def claimed(database: Database, key: SessionKey) -> AsyncGenerator[bool]:
    """Whether it is this process that looks after a session inside the block: of several only one does."""
    async with database.transaction() as connection:
        yield bool(await connection.scalar(text(_CLAIM), {"name": f"perdure/{key.workflow_id}"}))
