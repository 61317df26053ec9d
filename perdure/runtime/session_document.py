"""A stored session as one JSON document, whatever state it is in. Source: UAP-1.0 section 13."""

from __future__ import annotations

from bisect import bisect_left

from sqlalchemy import select

from perdure.activities.convert import converter
from perdure.store import tables
from perdure.store.checkpoints import list_checkpoints
from perdure.store.database import Database
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.sessions import NodeRow, SessionRow, read_nodes, read_session
from perdure.uap.checkpoint import CheckpointRecord
from perdure.uap.ids import root_node_id
from perdure.uap.session_json import SessionCheckpoint, SessionNode, SessionParts, session_json
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, dumps


async def session_document(database: Database, key: SessionKey) -> JSONObject:
    """The SessionJSON of a session, from its rows alone: the same rows give the same document.

    Its size is that of the thread times the steps of a run, since each checkpoint holds its run's messages so far.

    Raises:
        UnknownSession: there is none.
        DamagedSession: a body is missing or does not have its hash.
    """
    row = await read_session(database, key)
    records = [converter.structure(record, CheckpointRecord) for record in await list_checkpoints(database, key)]
    # After the checkpoints: whatever is written meanwhile, the messages of each are there.
    nodes = await read_nodes(database, key)
    threads = {node.id: _Thread(await read_messages(database, key, node.id, discarded=True)) for node in nodes}
    discarded = await _read_discarded(database, key)
    for thread in threads.values():
        thread.discard(discarded)
    return session_json(_parts(row, nodes, threads, records))


async def session_json_bytes(database: Database, key: SessionKey) -> bytes:
    """The document's bytes; see `session_document`."""
    return dumps(await session_document(database, key))


class _Thread:
    """All messages of a node; which of them count is known by position."""

    def __init__(self, stored: list[StoredMessage]) -> None:
        self._ids = [item.id for item in stored]
        self._positions = [item.position for item in stored]
        self._bodies = [item.message.to_json() for item in stored]
        self._kept = list(range(len(stored)))
        self.texts = {item.id: item.message.text for item in stored}

    def discard(self, ids: set[str]) -> None:
        """Leave these messages of failed runs, and of strategies, out of the thread."""
        self._kept = [place for place in self._kept if self._ids[place] not in ids]

    @property
    def messages(self) -> list[JSONObject]:
        return [self._bodies[place] for place in self._kept]

    def length_at(self, position: int) -> int:
        """How many messages of the thread stand before a position."""
        return bisect_left(self._kept, bisect_left(self._positions, position))

    def between(self, start: int, end: int) -> list[JSONObject]:
        """Messages from position `start` up to, not including, `end`, those of failed runs too."""
        return self._bodies[bisect_left(self._positions, start) : bisect_left(self._positions, end)]


def _parts(
    row: SessionRow, nodes: list[NodeRow], threads: dict[str, _Thread], records: list[CheckpointRecord]
) -> SessionParts:
    return SessionParts(
        id=row.key.session,
        agent_id=row.agent_id,
        created_at=row.created_at,
        updated_at=row.updated_at,
        nodes=[_node(node, threads) for node in nodes],
        current=row.current_node or root_node_id(row.key.session),
        checkpoints=[
            _checkpoint(record, threads[record.node])
            for record in sorted(records, key=lambda record: (record.at, record.position, record.id))
        ],
        metadata=row.metadata,
    )


def _node(row: NodeRow, threads: dict[str, _Thread]) -> SessionNode:
    return SessionNode(
        id=row.id,
        parent=row.parent,
        name=row.name,
        thread=row.thread,
        created_at=row.created_at,
        messages=threads[row.id].messages,
        fork_index=None if row.parent is None else threads[row.parent].length_at(row.fork_index or 0),
        metadata=row.metadata,
    )


def _checkpoint(record: CheckpointRecord, thread: _Thread) -> SessionCheckpoint:
    messages = thread.between(record.start, record.position)
    reasoning = [thread.texts[ident] for ident in record.reasoning]
    return SessionCheckpoint(record, messages, thread.length_at(record.start), reasoning)


async def _read_discarded(database: Database, key: SessionKey) -> set[str]:
    messages = tables.messages
    query = select(messages.c.id).where(
        messages.c.tenant_id == key.tenant,
        messages.c.session_id == key.session,
        messages.c.discarded | messages.c.scaffold,
    )
    async with database.transaction() as connection:
        return set(await connection.scalars(query))
