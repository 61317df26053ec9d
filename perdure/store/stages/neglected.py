"""Stage sessions that nobody is at: actions that nobody took, answers that nobody heard, tasks that nothing is heard of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.store.database import Database
from perdure.uap.session_key import SessionKey

_LIMIT = 100
"""Of many, any: those whose worker is gone for good, however many, hold up no other."""

_QUEUED = """
select a.tenant_id, a.session_id, s.workflow, w.task_queue, a.ordinal
  from perdure.stage_actions a
  join perdure.stage_sessions s on s.tenant_id = a.tenant_id and s.id = a.session_id
  join perdure.stage_workflows w on w.tenant_id = s.tenant_id and w.name = s.workflow
 where a.state = 'queued' and a.accepted_at < now() - interval '1 second' and s.status <> 'paused'
   and not exists (select 1 from perdure.stage_actions b where b.tenant_id = a.tenant_id
                      and b.session_id = a.session_id and b.ordinal < a.ordinal and b.state <> 'settled')
 order by random() limit $1
"""

_ANSWERED = """
select a.tenant_id, a.session_id, s.workflow, w.task_queue, a.ordinal
  from perdure.stage_waits a
  join perdure.stage_sessions s on s.tenant_id = a.tenant_id and s.id = a.session_id
  join perdure.stage_workflows w on w.tenant_id = s.tenant_id and w.name = s.workflow
 where a.answered_at is not null and not a.closed and a.answered_at < now() - interval '1 second'
   and s.status <> 'paused'
 order by random() limit $1
"""

_SILENT = """
select a.tenant_id, a.session_id, s.workflow, w.task_queue, a.ordinal
  from perdure.stage_actions a
  join perdure.stage_sessions s on s.tenant_id = a.tenant_id and s.id = a.session_id
  join perdure.stage_workflows w on w.tenant_id = s.tenant_id and w.name = s.workflow
  join perdure.session_heads h on h.tenant_id = a.tenant_id and h.session_id = a.session_id
 where a.started_at is not null and a.settled_at is null
   and h.touched_at < now() - make_interval(secs => $2) and (a.state = 'running' or s.status <> 'paused')
 order by random() limit $1
"""


@dataclass(frozen=True, slots=True)
class NeglectedStage:
    """A session whose workflow is to be woken.

    Attributes:
        key: the session.
        workflow: its workflow's name.
        task_queue: of whoever serves it now.
        ordinal: of the action that is why.
    """

    key: SessionKey
    workflow: str
    task_queue: str
    ordinal: int


async def find_neglected(database: Database) -> list[NeglectedStage]:
    """Sessions whose next action has been queued, or answered, for a second or more; paused ones are left alone."""
    return [*await _find(database, _QUEUED, _LIMIT), *await _find(database, _ANSWERED, _LIMIT)]


async def find_silent(database: Database, *, seconds: float) -> list[NeglectedStage]:
    """Sessions with an action that runs or waits, of which nothing was written for `seconds`; the execution may be lost.

    What waits in a paused session is left alone.
    """
    return await _find(database, _SILENT, _LIMIT, seconds)


async def _find(database: Database, sql: str, *arguments: Any) -> list[NeglectedStage]:
    async with database.driver() as connection:
        rows = await connection.fetch(sql, *arguments)
    return [
        NeglectedStage(
            SessionKey(row["tenant_id"], row["session_id"]), row["workflow"], row["task_queue"], row["ordinal"]
        )
        for row in rows
    ]
