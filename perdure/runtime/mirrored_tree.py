"""The thread tree of a durable session as its user sees it: changed at once, and the changes noted for the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from perdure.errors import InvalidInput
from perdure.uap.ids import new_id
from perdure.uap.thread_node import ThreadNode
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import JSONObject
from perdure.upp.thread import Thread


@dataclass(frozen=True, slots=True)
class TreeChange:
    """A change that is to be handed in.

    Attributes:
        kind: "fork", "checkout" or "merge".
        detail: as `Sessions.change` takes it.
        key: its idempotency key, so that it may be handed in again.
    """

    kind: str
    detail: JSONObject
    key: str = field(default_factory=new_id)


class MirroredTree(ThreadTree):
    """A tree that notes how it is changed. Its threads are for reading: what is pushed to them is not stored."""

    def __init__(self, tree: ThreadTree, note: Callable[[TreeChange], None]) -> None:
        """Takes the nodes of another tree.

        Args:
            tree: it is not to be used any more.
            note: is told of each change.
        """
        self._nodes = dict(tree.nodes)
        self._root, self._current = tree.root, tree.current
        self._note = note

    def branch(
        self,
        from_id: str,
        name: str | None = None,
        *,
        id: str | None = None,
        thread: Thread | None = None,
        fork_index: int | None = None,
    ) -> str:
        """See `ThreadTree.branch`.

        Raises:
            InvalidInput: as there, or a thread or an earlier fork is asked for, which a stored session cannot make.
        """
        if thread is not None or fork_index is not None:
            raise InvalidInput(
                "a branch of a durable session goes on from all that its parent holds and begins empty; "
                "leave thread and fork_index out"
            )
        made = super().branch(from_id, name, id=id)
        detail: JSONObject = {"node": from_id, "id": made}
        self._note(TreeChange("fork", detail if name is None else {**detail, "name": name}))
        return made

    def checkout(self, node_id: str) -> None:
        """See `ThreadTree.checkout`."""
        super().checkout(node_id)
        self._note(TreeChange("checkout", {"node": node_id}))

    def merge(self, source_id: str, target_id: str) -> None:
        """See `ThreadTree.merge`."""
        super().merge(source_id, target_id)
        self._note(TreeChange("merge", {"source": source_id, "target": target_id}))

    def become(self, nodes: Iterable[ThreadNode], current_id: str) -> None:
        """Takes the nodes that are stored in place of those here; nothing is noted.

        Args:
            nodes: parents before children, so the root first.
            current_id: the one that is current.
        """
        self._nodes = {node.id: node for node in nodes}
        self._root = next(iter(self._nodes.values()))
        self._current = self._nodes[current_id]
