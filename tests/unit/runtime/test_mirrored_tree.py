"""A tree that notes its changes for the store."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.runtime.mirrored_tree import MirroredTree, TreeChange
from perdure.uap.ids import new_id
from perdure.uap.thread_node import ThreadNode
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.messages import UserMessage
from perdure.upp.thread import Thread


def made() -> tuple[MirroredTree, list[TreeChange]]:
    noted: list[TreeChange] = []
    return MirroredTree(ThreadTree(Thread([UserMessage("one")])), noted.append), noted


def test_changes_are_made_at_once_and_noted_in_their_order() -> None:
    tree, noted = made()
    root = tree.root.id
    branch = tree.branch(root, "other")
    tree.nodes[branch].thread.push(UserMessage("two"))
    tree.checkout(branch)
    tree.merge(branch, root)
    assert tree.current.id == branch
    assert [message.text for message in tree.root.thread] == ["one", "two"]
    assert [(item.kind, item.detail) for item in noted] == [
        ("fork", {"node": root, "id": branch, "name": "other"}),
        ("checkout", {"node": branch}),
        ("merge", {"source": branch, "target": root}),
    ]
    assert len({item.key for item in noted}) == 3


def test_what_is_refused_is_not_noted() -> None:
    tree, noted = made()
    with pytest.raises(InvalidInput, match="Node not found"):
        tree.checkout("nowhere")
    with pytest.raises(InvalidInput, match="Node not found"):
        tree.branch("nowhere")
    with pytest.raises(InvalidInput, match="into itself"):
        tree.merge(tree.root.id, tree.root.id)
    assert noted == []


@pytest.mark.parametrize("more", [{"thread": Thread()}, {"fork_index": 0}], ids=["thread", "fork_index"])
def test_a_branch_goes_on_from_all_of_its_parent(more: dict[str, Any]) -> None:
    tree, noted = made()
    with pytest.raises(InvalidInput, match="leave thread and fork_index out"):
        tree.branch(tree.root.id, **more)
    assert noted == []


def test_what_is_stored_takes_its_place() -> None:
    tree, noted = made()
    root, child = ThreadNode(new_id(), Thread()), ThreadNode(new_id(), Thread())
    child.parent_id, root.children = root.id, [child.id]
    tree.become([root, child], child.id)
    assert (tree.root, tree.current, list(tree.nodes)) == (root, child, [root.id, child.id])
    assert noted == []
