"""Faults of a session's head and of what its own row says of it: they stop the session, or show it wrongly."""

from __future__ import annotations

from perdure.store.faults import REBUILD, Fault

_STATUS = "case when h.paused then 'paused' when h.active_run is not null then 'running' else 'idle' end"
_OF_PAGE = """
  from perdure.sessions s
  join perdure.session_heads h on h.tenant_id = s.tenant_id and h.session_id = s.id and not h.deleting
 where s.tenant_id = :tenant and s.id = any(cast(:sessions as text[]))
"""

NO_HEAD = Fault(
    name="no_head",
    what="it has no head row, so nothing can be written to it",
    find="""
select s.id as session_id, '' as item, '' as detail from perdure.sessions s
 where s.tenant_id = :tenant and s.id = any(cast(:sessions as text[]))
   and not exists (select 1 from perdure.session_heads h where h.tenant_id = s.tenant_id and h.session_id = s.id)
""",
    remedy="--repair makes it again from the session's other rows",
    mend="""
insert into perdure.session_heads (tenant_id, session_id, last_seq, next_ordinal, active_run, paused, touched_at)
select s.tenant_id, s.id,
       coalesce((select max(e.seq) from perdure.events e where e.tenant_id = s.tenant_id and e.session_id = s.id), 0),
       coalesce((select max(i.ordinal) from perdure.inputs i
                  where i.tenant_id = s.tenant_id and i.session_id = s.id), 0) + 1,
       (select r.id from perdure.runs r where r.tenant_id = s.tenant_id and r.session_id = s.id
           and r.ended_at is null order by r.ordinal desc limit 1), s.status = 'paused', clock_timestamp()
  from perdure.sessions s where s.tenant_id = :tenant and s.id = :session and cast(:item as text) = ''
on conflict do nothing
""",
    headless=True,
)

ENDED_IS_ACTIVE = Fault(
    name="ended_is_active",
    what="run {item}, which is {detail}, still counts as active, so the session takes no input",
    find="""
select h.session_id, r.id as item, r.status as detail
  from perdure.session_heads h
  join perdure.runs r on r.tenant_id = h.tenant_id and r.session_id = h.session_id and r.id = h.active_run
 where h.tenant_id = :tenant and h.session_id = any(cast(:sessions as text[])) and not h.deleting
   and r.ended_at is not null
""",
    remedy="--repair frees the session; so does the reconciler of any worker",
    mend="""
with freed as (
    update perdure.session_heads set active_run = null
     where tenant_id = :tenant and session_id = :session and active_run = :item returning paused)
update perdure.sessions s set status = case when freed.paused then 'paused' else 'idle' end
  from freed where s.tenant_id = :tenant and s.id = :session
""",
    while_active=True,
)

UNKNOWN_IS_ACTIVE = Fault(
    name="unknown_is_active",
    what="run {item}, of which there is no row, counts as active",
    find="""
select h.session_id, h.active_run as item, '' as detail from perdure.session_heads h
 where h.tenant_id = :tenant and h.session_id = any(cast(:sessions as text[])) and not h.deleting
   and h.active_run is not null
   and not exists (select 1 from perdure.runs r where r.tenant_id = h.tenant_id and r.session_id = h.session_id
                      and r.id = h.active_run)
""",
    remedy=REBUILD,
)

OLD_ORDINAL = Fault(
    name="old_ordinal",
    what="its next input would get a number that input {item} has, so every submit fails",
    find="""
select h.session_id, i.last as item, '' as detail from perdure.session_heads h
  join lateral (select max(ordinal) as last from perdure.inputs i
                 where i.tenant_id = h.tenant_id and i.session_id = h.session_id) i on i.last >= h.next_ordinal
 where h.tenant_id = :tenant and h.session_id = any(cast(:sessions as text[])) and not h.deleting
""",
    remedy="--repair sets it past the last",
    mend="""
update perdure.session_heads set next_ordinal = cast(cast(:item as text) as bigint) + 1
 where tenant_id = :tenant and session_id = :session and next_ordinal <= cast(cast(:item as text) as bigint)
""",
    while_active=True,
)

OLD_SEQ = Fault(
    name="old_seq",
    what="its next event would get a number that event {item} has, so every write fails",
    find="""
select h.session_id, e.last as item, '' as detail from perdure.session_heads h
  join lateral (select max(seq) as last from perdure.events e
                 where e.tenant_id = h.tenant_id and e.session_id = h.session_id) e on e.last > h.last_seq
 where h.tenant_id = :tenant and h.session_id = any(cast(:sessions as text[])) and not h.deleting
""",
    remedy="--repair sets it to the last",
    mend="""
update perdure.session_heads set last_seq = cast(cast(:item as text) as bigint)
 where tenant_id = :tenant and session_id = :session and last_seq < cast(cast(:item as text) as bigint)
""",
    while_active=True,
)

WRONG_STATUS = Fault(
    name="wrong_status",
    what="it is shown as {item}, and it is {detail}",
    find=f"select s.id as session_id, s.status as item, {_STATUS} as detail {_OF_PAGE} and s.status <> {_STATUS}",
    remedy="--repair corrects it; so does the reconciler of any worker",
    mend=f"""
update perdure.sessions s set status = {_STATUS} from perdure.session_heads h
 where s.tenant_id = :tenant and s.id = :session and s.status = :item
   and h.tenant_id = s.tenant_id and h.session_id = s.id
""",  # noqa: S608 -- a constant
    while_active=True,
)

NO_NODE = Fault(
    name="no_node",
    what="its current thread node {item} has no row",
    find=f"""
select s.id as session_id, coalesce(s.current_node, '') as item, '' as detail {_OF_PAGE}
   and not exists (select 1 from perdure.thread_nodes n where n.tenant_id = s.tenant_id and n.session_id = s.id
                      and n.id = s.current_node)
""",  # noqa: S608 -- a constant
    remedy=REBUILD,
)

HEAD_FAULTS = (NO_HEAD, ENDED_IS_ACTIVE, UNKNOWN_IS_ACTIVE, OLD_ORDINAL, OLD_SEQ, WRONG_STATUS, NO_NODE)
