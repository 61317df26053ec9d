"""Actions that were begun, page by page; and of sessions, whether anything holds an execution of theirs open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from perdure.store.database import Database
from perdure.store.open_runs import read_standings
from perdure.store.tables import stage_actions
from perdure.uap.session_key import SessionKey

_BEGUN = """
select a.tenant_id, a.session_id, a.ordinal, a.id, a.name, a.stage, a.state, a.started_at, h.touched_at, s.workflow,
       s.status = 'paused' as paused, w.task_queue
  from perdure.stage_actions a
  join perdure.stage_sessions s on s.tenant_id = a.tenant_id and s.id = a.session_id
  join perdure.session_heads h on h.tenant_id = a.tenant_id and h.session_id = a.session_id and not h.deleting
  left join perdure.stage_workflows w on w.tenant_id = s.tenant_id and w.name = s.workflow
 where a.started_at is not null and a.settled_at is null and (cast(:tenant as text) is null or a.tenant_id = :tenant)
   and h.touched_at < clock_timestamp() - make_interval(secs => :quiet_s)
   and (a.started_at, a.id) > (:started, :id)
 order by a.started_at, a.id limit :limit
"""
_STANDING = """
select asked.tenant, asked.session, s.id is not null as known, coalesce(h.deleting, false) as deleting,
       s.open_actions = 0 and h.touched_at < clock_timestamp() - make_interval(secs => :quiet_s) as idle
  from unnest(cast(:tenants as text[]), cast(:sessions as text[])) as asked (tenant, session)
  left join perdure.stage_sessions s on s.tenant_id = asked.tenant and s.id = asked.session
  left join perdure.session_heads h on h.tenant_id = asked.tenant and h.session_id = asked.session
"""
_BEGINNING = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True)
class BegunAction:
    """An action that was taken and is not settled: its task runs, or a person is asked about it.

    Attributes:
        key: its session.
        ordinal: its place.
        id: its id.
        task: the task's name.
        stage: where that is.
        workflow: of the session.
        is_waiting: a person is asked.
        started_at: when it was taken.
        touched_at: when anything was last written to its session.
        paused: the session is.
        task_queue: whose workers serve it; None if its workflow is not registered.
    """

    key: SessionKey
    ordinal: int
    id: str
    task: str
    stage: str
    workflow: str
    is_waiting: bool
    started_at: datetime
    touched_at: datetime
    paused: bool
    task_queue: str | None

    @property
    def rests(self) -> bool:
        """Whether nothing is to go on before its session is resumed."""
        return self.paused and self.is_waiting


async def page_begun(
    database: Database, tenant: str | None, *, quiet: timedelta, after: BegunAction | None, limit: int
) -> list[BegunAction]:
    """The next actions that were begun, those that were taken first first.

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
        query = text(_BEGUN).bindparams(**values).columns(name=stage_actions.c.name.type)
        rows = (await connection.execute(query)).all()
    return [
        BegunAction(
            SessionKey(row.tenant_id, row.session_id), row.ordinal, row.id, row.name, row.stage, row.workflow,
            row.state == "waiting", row.started_at, row.touched_at, row.paused, row.task_queue,
        )
        for row in rows
    ]  # fmt: skip


async def read_stage_standings(
    database: Database, keys: Iterable[SessionKey], *, quiet: timedelta
) -> dict[SessionKey, str]:
    """Of each of these stage sessions what its rows say of it, as `read_standings` does of sessions."""
    return await read_standings(database, keys, quiet=quiet, query=_STANDING)
