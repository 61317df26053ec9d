"""Threads for who looks whether they are whole: which there are, what stands in them, and what else is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from perdure.errors import DamagedSession
from perdure.store.database import Database
from perdure.store.messages import read_message
from perdure.store.opening import lock_head
from perdure.store.payloads import read_payloads
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import loads
from perdure.upp.tool_call import ToolResult

_NODES = """
select m.session_id, m.node_id, n.parent_id, r.start_position as before
  from (select distinct session_id, node_id from perdure.messages
         where tenant_id = :tenant and session_id = any(cast(:sessions as text[]))) m
  join perdure.session_heads h on h.tenant_id = :tenant and h.session_id = m.session_id and not h.deleting
  join perdure.thread_nodes n on n.tenant_id = :tenant and n.session_id = m.session_id and n.id = m.node_id
  left join perdure.runs r on r.tenant_id = :tenant and r.session_id = m.session_id and r.id = h.active_run
       and r.node_id = m.node_id
 order by m.session_id, m.node_id
"""
_STUBS = """
select m.id, m.position, m.type, m.sha256,
       exists (select 1 from perdure.inputs i where i.tenant_id = m.tenant_id and i.session_id = m.session_id
                  and i.message_id = m.id and i.message_sha = m.sha256 and i.message is not null) as has_input
  from perdure.messages m
 where m.tenant_id = :tenant and m.session_id = :session and m.node_id = :node and not m.discarded
   and m.position >= :first and (cast(:before as integer) is null or m.position < :before)
 order by m.position limit :limit
"""
_CALLS = """
select c.message_id, c.index as nth, c.is_error, c.result_sha256 from perdure.tool_calls c
  join perdure.messages m on m.tenant_id = c.tenant_id and m.session_id = c.session_id and m.id = c.message_id
 where c.tenant_id = :tenant and c.session_id = :session and m.node_id = :node and c.state = 'done'
"""
_RESTORE = """
update perdure.messages m set body = i.message from perdure.inputs i
 where m.tenant_id = :tenant and m.session_id = :session and m.id = :message
   and i.tenant_id = m.tenant_id and i.session_id = m.session_id and i.message_id = m.id
   and i.message_sha = m.sha256 and i.message is not null
"""


@dataclass(frozen=True, slots=True)
class NodeThread:
    """The messages of one thread node.

    Attributes:
        key: the session.
        node: the node.
        parent: the node that it goes on from, or None.
        before: position of the first message of the run that is active in it: from there on nothing is whole yet.
    """

    key: SessionKey
    node: str
    parent: str | None
    before: int | None


@dataclass(frozen=True, slots=True)
class Stub:
    """A message of a thread without its body. `has_input` says that the inbox has that as well."""

    id: str
    position: int
    type: str
    sha256: str
    has_input: bool


async def read_nodes_of(database: Database, tenant: str, sessions: Sequence[str]) -> list[NodeThread]:
    """The threads of these sessions that hold any message."""
    async with database.reading(tenant) as connection:
        rows = (await connection.execute(text(_NODES), {"tenant": tenant, "sessions": list(sessions)})).all()
    return [NodeThread(SessionKey(tenant, row.session_id), row.node_id, row.parent_id, row.before) for row in rows]


async def page_stubs(database: Database, thread: NodeThread, *, first: int, limit: int) -> list[Stub]:
    """The next messages of a thread from a position on, in order; of failed runs and the like none."""
    values: dict[str, Any] = {**thread.key._asdict(), "node": thread.node, "before": thread.before}
    async with database.reading(thread.key) as connection:
        rows = (await connection.execute(text(_STUBS), {**values, "first": first, "limit": limit})).all()
    return [Stub(row.id, row.position, row.type, row.sha256, row.has_input) for row in rows]


@dataclass(frozen=True, slots=True)
class KnownResults:
    """The results of a thread's calls as they were stored, by row id of the answer and index; and those that are lost."""

    whole: dict[tuple[str, int], ToolResult]
    lost: list[tuple[str, int]]


async def read_known_results(database: Database, key: SessionKey, node: str) -> KnownResults:
    """What is known of a thread's calls besides what its messages say."""
    async with database.reading(key) as connection:
        rows = (await connection.execute(text(_CALLS), {**key._asdict(), "node": node})).all()
    known = KnownResults({}, [])
    for row in rows:
        place = (str(row.message_id), int(row.nth))
        try:
            bodies = await read_payloads(database, key, [row.result_sha256])
        except DamagedSession:
            known.lost.append(place)
        else:
            known.whole[place] = ToolResult("", loads(bodies[row.result_sha256]), is_error=row.is_error)
    return known


async def restore_input(database: Database, key: SessionKey, message: str) -> bool:
    """Give a user's message the body again that its input has; False if there is none.

    Raises:
        DamagedSession: that one is damaged as well.
    """
    async with database.transaction(key) as connection:
        head = await lock_head(connection, key)
        if head is None or head.deleting:
            return False
        values = {**key._asdict(), "message": message}
        found = bool((await connection.execute(text(_RESTORE), values)).rowcount)
    if found:
        await read_message(database, key, message)
    return found
