"""What nobody has woken: due inputs without an active run, answered waits, runs that nothing has touched for long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.store.database import Database
from perdure.uap.session_key import SessionKey

_LIMIT = 100
"""Of many, any: those whose worker is gone for good, however many, hold up no other."""

_DUE = """
select * from (
select distinct on (i.tenant_id, i.session_id) i.tenant_id, i.session_id, a.name, a.workflow_type, a.task_queue
  from perdure.inputs i
  join perdure.session_heads h on h.tenant_id = i.tenant_id and h.session_id = i.session_id
  join perdure.sessions s on s.tenant_id = i.tenant_id and s.id = i.session_id
  join perdure.session_addresses a on a.tenant_id = s.tenant_id and a.session_id = s.id
 where i.state = 'queued' and i.created_at < clock_timestamp() - interval '1 second'
   and (i.not_before is null or i.not_before <= clock_timestamp())
   and h.active_run is null and not h.paused and not h.deleting
) as due order by random() limit $1
"""

_UNTOLD = """
select i.tenant_id, i.session_id, a.name, a.workflow_type, a.task_queue, i.run_id, i.policy, i.target_run
  from perdure.inputs i
  join perdure.session_heads h on h.tenant_id = i.tenant_id and h.session_id = i.session_id
  join perdure.session_addresses a on a.tenant_id = i.tenant_id and a.session_id = i.session_id
 where i.state = 'queued' and i.created_at < clock_timestamp() - interval '1 second'
   and i.target_run = h.active_run and not h.deleting
   and (i.policy <> 'steer' or i.created_at > clock_timestamp() - interval '1 minute')
 order by random() limit $1
"""

_ANSWERED = """
select w.tenant_id, w.session_id, a.name, a.workflow_type, a.task_queue, w.id
  from perdure.waits w
  join perdure.sessions s on s.tenant_id = w.tenant_id and s.id = w.session_id
  join perdure.session_addresses a on a.tenant_id = s.tenant_id and a.session_id = s.id
 where w.answered_at is not null and not w.delivered
   and w.answered_at < clock_timestamp() - interval '1 second'
 order by random() limit $1
"""

_SILENT = """
select h.tenant_id, h.session_id, a.name, a.workflow_type, a.task_queue
  from perdure.runs r
  join perdure.session_heads h on h.tenant_id = r.tenant_id and h.session_id = r.session_id
  join perdure.sessions s on s.tenant_id = h.tenant_id and s.id = h.session_id
  join perdure.session_addresses a on a.tenant_id = s.tenant_id and a.session_id = s.id
 where r.ended_at is null and h.active_run = r.id and not h.deleting
   and h.touched_at < clock_timestamp() - make_interval(secs => $2)
 order by random() limit $1
"""


@dataclass(frozen=True, slots=True)
class Neglected:
    """A session to wake.

    Attributes:
        wait: the answered wait that it has not heard of, if that is why.
        run: the run of the input that is about the run in `target`, if that is why; and
        policy: what it does to it.
    """

    key: SessionKey
    agent: str
    workflow_type: str
    task_queue: str
    wait: str | None = None
    run: str | None = None
    policy: str = ""
    target: str | None = None


async def find_due(database: Database) -> list[Neglected]:
    """Sessions with an input that is due and queued, and no active run."""
    return await _find(database, _DUE, _LIMIT)


async def find_untold(database: Database) -> list[Neglected]:
    """Sessions with an input that interrupts or rolls back the active run, or came a moment ago to steer it."""
    return await _find(database, _UNTOLD, _LIMIT)


async def find_answered(database: Database) -> list[Neglected]:
    """Waits that were answered and whose run has not taken the answer."""
    return await _find(database, _ANSWERED, _LIMIT)


async def find_silent(database: Database, *, seconds: float) -> list[Neglected]:
    """Sessions with an active run of which nothing was written for `seconds`; its execution may be lost."""
    return await _find(database, _SILENT, _LIMIT, seconds)


async def _find(database: Database, sql: str, *arguments: Any) -> list[Neglected]:
    async with database.driver() as connection:
        rows = await connection.fetch(sql, *arguments)
    return [
        Neglected(
            SessionKey(row["tenant_id"], row["session_id"]),
            row["name"],
            row["workflow_type"],
            row["task_queue"],
            row.get("id"),
            row.get("run_id"),
            row.get("policy", ""),
            row.get("target_run"),
        )
        for row in rows
    ]
