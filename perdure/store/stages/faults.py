"""Damage of stage sessions that rows alone show; what a kind is, is said in `perdure.store.faults`."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import text

from perdure.store.database import Database
from perdure.store.faults import Fault
from perdure.store.head_faults import OLD_SEQ

_IDS = text("select id from perdure.stage_sessions where tenant_id = :tenant and id > :after order by id limit :limit")

NO_HEAD = Fault(
    name="no_head",
    what="it has no head row, so nothing can be written to it",
    find="""
select s.id as session_id, '' as item, '' as detail from perdure.stage_sessions s
 where s.tenant_id = :tenant and s.id = any(cast(:sessions as text[]))
   and not exists (select 1 from perdure.session_heads h where h.tenant_id = s.tenant_id and h.session_id = s.id)
""",
    remedy="--repair makes it again from the session's other rows",
    mend="""
insert into perdure.session_heads (tenant_id, session_id, stage, last_seq, next_ordinal, touched_at)
select s.tenant_id, s.id, true,
       coalesce((select max(e.seq) from perdure.events e where e.tenant_id = s.tenant_id and e.session_id = s.id), 0),
       coalesce((select max(a.ordinal) from perdure.stage_actions a
                  where a.tenant_id = s.tenant_id and a.session_id = s.id), 0) + 1, clock_timestamp()
  from perdure.stage_sessions s where s.tenant_id = :tenant and s.id = :session and cast(:item as text) = ''
on conflict do nothing
""",
    headless=True,
    stage=True,
)

OLD_ORDINAL = Fault(
    name="old_ordinal",
    what="its next action would get a number that action {item} has, so every action fails",
    find="""
select h.session_id, a.last as item, '' as detail from perdure.session_heads h
  join lateral (select max(ordinal) as last from perdure.stage_actions a
                 where a.tenant_id = h.tenant_id and a.session_id = h.session_id) a on a.last >= h.next_ordinal
 where h.tenant_id = :tenant and h.session_id = any(cast(:sessions as text[])) and h.stage
""",
    remedy="--repair sets it past the last",
    mend="""
update perdure.session_heads set next_ordinal = cast(cast(:item as text) as bigint) + 1
 where tenant_id = :tenant and session_id = :session and next_ordinal <= cast(cast(:item as text) as bigint)
""",
    stage=True,
)

WRONG_COUNT = Fault(
    name="wrong_count",
    what="it counts {item} actions as open, and {detail} are, so it expires too early or never",
    find="""
select s.id as session_id, s.open_actions as item, a.open as detail from perdure.stage_sessions s
  join lateral (select count(*) as open from perdure.stage_actions a
                 where a.tenant_id = s.tenant_id and a.session_id = s.id and a.state <> 'settled') a
    on a.open <> s.open_actions
 where s.tenant_id = :tenant and s.id = any(cast(:sessions as text[]))
""",
    remedy="--repair corrects it",
    mend="""
update perdure.stage_sessions s set open_actions = (
    select count(*) from perdure.stage_actions a
     where a.tenant_id = s.tenant_id and a.session_id = s.id and a.state <> 'settled')
 where s.tenant_id = :tenant and s.id = :session and s.open_actions = cast(cast(:item as text) as integer)
""",
    stage=True,
)

NO_DEFINITION = Fault(
    name="no_definition",
    what="the definition {item} that it is pinned to has no row",
    find="""
select s.id as session_id, s.definition as item, '' as detail from perdure.stage_sessions s
 where s.tenant_id = :tenant and s.id = any(cast(:sessions as text[]))
   and not exists (select 1 from perdure.stage_definitions d where d.tenant_id = s.tenant_id and d.sha256 = s.definition)
""",
    remedy="start a worker with the code that it began with, or restore the row from a backup",
    stage=True,
)

WRONG_STATE = Fault(
    name="wrong_state",
    what="its state {detail} a value of {item}",
    find="""
with known as (
    select s.id, k.key from perdure.stage_sessions s cross join lateral json_object_keys(s.sizes) as k(key)
     where s.tenant_id = :tenant and s.id = any(cast(:sessions as text[]))),
there as (
    select session_id as id, key from perdure.stage_values
     where tenant_id = :tenant and session_id = any(cast(:sessions as text[])))
select id as session_id, key as item, case when there.key is null then 'lacks' else 'knows nothing of' end as detail
  from known full join there using (id, key) where known.key is null or there.key is null
""",
    remedy="restore it from a backup, or terminate the session",
    stage=True,
)

STAGE_FAULTS = (NO_HEAD, OLD_ORDINAL, replace(OLD_SEQ, stage=True), WRONG_COUNT, NO_DEFINITION, WRONG_STATE)


async def page_stage_ids(database: Database, tenant: str, *, after: str, limit: int) -> list[str]:
    """The ids of a tenant's next stage sessions.

    Args:
        database: the store.
        tenant: whose.
        after: the last id of the page before; empty for the first page.
        limit: at most so many.
    """
    async with database.reading(tenant) as connection:
        return list(await connection.scalars(_IDS, {"tenant": tenant, "after": after, "limit": limit}))
