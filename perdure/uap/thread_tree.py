"""Threads as a tree: a conversation that goes on in several ways from one point. Source: UAP-1.0 sections 7 and 13.2.

Pure data. Ids and dates are drawn only where the caller gives none, so workflow code gives ids and threads. What a
session does with its tree is no part of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from perdure.errors import InvalidInput
from perdure.uap.thread_node import FORK_INDEX, ThreadNode, node_id_of
from perdure.uap.thread_tree_json import read_tree
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import Message
from perdure.upp.thread import Thread

ROOT_NAME = "main"
MERGED_FROM = "mergedFrom"


class ThreadTree:
    """A tree of threads, one of which is current. Source: UAP-1.0 section 7.1, ThreadTree."""

    _nodes: dict[str, ThreadNode]
    _root: ThreadNode
    _current: ThreadNode

    def __init__(self, thread: Thread | None = None, *, root_id: str | None = None) -> None:
        """A tree of a root alone, named "main".

        Args:
            thread: the root's; a new one if left out.
            root_id: a UUIDv4; drawn if left out.

        Raises:
            InvalidInput: the id is no UUIDv4.
        """
        root = ThreadNode(node_id_of(root_id), Thread() if thread is None else thread, name=ROOT_NAME)
        self._nodes = {root.id: root}
        self._root = self._current = root

    @property
    def root(self) -> ThreadNode:
        """The node that all others descend from."""
        return self._root

    @property
    def current(self) -> ThreadNode:
        """The node that the conversation goes on in."""
        return self._current

    @property
    def nodes(self) -> Mapping[str, ThreadNode]:
        """All nodes by id, in the order in which they were made; a view that only reads."""
        return MappingProxyType(self._nodes)

    def branch(
        self,
        from_id: str,
        name: str | None = None,
        *,
        id: str | None = None,
        thread: Thread | None = None,
        fork_index: int | None = None,
    ) -> str:
        """Adds a node that goes on from another and returns its id; the current node stays what it is.

        Messages that the parent's thread gets later are no part of the branch's history.

        Args:
            from_id: the parent.
            name: of the branch, for people.
            id: a UUIDv4 that no node has; drawn if left out.
            thread: the node's own; a new, empty one if left out.
            fork_index: how many messages of the parent's own thread the branch goes on from; all if left out.

        Raises:
            InvalidInput: there is no such parent, the id cannot be used, or the parent has fewer messages.
        """
        parent = self._find(from_id)
        fork = len(parent.thread) if fork_index is None else fork_index
        if not 0 <= fork <= len(parent.thread):
            raise InvalidInput(f"fork_index is {fork}; the thread of {from_id!r} has {len(parent.thread)} messages")
        own_id = node_id_of(id)
        if own_id in self._nodes:
            raise InvalidInput(f"node id {own_id!r} is taken; leave it out to get a new one")
        own_thread = Thread() if thread is None else thread
        self._nodes[own_id] = ThreadNode(own_id, own_thread, parent.id, name, {FORK_INDEX: fork})
        parent.children.append(own_id)
        return own_id

    def checkout(self, node_id: str) -> None:
        """Makes a node the current one.

        Raises:
            InvalidInput: there is no such node.
        """
        self._current = self._find(node_id)

    def merge(self, source_id: str, target_id: str) -> None:
        """Adds to the target's thread what the source's history has and the target's lacks, in order, by message id.

        The source, the current node and the histories of the target's branches stay what they are. If nothing is
        lacking, nothing changes; else the source is noted in the target's metadata as `mergedFrom`.

        Raises:
            InvalidInput: there is no such node, both are one, or `mergedFrom` is not a list.
        """
        source, target = self._find(source_id), self._find(target_id)
        if source is target:
            raise InvalidInput(f"node {source_id!r} cannot be merged into itself; give two nodes")
        merged = target.metadata.get(MERGED_FROM, [])
        if not isinstance(merged, list):
            raise InvalidInput(f"{MERGED_FROM} in the metadata of node {target_id!r} must be a list of node ids")
        known = {message.id for message in self.history(target_id)}
        lacking = [message for message in self.history(source_id) if message.id not in known]
        if not lacking:
            return
        for child in (self._nodes[child_id] for child_id in target.children):
            if child.fork_index is None:  # it would see the merged messages, perhaps its own ones, a second time
                child.metadata[FORK_INDEX] = len(target.thread)
        target.thread.push(*lacking)
        target.metadata[MERGED_FROM] = [*merged, source_id]

    def history(self, node_id: str | None = None) -> list[Message]:
        """The messages from the root to a node, oldest first: of each thread above it the part before the fork.

        Args:
            node_id: the current node if left out.

        Raises:
            InvalidInput: there is no such node.
        """
        node = self._current if node_id is None else self._find(node_id)
        parts = [node.thread.messages]
        while node.parent_id is not None:
            parent = self._nodes[node.parent_id]
            parts.append(parent.thread.messages[: node.fork_index])
            node = parent
        return [message for part in reversed(parts) for message in part]

    def get_leaves(self) -> list[ThreadNode]:
        """The nodes that nothing branched from, in the order in which they were made."""
        return [node for node in self._nodes.values() if not node.children]

    def get_branches(self) -> dict[str, str]:
        """The names of the nodes that have one, by node id."""
        return {node.id: node.name for node in self._nodes.values() if node.name}

    def to_json(self) -> JSONObject:
        """Returns UAP's ThreadTreeJSON, which shares nothing with the tree.

        Raises:
            InvalidInput: a node's metadata holds something that is not JSON.
        """
        return {
            "rootId": self._root.id,
            "currentId": self._current.id,
            "nodes": [node.to_json() for node in self._nodes.values()],
        }

    @classmethod
    def from_json(cls, value: JSONValue) -> ThreadTree:
        """Returns the tree of a ThreadTreeJSON. Ids that are no UUIDs are kept, since other systems write such.

        Raises:
            InvalidInput: it is no tree; the message begins with the JSON path of what is wrong, as
                `threadTree.nodes[3].parentId`.
        """
        return cls._of(*read_tree(value))

    @classmethod
    def of(cls, nodes: Iterable[ThreadNode], current_id: str) -> ThreadTree:
        """The tree of nodes that are known to be one.

        Args:
            nodes: in the order in which they were made.
            current_id: the one that is current.
        """
        known = {node.id: node for node in nodes}
        root = next(node for node in known.values() if node.parent_id is None)
        return cls._of(known, root, known[current_id])

    @classmethod
    def _of(cls, nodes: dict[str, ThreadNode], root: ThreadNode, current: ThreadNode) -> ThreadTree:
        tree = cls.__new__(cls)
        tree._nodes, tree._root, tree._current = nodes, root, current
        return tree

    def _find(self, node_id: str) -> ThreadNode:
        node = self._nodes.get(node_id)
        if node is None:
            raise InvalidInput(f"Node not found: {node_id}")
        return node
