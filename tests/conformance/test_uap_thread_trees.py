"""Thread trees: UAP's facts and readings by their numbers in the reference."""

from __future__ import annotations

from typing import Any, cast

import pytest

from perdure.errors import InvalidInput
from perdure.uap.ids import is_uuid4
from perdure.uap.session import Session, session
from perdure.uap.thread_node import ThreadNode
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.messages import UserMessage
from perdure.upp.thread import Thread
from tests.conformance.uap_session_stage import Talker, loaded, texts

# Thread trees


def test_fact_55_a_node_keeps_what_it_is_over_json() -> None:
    node = ThreadNode("n", Thread([UserMessage("a"), UserMessage("b")]), parent_id=None, name="x", children=["c"])
    again = ThreadNode.from_json(node.to_json())
    assert (again.id, again.parent_id, again.name, again.children) == ("n", None, "x", ["c"])
    assert len(again.thread) == 2


def test_fact_56_a_new_tree_is_its_root() -> None:
    tree = ThreadTree()
    assert tree.root.parent_id is None
    assert tree.current is tree.root
    assert dict(tree.nodes) == {tree.root.id: tree.root}
    assert tree.root.name == "main"


def test_fact_57_branch_adds_a_child() -> None:
    tree = ThreadTree()
    made = tree.branch(tree.root.id, "name")
    assert is_uuid4(made)
    assert (tree.nodes[made].parent_id, tree.nodes[made].name) == (tree.root.id, "name")
    assert tree.root.children == [made]
    with pytest.raises(InvalidInput, match="Node not found"):
        tree.branch("nowhere")


def test_fact_58_branch_does_not_check_out() -> None:
    tree = ThreadTree()
    tree.branch(tree.root.id)
    assert tree.current is tree.root


def test_fact_59_checkout_switches_the_current_node() -> None:
    tree = ThreadTree()
    made = tree.branch(tree.root.id)
    tree.checkout(made)
    assert tree.current.id == made
    with pytest.raises(InvalidInput, match="Node not found"):
        tree.checkout("nowhere")


def test_fact_60_a_branch_starts_empty() -> None:
    """The specification's way; a later version copies the parent's messages."""
    tree = ThreadTree(Thread([UserMessage("a")]))
    assert len(tree.nodes[tree.branch(tree.root.id)].thread) == 0


def test_fact_61_history_goes_from_the_root_to_the_current_node() -> None:
    tree = ThreadTree()
    assert tree.history() == []
    for name in ("root", "branch", "child"):
        tree.current.thread.user(name)
        tree.checkout(tree.branch(tree.current.id))
    assert texts(tree.history()) == ["root", "branch", "child"]


def test_fact_62_leaves_and_branches_can_be_listed() -> None:
    tree = ThreadTree()
    assert tree.get_leaves() == [tree.root]
    made, unnamed = tree.branch(tree.root.id, "alternative"), tree.branch(tree.root.id)
    assert [node.id for node in tree.get_leaves()] == [made, unnamed]
    assert tree.get_branches() == {tree.root.id: "main", made: "alternative"}


def test_fact_63_a_tree_survives_its_json() -> None:
    tree = ThreadTree()
    tree.checkout(tree.branch(tree.root.id))
    document = tree.to_json()
    assert set(document) == {"rootId", "currentId", "nodes"}
    again = ThreadTree.from_json(document)
    assert (again.root.id, again.current.id, len(again.nodes)) == (tree.root.id, tree.current.id, 2)
    assert again.root.children == tree.root.children
    for name in ("rootId", "currentId"):
        with pytest.raises(InvalidInput, match=name):
            ThreadTree.from_json({**document, name: "nowhere"})


async def test_fact_64_branches_keep_contexts_of_their_own() -> None:
    """Each inherits its parent's; also in a session that was loaded."""
    talker = Talker()
    made = session(talker.agent())
    await made.run("base")
    branches = [made.fork(made.thread_tree.root.id) for _ in range(3)]
    for name, node in zip("abc", branches, strict=True):
        made.thread_tree.checkout(node)
        await made.run(name)
    again = Session.from_json(made.to_json(), talker.agent())
    for name, node in zip("abc", branches, strict=True):
        again.thread_tree.checkout(node)
        await again.run("now")
        assert talker.told[-1] == ["base", "re: base", name, f"re: {name}", "now"]


# Sessions and trees


async def test_reading_4_20_a_branch_does_not_see_what_its_parent_says_later() -> None:
    made = session(Talker().agent())
    await made.run("one")
    node = made.fork(made.thread_tree.root.id)
    await made.run("two")
    assert made.thread_tree.nodes[node].metadata["forkIndex"] == 2
    assert texts(made.thread_tree.history(node)) == ["one", "re: one"]
    document = cast("dict[str, Any]", made.to_json())
    del document["threadTree"]["nodes"][1]["metadata"]["forkIndex"]
    assert texts(loaded(document).thread_tree.history(node)) == ["one", "re: one", "two", "re: two"]


async def test_reading_4_21_merge_adds_what_is_lacking() -> None:
    made = session(Talker().agent())
    await made.run("one")
    root, node = made.thread_tree.root.id, made.fork(made.thread_tree.root.id)
    made.thread_tree.checkout(node)
    await made.run("two")
    made.thread_tree.merge(node, root)
    made.thread_tree.merge(node, root)
    assert texts(made.thread_tree.history(root)) == ["one", "re: one", "two", "re: two"]
    assert made.thread_tree.root.metadata["mergedFrom"] == [node]
    assert made.thread_tree.current.id == node
    assert texts(made.thread_tree.history()) == ["one", "re: one", "two", "re: two"]
