"""Merging branches of a thread tree copies nothing twice, and changes no other history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.uap.thread_tree import ThreadTree
from tests.unit.uap.thread_trees import family, said, say, trees


def test_merge_adds_what_the_target_lacks() -> None:
    tree, _, b, c = family()
    tree.merge(b, c)
    assert said(tree.history(c)) == ["root", "c", "a", "b"]
    assert tree.nodes[c].metadata == {"forkIndex": 1, "mergedFrom": [b]}
    assert said(tree.history(b)) == ["root", "a", "b"]
    assert tree.current is tree.root


def test_merge_into_an_ancestor_adds_the_branchs_messages() -> None:
    tree, _, b, _ = family()
    say(tree, tree.root.id, "root again")
    tree.merge(b, tree.root.id)
    assert said(tree.history(tree.root.id)) == ["root", "root again", "a", "b"]
    assert said(tree.history(b)) == ["root", "a", "b"]


def test_merge_into_a_descendant_adds_what_was_said_after_the_fork() -> None:
    tree, a, b, _ = family()
    say(tree, tree.root.id, "root again")
    tree.merge(tree.root.id, b)
    assert said(tree.history(b)) == ["root", "a", "b", "root again"]
    assert said(tree.history(a)) == ["root", "a"]


def test_merging_again_changes_nothing() -> None:
    tree, a, _, c = family()
    tree.merge(a, c)
    before = tree.to_json()
    tree.merge(a, c)
    tree.merge(tree.root.id, c)
    assert tree.to_json() == before


def test_merging_again_after_more_was_said_adds_only_that() -> None:
    tree, a, _, c = family()
    tree.merge(a, c)
    say(tree, a, "a again")
    tree.merge(a, c)
    assert said(tree.history(c)) == ["root", "c", "a", "a again"]
    assert tree.nodes[c].metadata["mergedFrom"] == [a, a]


def test_merge_hides_the_merged_messages_from_old_branches_of_the_target() -> None:
    """Such a branch has no fork index, and would else see its own messages a second time."""
    tree, a, *_ = family()
    del tree.nodes[a].metadata["forkIndex"]
    tree.merge(a, tree.root.id)
    assert said(tree.history(tree.root.id)) == ["root", "a"]
    assert said(tree.history(a)) == ["root", "a"]


def test_a_node_cannot_be_merged_into_itself() -> None:
    tree, a, *_ = family()
    with pytest.raises(InvalidInput, match="into itself"):
        tree.merge(a, a)


def test_a_users_own_merged_from_is_not_overwritten() -> None:
    tree, a, _, c = family()
    tree.nodes[c].metadata["mergedFrom"] = "elsewhere"
    with pytest.raises(InvalidInput, match="mergedFrom"):
        tree.merge(a, c)
    assert said(tree.history(c)) == ["root", "c"]
    assert tree.nodes[c].metadata["mergedFrom"] == "elsewhere"


@given(trees(), st.data())
def test_merge_keeps_every_other_history(tree: ThreadTree, data: st.DataObject) -> None:
    """The target's history grows at its end by what it lacked, in the source's order; all others stay."""
    tree.branch(tree.root.id)
    source = data.draw(st.sampled_from([*tree.nodes]))
    target = data.draw(st.sampled_from([node for node in tree.nodes if node != source]))
    before = {node: tree.history(node) for node in tree.nodes}
    current = tree.current
    tree.merge(source, target)
    known = set(said(before[target]))
    lacking = [message for message in before[source] if message.id not in known]
    assert tree.history(target) == [*before[target], *lacking]
    assert {node: tree.history(node) for node in tree.nodes if node != target} == {
        node: history for node, history in before.items() if node != target
    }
    assert tree.current is current
