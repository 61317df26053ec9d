"""All of a stored session but its bodies: what a document of it, in whatever form, begins with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from sqlalchemy import select, text

from perdure.store.checkpoints import CheckpointRow, current_checkpoint, read_checkpoints
from perdure.store.database import Database
from perdure.store.sessions import NodeRow, SessionRow, nodes_of, session_of
from perdure.store.tables import runs
from perdure.store.tree import NodeSlots, read_slots
from perdure.uap.ids import root_node_id
from perdure.uap.session_json import SessionNode, SessionParts
from perdure.uap.session_key import SessionKey
from perdure.upp.timestamp import parse_timestamp


@dataclass(frozen=True, slots=True)
class Outline:
    """All of a session but bodies.

    Attributes:
        row: the session.
        nodes: in order.
        slots: messages by node.
        checkpoints: in order.
        current: id of the checkpoint that it stands at, unless it is the last.
        ended: the last step of each run that has completed.
    """

    row: SessionRow
    nodes: list[NodeRow]
    slots: dict[str, NodeSlots]
    checkpoints: list[CheckpointRow]
    current: str | None
    ended: dict[str, int]

    def thread(self, node: str) -> NodeSlots:
        """A node's messages."""
        return self.slots.get(node) or NodeSlots()

    def parts(self) -> SessionParts:
        """What its document is made of, but for messages and checkpoints."""
        row, came = self.row, cast("dict[str, str]", self.row.imported or {})
        created, updated = came.get("createdAt"), came.get("updatedAt")
        untouched = updated is not None and parse_timestamp(updated) == row.updated_at
        return SessionParts(
            id=row.key.session,
            agent_id=row.agent_id,
            created_at=created or row.created_at,
            updated_at=updated if updated is not None and untouched else row.updated_at,
            nodes=[self._node(node) for node in self.nodes],
            current=row.current_node or root_node_id(row.key.session),
            metadata=row.metadata,
        )

    def _node(self, row: NodeRow) -> SessionNode:
        fork = None if row.parent is None else self.thread(row.parent).count_before(row.fork_index or 0)
        node = SessionNode(
            row.id, row.parent, row.name, row.thread, row.created_at, fork_index=fork, metadata=row.metadata
        )
        came = cast("dict[str, Any] | None", row.imported)
        if came is None:
            return node
        untouched = len(self.thread(row.id).kept) == came["count"]
        return replace(
            node,
            created_at=came["thread"]["createdAt"],
            updated_at=came["thread"]["updatedAt"] if untouched else None,
            children=came["children"],
            fork_index=None,  # its own metadata says it, as it came
        )


async def read_outline(database: Database, key: SessionKey) -> Outline:
    """Read all of a session but bodies, as it is at one moment.

    Raises:
        UnknownSession: there is none.
    """
    async with database.transaction(key) as connection:
        await connection.execute(text("set transaction isolation level repeatable read, read only"))
        row = await session_of(connection, key)
        checkpoints = await read_checkpoints(connection, key)
        current = await current_checkpoint(connection, key, checkpoints)
        ended = select(runs.c.id, runs.c.step).where(
            runs.c.tenant_id == key.tenant, runs.c.session_id == key.session, runs.c.status == "completed"
        )
        return Outline(
            row=row,
            nodes=await nodes_of(connection, key),
            slots=await read_slots(connection, key),
            checkpoints=checkpoints,
            current=None if current is None or current is checkpoints[-1] else current.id,
            ended={run.id: run.step for run in await connection.execute(ended)},
        )
