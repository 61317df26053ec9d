"""A session's thread tree in rows: which messages stand where, and what a change of the tree writes.

A row knows positions in a thread, the tree counts messages: those of failed runs and of strategies keep their positions
and are no part of the thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.messages import read_body
from perdure.store.payloads import checked
from perdure.store.sealing import seal_in
from perdure.store.tables import messages, thread_nodes
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

_PAGE = 100

_BODIES = """
select m.id, m.type, m.sha256, m.position, coalesce(m.body, p.bytes) as body
  from perdure.messages m
  left join perdure.payloads p on m.body is null and p.tenant_id = m.tenant_id and p.session_id = m.session_id
       and p.sha256 = m.sha256
 where m.tenant_id = :tenant and m.session_id = :session and m.node_id = :node and m.position >= :first
 order by m.position limit :limit
"""


@dataclass(frozen=True, slots=True)
class Slot:
    """One message of a node, without its body. `hidden` says that it is no part of the thread."""

    id: str
    position: int
    run: str | None
    type: str
    hidden: bool
    scaffold: bool


class NodeSlots:
    """The messages of one node, in order."""

    def __init__(self, slots: Sequence[Slot] = ()) -> None:
        self.all = list(slots)
        self.kept = [slot for slot in self.all if not slot.hidden]
        self._positions = [slot.position for slot in self.all]
        self._kept_positions = [slot.position for slot in self.kept]

    @property
    def end(self) -> int:
        """The position after the last message."""
        return self._positions[-1] + 1 if self._positions else 0

    def count_before(self, position: int) -> int:
        """How many messages of the thread stand before a position."""
        return bisect_left(self._kept_positions, position)

    def position_after(self, count: int) -> int:
        """The position behind the first `count` messages of the thread, or behind all."""
        known = min(count, len(self._kept_positions))
        return self._kept_positions[known - 1] + 1 if known else 0

    def between(self, start: int, end: int) -> list[Slot]:
        """Those from position `start` up to, not including, `end`, hidden ones too."""
        return self.all[bisect_left(self._positions, start) : bisect_left(self._positions, end)]


async def read_slots(connection: AsyncConnection, key: SessionKey) -> dict[str, NodeSlots]:
    """The messages of a session by node; a node without any is not there."""
    query = select(
        messages.c.id, messages.c.node_id, messages.c.position, messages.c.run_id, messages.c.type,
        messages.c.discarded, messages.c.scaffold,
    ).where(messages.c.tenant_id == key.tenant, messages.c.session_id == key.session)  # fmt: skip
    rows = (await connection.execute(query.order_by(messages.c.node_id, messages.c.position))).all()
    found: dict[str, list[Slot]] = {}
    for row in rows:
        hidden = row.discarded or row.scaffold
        found.setdefault(row.node_id, []).append(Slot(row.id, row.position, row.run_id, row.type, hidden, row.scaffold))
    return {node: NodeSlots(slots) for node, slots in found.items()}


async def read_message_ids(connection: AsyncConnection, key: SessionKey, node: str) -> AsyncGenerator[tuple[str, str]]:
    """Row id and message id of all messages of a node, in order; few bodies at a time are in memory."""
    first = 0
    while True:
        values: dict[str, Any] = {**key._asdict(), "node": node, "first": first, "limit": _PAGE}
        rows = (await connection.execute(text(_BODIES), values)).all()
        for row in rows:
            document = read_body(row.type, checked(row.sha256, row.body, "message"))
            yield row.id, str(document["id"])
        if len(rows) < _PAGE:
            return
        first = rows[-1].position + 1


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node as a change of the tree leaves it. `made` says that it is new; its thread and date are written once."""

    id: str
    parent: str | None
    name: str | None
    fork_index: int | None
    thread: str
    metadata: JSONObject
    created_at: datetime
    made: bool = False

    def to_json(self) -> JSONObject:
        """As the event of the change has it."""
        return {
            "id": self.id,
            "parentId": self.parent,
            "name": self.name,
            "position": self.fork_index,
            "thread": self.thread,
            "metadata": self.metadata,
            "createdAt": self.created_at.isoformat(),
        }


def node_values(key: SessionKey, node: JSONObject) -> dict[str, Any]:
    """The row of a node that an event tells of."""
    told = cast("dict[str, Any]", node)
    return {
        "tenant_id": key.tenant,
        "session_id": key.session,
        "id": told["id"],
        "parent_id": told["parentId"],
        "name": told["name"],
        "fork_index": told["position"],
        "thread_id": told["thread"],
        "metadata": told["metadata"],
        "created_at": datetime.fromisoformat(told["createdAt"]),
    }


async def write_node(connection: AsyncConnection, key: SessionKey, node: NodeChange) -> None:
    """Write a new node, or what has changed of one."""
    seal = seal_in(connection, key)
    if node.made:
        values = node_values(key, node.to_json())
        if node.name is None:
            del values["name"]
        await connection.execute(insert(thread_nodes).values(seal.row(thread_nodes, values)))
        return
    own = (thread_nodes.c.tenant_id == key.tenant, thread_nodes.c.session_id == key.session)
    await connection.execute(
        update(thread_nodes)
        .where(*own, thread_nodes.c.id == node.id)
        .values(fork_index=node.fork_index, metadata=seal.value(node.metadata))
    )
