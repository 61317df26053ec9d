"""Which part of which thread nodes a node goes on from."""

from __future__ import annotations

from perdure.store.database import Database
from perdure.uap.session_key import SessionKey

_SELECT = """
with recursive up as (
    select id, parent_id, fork_index, 0 as depth from perdure.thread_nodes
     where tenant_id = $1 and session_id = $2 and id = $3
    union all
    select n.id, n.parent_id, n.fork_index, up.depth + 1 from perdure.thread_nodes n
      join up on n.id = up.parent_id where n.tenant_id = $1 and n.session_id = $2
)
select parent_id, coalesce(fork_index, (
        select max(m.position) + 1 from perdure.messages m
         where m.tenant_id = $1 and m.session_id = $2 and m.node_id = up.parent_id), 0) as fork_index
  from up where parent_id is not null order by depth desc
"""


async def read_ancestry(database: Database, key: SessionKey, node: str) -> list[tuple[str, int]]:
    """The ancestors of a node, root first, each with the position at which the way to the node leaves it.

    A node from elsewhere may go on from all of its parent's thread, also what has been said there since.
    """
    async with database.driver() as connection:
        rows = await connection.fetch(_SELECT, key.tenant, key.session, node)
    return [(row["parent_id"], row["fork_index"]) for row in rows]
