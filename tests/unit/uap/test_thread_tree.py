"""Thread trees: branches keep their own context, and every history is what its node has seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given

from perdure.errors import InvalidInput
from perdure.uap.ids import is_uuid4
from perdure.uap.thread_node import ThreadNode
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.messages import Message
from perdure.upp.thread import Thread
from tests.unit.uap.thread_trees import CHILD, LONG_AGO, ROOT, family, said, say, short_messages, trees


def test_a_new_tree_is_a_root_named_main() -> None:
    tree = ThreadTree()
    assert tree.current is tree.root
    assert (tree.root.parent_id, tree.root.name, tree.root.children, tree.root.metadata) == (None, "main", [], {})
    assert dict(tree.nodes) == {tree.root.id: tree.root}
    assert is_uuid4(tree.root.id)
    assert tree.history() == []


def test_the_thread_of_a_node_is_upps() -> None:
    thread = Thread()
    assert ThreadTree(thread).root.thread is thread
    assert type(ThreadTree().root.thread) is Thread


def test_nodes_cannot_be_put_in_from_outside() -> None:
    tree = ThreadTree()
    with pytest.raises(TypeError):
        cast("dict[str, ThreadNode]", tree.nodes)["x"] = tree.root


def test_a_branch_is_a_child_with_an_empty_thread() -> None:
    tree = ThreadTree()
    say(tree, tree.root.id, "one", "two")
    child = tree.nodes[tree.branch(tree.root.id, "other way")]
    assert is_uuid4(child.id)
    assert (child.parent_id, child.name, child.children, len(child.thread)) == (tree.root.id, "other way", [], 0)
    assert child.metadata == {"forkIndex": 2}
    assert tree.root.children == [child.id]


def test_a_branch_is_not_checked_out() -> None:
    tree = ThreadTree()
    child = tree.branch(tree.root.id)
    assert tree.current is tree.root
    tree.checkout(child)
    assert tree.current is tree.nodes[child]


def test_given_ids_and_threads_are_taken_as_they_are() -> None:
    """So that workflow code draws nothing and reads no clock."""
    first, second = (Thread(id=name, created_at=LONG_AGO) for name in ("t1", "t2"))
    tree = ThreadTree(first, root_id=ROOT)
    assert tree.branch(ROOT, id=CHILD, thread=second) == CHILD
    assert (tree.root.id, tree.nodes[CHILD].thread, second.updated_at) == (ROOT, second, LONG_AGO)


def test_ids_that_are_no_uuid4_are_refused() -> None:
    tree = ThreadTree()
    with pytest.raises(InvalidInput, match="'mine' is not a UUIDv4"):
        tree.branch(tree.root.id, id="mine")
    with pytest.raises(InvalidInput, match="'mine' is not a UUIDv4"):
        ThreadTree(root_id="mine")
    assert (tree.root.children, len(tree.nodes)) == ([], 1)


def test_an_id_that_is_taken_is_refused() -> None:
    tree = ThreadTree(root_id=ROOT)
    with pytest.raises(InvalidInput, match="is taken"):
        tree.branch(ROOT, id=ROOT)
    assert tree.root.children == []


UNKNOWN: dict[str, Callable[[ThreadTree], object]] = {
    "branch": lambda tree: tree.branch("nowhere"),
    "checkout": lambda tree: tree.checkout("nowhere"),
    "history": lambda tree: tree.history("nowhere"),
    "merge from": lambda tree: tree.merge("nowhere", tree.root.id),
    "merge to": lambda tree: tree.merge(tree.root.id, "nowhere"),
}


@pytest.mark.parametrize("use", UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_node_is_refused(use: Callable[[ThreadTree], object]) -> None:
    tree = ThreadTree()
    before = tree.to_json()
    with pytest.raises(InvalidInput, match="Node not found: nowhere"):
        use(tree)
    assert tree.to_json() == before


def test_history_goes_from_the_root_to_the_current_node() -> None:
    tree, a, b, c = family()
    assert said(tree.history()) == ["root"]
    tree.checkout(b)
    assert said(tree.history()) == ["root", "a", "b"]
    tree.checkout(c)
    assert said(tree.history()) == ["root", "c"]
    assert said(tree.history(a)) == ["root", "a"]


def test_what_the_parent_says_later_is_not_in_the_branch() -> None:
    """Section 7.2: after branching, the original approach goes on in the root."""
    tree, a, b, _ = family()
    say(tree, tree.root.id, "root again")
    say(tree, a, "a again")
    assert said(tree.history(b)) == ["root", "a", "b"]
    assert said(tree.history(a)) == ["root", "a", "a again"]
    assert said(tree.history(tree.branch(tree.root.id))) == ["root", "root again"]


def test_a_branch_without_fork_index_sees_the_whole_parent() -> None:
    tree, a, *_ = family()
    del tree.nodes[a].metadata["forkIndex"]
    say(tree, tree.root.id, "root again")
    assert said(tree.history(a)) == ["root", "root again", "a"]


def test_a_branch_can_go_on_from_an_earlier_point() -> None:
    tree = ThreadTree()
    say(tree, tree.root.id, "one", "two", "three")
    assert said(tree.history(tree.branch(tree.root.id, fork_index=1))) == ["one"]
    assert tree.history(tree.branch(tree.root.id, fork_index=0)) == []


@pytest.mark.parametrize("index", [-1, 2])
def test_a_branch_cannot_go_on_from_outside_the_thread(index: int) -> None:
    tree = ThreadTree()
    say(tree, tree.root.id, "one")
    with pytest.raises(InvalidInput, match="has 1 messages"):
        tree.branch(tree.root.id, fork_index=index)
    assert len(tree.nodes) == 1


def test_the_history_is_the_callers_own() -> None:
    tree, *_ = family()
    tree.history().clear()
    assert said(tree.history()) == ["root"]


def test_a_history_of_many_nodes_is_no_matter_of_depth() -> None:
    tree = ThreadTree()
    deepest = tree.root.id
    for count in range(3000):
        say(tree, deepest, str(count))
        deepest = tree.branch(deepest)
    assert said(ThreadTree.from_json(tree.to_json()).history(deepest)) == [str(count) for count in range(3000)]


def test_leaves_are_the_nodes_without_children() -> None:
    tree, _, b, c = family()
    assert [node.id for node in ThreadTree(root_id=ROOT).get_leaves()] == [ROOT]
    assert [node.id for node in tree.get_leaves()] == [b, c]


def test_branches_are_the_nodes_with_names() -> None:
    tree, a, b, _ = family()
    assert tree.get_branches() == {tree.root.id: "main", a: "a", b: "b"}


@given(trees(), short_messages)
def test_speaking_in_a_node_changes_no_other_history(tree: ThreadTree, message: Message) -> None:
    before = {node: tree.history(node) for node in tree.nodes}
    tree.current.thread.push(message)
    after = {node: tree.history(node) for node in tree.nodes}
    assert after.pop(tree.current.id) == [*before.pop(tree.current.id), message]
    assert after == before


@given(trees())
def test_a_new_branch_has_its_parents_history(tree: ThreadTree) -> None:
    before = tree.history()
    assert tree.history(tree.branch(tree.current.id)) == before


@given(trees())
def test_parents_and_children_agree_and_leaves_have_none(tree: ThreadTree) -> None:
    links = {(node.parent_id, node.id) for node in tree.nodes.values() if node.parent_id is not None}
    assert {(node.id, child) for node in tree.nodes.values() for child in node.children} == links
    assert {node.id for node in tree.get_leaves()} == tree.nodes.keys() - {parent for parent, _ in links}
