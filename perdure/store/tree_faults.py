"""Faults of the thread tree and of checkpoints: rows that name a place which is not there."""

from __future__ import annotations

from perdure.store.faults import REBUILD, Fault

NO_PARENT = Fault(
    name="no_parent",
    what="thread node {item} goes on from {detail}, of which there is no row",
    find="""
select n.session_id, n.id as item, n.parent_id as detail from perdure.thread_nodes n
 where n.tenant_id = :tenant and n.session_id = any(cast(:sessions as text[])) and n.parent_id is not null
   and not exists (select 1 from perdure.thread_nodes p where p.tenant_id = n.tenant_id and p.session_id = n.session_id
                      and p.id = n.parent_id)
""",
    remedy=REBUILD,
)

MESSAGES_NOWHERE = Fault(
    name="messages_nowhere",
    what="{detail} messages stand in thread node {item}, of which there is no row",
    find="""
select m.session_id, m.node_id as item, count(*) as detail from perdure.messages m
 where m.tenant_id = :tenant and m.session_id = any(cast(:sessions as text[]))
   and not exists (select 1 from perdure.thread_nodes n where n.tenant_id = m.tenant_id and n.session_id = m.session_id
                      and n.id = m.node_id)
 group by m.session_id, m.node_id
""",
    remedy=REBUILD,
)

TREE_FAULTS = (NO_PARENT, MESSAGES_NOWHERE)

CHECKPOINT_NOWHERE = Fault(
    name="checkpoint_nowhere",
    what="checkpoint {item} stands in thread node {detail}, of which there is no row",
    find="""
select c.session_id, c.id as item, c.node_id as detail from perdure.checkpoints c
 where c.tenant_id = :tenant and c.session_id = any(cast(:sessions as text[])) and c.imported_sha is null
   and not exists (select 1 from perdure.thread_nodes n where n.tenant_id = c.tenant_id and n.session_id = c.session_id
                      and n.id = c.node_id)
""",
    remedy=REBUILD,
)

CHECKPOINT_PAST_END = Fault(
    name="checkpoint_past_end",
    what="checkpoint {item} stands after {detail} of its thread, which has fewer",
    find="""
select c.session_id, c.id as item, c.position as detail
  from perdure.checkpoints c
  join perdure.session_heads h on h.tenant_id = c.tenant_id and h.session_id = c.session_id and not h.deleting
  join perdure.thread_nodes n on n.tenant_id = c.tenant_id and n.session_id = c.session_id and n.id = c.node_id
 where c.tenant_id = :tenant and c.session_id = any(cast(:sessions as text[])) and c.imported_sha is null
   and c.position > (select coalesce(max(m.position) + 1, 0) from perdure.messages m
                      where m.tenant_id = c.tenant_id and m.session_id = c.session_id and m.node_id = c.node_id)
""",
    remedy="--repair moves it to the end of its thread",
    mend="""
update perdure.checkpoints c set position = e.last, record = (
    select json_object_agg(f.key, case when f.key = 'position' then to_json(e.last) else f.value end)
      from json_each(c.record) f)
  from (select coalesce(max(m.position) + 1, 0) as last
          from perdure.checkpoints k
          left join perdure.messages m on m.tenant_id = k.tenant_id and m.session_id = k.session_id
               and m.node_id = k.node_id
         where k.tenant_id = :tenant and k.session_id = :session and k.id = :item) e
 where c.tenant_id = :tenant and c.session_id = :session and c.id = :item and c.position > e.last
""",
)

CHECKPOINT_FAULTS = (CHECKPOINT_NOWHERE, CHECKPOINT_PAST_END)
