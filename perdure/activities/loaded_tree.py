"""A session's thread tree as its rows have it, and what a change of it means in rows. The changes are `uap`'s own.

Messages are stood for by empty ones with the same ids: who a message is matters here, what it says does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput
from perdure.store.message_rows import copy_messages, put_messages
from perdure.store.sessions import NodeRow, nodes_of, session_of
from perdure.store.tree import NodeChange, NodeSlots, Slot, read_message_ids, read_slots, write_node
from perdure.uap.ids import derive_id, root_node_id
from perdure.uap.scaffold import NAMESPACE, PROMPT, REASON
from perdure.uap.session_key import SessionKey
from perdure.uap.thread_node import FORK_INDEX, ThreadNode
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.thread import Thread

_WHEN = datetime(1970, 1, 1, tzinfo=UTC)


class LoadedTree:
    """A thread tree, to be changed and written back.

    Attributes:
        tree: what `uap`'s functions work on.
        rows: its nodes as they are stored.
    """

    def __init__(self, connection: AsyncConnection, key: SessionKey) -> None:
        """See `load`."""
        self._connection = connection
        self._key = key
        self._slots: dict[str, NodeSlots] = {}
        self._stubs: dict[str, Message] = {}
        self._sources: dict[int, tuple[Message, str]] = {}  # with the object, so that its id stays its own
        self._before: dict[str, tuple[int, JSONObject]] = {}
        self.rows: dict[str, NodeRow] = {}
        self.tree = ThreadTree()

    @classmethod
    async def load(cls, connection: AsyncConnection, key: SessionKey) -> LoadedTree:
        """Read the tree in a transaction that holds the session's lock. Messages have their row's ids at first."""
        loaded = cls(connection, key)
        nodes = await nodes_of(connection, key)
        loaded.rows = {node.id: node for node in nodes}
        loaded._slots = await read_slots(connection, key)
        current = (await session_of(connection, key)).current_node or root_node_id(key.session)
        loaded.tree = ThreadTree.of([loaded._node(node) for node in nodes], current)
        loaded._note()
        return loaded

    async def name_messages(self, nodes: Iterable[str] | None = None) -> None:
        """Give the messages of these nodes, or of all, their own ids."""
        for node in self.rows if nodes is None else nodes:
            found = read_message_ids(self._connection, self._key, node)
            names = {row: message async for row, message in found}
            for slot in self.slots(node).all:
                self._stub(slot, names[slot.id])
            thread = self.tree.nodes[node].thread
            thread.clear()
            thread.push(*(self._stubs[slot.id] for slot in self.slots(node).kept))

    def slots(self, node: str) -> NodeSlots:
        """The messages of a node."""
        return self._slots.get(node) or NodeSlots()

    def messages(self, slots: Sequence[Slot]) -> list[Message]:
        """What stands for messages; the same objects as in their threads."""
        return [self._stubs.get(slot.id) or self._stub(slot, slot.id) for slot in slots]

    def source(self, message: Message) -> str | None:
        """The row that an object stands for; None if it is a message from elsewhere."""
        found = self._sources.get(id(message))
        return None if found is None else found[1]

    def find(self, node: str) -> ThreadNode:
        """A node. Raises InvalidInput, worded as in process."""
        found = self.tree.nodes.get(node)
        if found is None:
            raise InvalidInput(f"Node not found: {node}")
        return found

    def changed_nodes(self) -> list[NodeChange]:
        """The nodes that are new, or not what they were."""
        changes: list[NodeChange] = []
        for node in self.tree.nodes.values():
            row = self.rows.get(node.id)
            if row is None or self._before[node.id][1] != node.metadata:
                changes.append(self._change(node, row))
        return changes

    async def write(self, nodes: Sequence[NodeChange], name: str) -> None:
        """Write these nodes, and all messages that their threads and others got.

        Args:
            nodes: of `changed_nodes`.
            name: what the ids of new messages in known nodes derive from.
        """
        for change in nodes:
            await write_node(self._connection, self._key, change)
        for node in self.tree.nodes.values():
            length = self._before[node.id][0] if node.id in self._before else 0
            added = node.thread.messages[length:]
            made = node.id not in self.rows
            ids = [
                derive_id(node.id, "message", place) if made else derive_id(name, "merged", place)
                for place in range(len(added))
            ]
            await self.write_messages(node.id, list(zip(ids, added, strict=True)), first=self.slots(node.id).end)

    async def write_messages(
        self, node: str, rows: Sequence[tuple[str, Message]], *, first: int, run: str | None = None
    ) -> None:
        """Write messages to the end of a node: copies of stored ones, or all of them from elsewhere."""
        sources = [(self.source(message), ident) for ident, message in rows]
        copies = [(source, ident) for source, ident in sources if source is not None]
        if copies:
            await copy_messages(self._connection, self._key, node, copies, first=first, run=run)
        else:
            await put_messages(self._connection, self._key, node, rows, first=first, run_id=run)

    def _node(self, row: NodeRow) -> ThreadNode:
        metadata = dict(row.metadata)
        if row.imported is None and row.parent is not None:
            metadata[FORK_INDEX] = self.slots(row.parent).count_before(row.fork_index or 0)
        thread = Thread(self.messages(self.slots(row.id).kept), id=row.thread)
        children = [other.id for other in self.rows.values() if other.parent == row.id]
        return ThreadNode(row.id, thread, row.parent, row.name, metadata, children)

    def _note(self) -> None:
        self._before = {node.id: (len(node.thread), dict(node.metadata)) for node in self.tree.nodes.values()}

    def _change(self, node: ThreadNode, row: NodeRow | None) -> NodeChange:
        fork, metadata = node.fork_index, dict(node.metadata)
        if row is None or row.imported is None:
            metadata.pop(FORK_INDEX, None)
        position = None if row is None else row.fork_index
        if node.parent_id is not None and fork is not None and (row is None or self._is_moved(node)):
            position = self.slots(node.parent_id).position_after(fork)
        return NodeChange(
            id=node.id,
            parent=node.parent_id,
            name=node.name,
            fork_index=position,
            thread=node.thread.id,
            metadata=metadata,
            created_at=datetime.now(UTC) if row is None else row.created_at,
            made=row is None,
        )

    def _is_moved(self, node: ThreadNode) -> bool:
        return self._before[node.id][1].get(FORK_INDEX) != node.metadata.get(FORK_INDEX)

    def _stub(self, slot: Slot, ident: str) -> Message:
        made = _stub(slot, ident)
        self._stubs[slot.id] = made
        self._sources[id(made)] = (made, slot.id)
        return made


def _stub(slot: Slot, ident: str) -> Message:
    kind = PROMPT if slot.type == "user" else REASON
    metadata: dict[str, JSONObject] | None = {NAMESPACE: {"scaffold": kind}} if slot.scaffold else None
    match slot.type:
        case "user":
            return UserMessage([], id=ident, timestamp=_WHEN, metadata=metadata)
        case "assistant":
            return AssistantMessage([], id=ident, timestamp=_WHEN, metadata=metadata)
        case _:
            return ToolResultMessage([], id=ident, timestamp=_WHEN, metadata=metadata)
