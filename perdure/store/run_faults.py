"""Faults of runs: open ones that nobody goes on with, ended ones that left something open, and what the log says of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.faults import REBUILD, Fault
from perdure.store.inputs import emit
from perdure.store.lost_bodies import LOST_FAULTS, put_result
from perdure.store.runs import Ending, end_run
from perdure.store.tables import runs
from perdure.uap.events import run_event
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from perdure.upp.timestamp import format_timestamp

LOST: JSONObject = {"type": "RunLost", "message": "the run was left open, with another one in its place"}
_NOT_RUN = dumps("the call was not carried out: its run had ended")

_TERMINAL = (
    "e.type = any (array['run.queued', 'run.completed', 'run.failed', 'run.cancelled']) and e.type <> 'run.queued'"
)
_LOGGED = f"""
(select count(*) from perdure.events e where e.tenant_id = r.tenant_id and e.session_id = r.session_id
    and e.run_id = r.id and {_TERMINAL})
"""  # noqa: S608 -- a constant
_OF_PAGE = """
  from perdure.runs r
  join perdure.session_heads h on h.tenant_id = r.tenant_id and h.session_id = r.session_id and not h.deleting
 where r.tenant_id = :tenant and r.session_id = any(cast(:sessions as text[]))
"""
_LEFT = f"""
select r.session_id, r.id as item, r.status as detail {_OF_PAGE}
   and r.ended_at is null and h.active_run is distinct from r.id and {_LOGGED} = 0
"""  # noqa: S608 -- a constant
_IS_LAST = """
h.active_run is null and not exists (
    select 1 from perdure.runs n where n.tenant_id = r.tenant_id and n.session_id = r.session_id and n.ordinal > r.ordinal)
"""


async def _settle(database: Database, key: SessionKey, run: str) -> None:
    """End a run as failed; what it said leaves the thread."""
    async with database.transaction(key) as connection:
        query = select(runs).where(*_of(runs, key), runs.c.id == run)
        row = (await connection.execute(query)).mappings().one()
    now = datetime.now(UTC)
    usage = cast(JSONObject, row["usage"] or {"inputTokens": 0, "outputTokens": 0})
    detail = _terminal(format_timestamp(now), usage, int(row["cycles"]), int(row["step"]), LOST)
    ending = Ending(
        status="failed", error=LOST, usage=usage, cycles=row["cycles"], step=row["step"], now=now,
        at=format_timestamp(now), settle=_NOT_RUN, settle_sha256=sha256_hex(_NOT_RUN),
        event=run_event("run.failed", detail),
    )  # fmt: skip
    await end_run(database, Writer(key, run, str(row["temporal_run_id"])), ending, [])


def _terminal(at: str, usage: JSONObject, cycles: int, step: int, error: JSONObject | None) -> JSONObject:
    detail: JSONObject = {"at": at, "usage": usage, "cycles": cycles, "steps": step}
    return detail if error is None else {**detail, "error": error}


async def _tell_end(connection: AsyncConnection, key: SessionKey, run: str) -> None:
    """Write the terminal event that a run's row speaks of."""
    query = select(runs).where(*_of(runs, key), runs.c.id == run)
    row: Any = (await connection.execute(query)).mappings().one()
    at = format_timestamp(row["ended_at"])
    event = run_event(
        f"run.{row['status']}", _terminal(at, row["usage"] or {}, row["cycles"], row["step"], row["error"])
    )
    last = await emit(connection, key, run, [event])
    await connection.execute(update(runs).where(*_of(runs, key), runs.c.id == run).values(last_seq=last))


async def _settle_call(connection: AsyncConnection, key: SessionKey, item: str) -> None:
    """Give an open call of an ended run an error for a result, and its batch the message."""
    message, _, index = item.rpartition("/")
    await put_result(connection, key, message, int(index), _NOT_RUN)
    await connection.execute(
        text("select perdure.close_batch_v1(:tenant, :session, :message, :at, true)"),
        {**key._asdict(), "message": message, "at": format_timestamp(datetime.now(UTC))},
    )


def _of(table: Any, key: SessionKey) -> tuple[Any, Any]:
    return table.c.tenant_id == key.tenant, table.c.session_id == key.session


LEFT_OPEN = Fault(
    name="left_open",
    what="run {item} is {detail} and does not count as active, so nobody goes on with it",
    find=f"{_LEFT} and {_IS_LAST}",
    remedy="--repair makes it active, and a worker goes on with it; so does the reconciler of any worker",
    mend="""
with taken as (
    update perdure.session_heads set active_run = :item
     where tenant_id = :tenant and session_id = :session and active_run is null returning paused)
update perdure.sessions s set status = case when taken.paused then 'paused' else 'running' end
  from taken where s.tenant_id = :tenant and s.id = :session
""",
)

LEFT_BEHIND = Fault(
    name="left_behind",
    what="run {item} is {detail}, and another one has begun since",
    find=f"{_LEFT} and not ({_IS_LAST})",
    remedy="--repair ends it as failed",
    settle=_settle,
    while_active=True,
)

NO_END = Fault(
    name="no_end",
    what="run {item} is {detail}, and its event log does not say so, so whoever follows it waits for ever",
    find=f"select r.session_id, r.id as item, r.status as detail {_OF_PAGE} and r.ended_at is not null and {_LOGGED} = 0",
    remedy="--repair writes its terminal event",
    mend=_tell_end,
    while_active=True,
)

OTHER_END = Fault(
    name="other_end",
    what="run {item} is {detail}, and its event log says otherwise",
    find=f"""
select r.session_id, r.id as item, r.status as detail {_OF_PAGE} and {_LOGGED} = 1
   and not exists (select 1 from perdure.events e where e.tenant_id = r.tenant_id and e.session_id = r.session_id
                      and e.run_id = r.id and {_TERMINAL} and e.type = 'run.' || r.status)
""",  # noqa: S608 -- a constant
    remedy=REBUILD,
)

MANY_ENDS = Fault(
    name="many_ends",
    what="run {item} has {detail} terminal events",
    find=f"select r.session_id, r.id as item, {_LOGGED} as detail {_OF_PAGE} and {_LOGGED} > 1",
    remedy="nothing can take an event back; tell us how it came about",
)

OPEN_WAIT = Fault(
    name="open_wait",
    what="wait {item} asks for an answer, and its run is {detail}",
    find="""
select w.session_id, w.id as item, coalesce(r.status, 'gone') as detail
  from perdure.waits w
  join perdure.session_heads h on h.tenant_id = w.tenant_id and h.session_id = w.session_id and not h.deleting
  left join perdure.runs r on r.tenant_id = w.tenant_id and r.session_id = w.session_id and r.id = w.run_id
 where w.tenant_id = :tenant and w.session_id = any(cast(:sessions as text[])) and w.answered_at is null
   and (r.id is null or r.ended_at is not null)
""",
    remedy="--repair closes it",
    mend="""
update perdure.waits set answered_at = clock_timestamp(), answer = '{"outcome":"ended"}', delivered = true
 where tenant_id = :tenant and session_id = :session and id = :item and answered_at is null
""",
    while_active=True,
)

OPEN_CALL = Fault(
    name="open_call",
    what="call {item} is {detail}, and its run has ended",
    find="""
select c.session_id, c.message_id || '/' || c.index as item, c.state as detail
  from perdure.tool_calls c
  join perdure.session_heads h on h.tenant_id = c.tenant_id and h.session_id = c.session_id and not h.deleting
  join perdure.runs r on r.tenant_id = c.tenant_id and r.session_id = c.session_id and r.id = c.run_id
 where c.tenant_id = :tenant and c.session_id = any(cast(:sessions as text[])) and c.state <> 'done'
   and r.ended_at is not null
""",
    remedy="--repair gives it an error for a result",
    mend=_settle_call,
)

TAKEN_FOR_NOTHING = Fault(
    name="no_run",
    what="input {detail} was taken, and there is no row of its run {item}",
    find="""
select i.session_id, i.run_id as item, i.ordinal as detail
  from perdure.inputs i
  join perdure.session_heads h on h.tenant_id = i.tenant_id and h.session_id = i.session_id and not h.deleting
 where i.tenant_id = :tenant and i.session_id = any(cast(:sessions as text[])) and i.state = 'taken'
   and i.kind in ('message', 'resume') and h.active_run is distinct from i.run_id
   and not exists (select 1 from perdure.runs r where r.tenant_id = i.tenant_id and r.session_id = i.session_id
                      and r.id = i.run_id)
""",
    remedy=REBUILD,
)

RUN_FAULTS = (
    LEFT_OPEN, LEFT_BEHIND, NO_END, OTHER_END, MANY_ENDS, OPEN_WAIT, OPEN_CALL, *LOST_FAULTS, TAKEN_FOR_NOTHING,
)  # fmt: skip
