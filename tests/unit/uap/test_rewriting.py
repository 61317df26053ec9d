"""A thread as a client has it: the common beginning stays, a branch opens where it goes on otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.uap.ids import new_id
from perdure.uap.open_calls import NOT_CARRIED_OUT
from perdure.uap.rewriting import CommonBeginning, Rewrite, rewrite_tree, sound_rewrite, way_of
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult
from tests.unit.uap.thread_trees import trees


def said(history: Sequence[Message]) -> list[str]:
    """What there is to be told of a history."""
    return [message.text for message in history if message.text]


def common(stored: Sequence[Message], given: Sequence[Message]) -> CommonBeginning:
    found = CommonBeginning(given)
    for message in stored:
        found.show(message)
    return found


def rewritten(tree: ThreadTree, thread: Sequence[Message]) -> str:
    found = common(tree.history(), thread)
    return rewrite_tree(tree, found.kept, found.rest, branch_id=new_id())


def talk(*texts: str) -> list[Message]:
    """What a user and a model say in turn."""
    return [AssistantMessage(text) if place % 2 else UserMessage(text) for place, text in enumerate(texts)]


def tree_of(*texts: str) -> ThreadTree:
    tree = ThreadTree()
    tree.root.thread.push(*talk(*texts))
    return tree


@pytest.mark.parametrize("more", [(), ("c",), ("c", "d")])
def test_a_thread_that_goes_on_stays_on_its_node(more: tuple[str, ...]) -> None:
    tree = tree_of("a", "b")
    kept = tree.history()
    assert rewritten(tree, talk("a", "b", *more)) == tree.root.id
    assert len(tree.nodes) == 1
    assert tree.history()[:2] == kept
    assert said(tree.history()) == ["a", "b", *more]


@pytest.mark.parametrize(
    ("thread", "fork"), [(("a", "b"), 2), (("a", "x", "y"), 1), (("x",), 0), ((), 0), (("a", "b", "x"), 2)]
)
def test_a_thread_that_goes_on_otherwise_is_a_branch(thread: tuple[str, ...], fork: int) -> None:
    """The node that is left keeps what it has."""
    tree = tree_of("a", "b", "c", "d")
    node = tree.nodes[rewritten(tree, talk(*thread))]
    assert (node.parent_id, node.fork_index, tree.current) == (tree.root.id, fork, node)
    assert said(tree.history()) == list(thread)
    assert said(tree.history(tree.root.id)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("count", "at_root", "fork"), [(1, True, 1), (2, True, 2), (3, False, 1)])
def test_it_branches_off_where_the_last_common_message_stands(count: int, at_root: bool, fork: int) -> None:
    tree = tree_of("a", "b", "left")
    branch = tree.nodes[tree.branch(tree.root.id, fork_index=2)]
    branch.thread.push(*talk("c", "d"))
    tree.checkout(branch.id)
    node = tree.nodes[rewritten(tree, [*talk("a", "b", "c", "d")[:count], UserMessage("new")])]
    assert (node.parent_id, node.fork_index) == (tree.root.id if at_root else branch.id, fork)
    assert said(tree.history()) == [*["a", "b", "c", "d"][:count], "new"]


def test_an_answer_that_says_nothing_stays_where_the_client_has_none() -> None:
    tree = ThreadTree()
    tree.root.thread.push(UserMessage("a"), AssistantMessage(""), UserMessage("b"))
    assert rewritten(tree, [UserMessage("a"), UserMessage("b"), UserMessage("c")]) == tree.root.id
    assert [message.text for message in tree.history()] == ["a", "", "b", "c"]


@given(tree=trees(), data=st.data())
def test_whatever_is_given_is_what_the_history_then_says(tree: ThreadTree, data: st.DataObject) -> None:
    """No other node's history changes, and giving it again changes nothing."""
    before = {node: said(tree.history(node)) for node in tree.nodes}
    current = tree.current.id
    beginning = tree.history()[: data.draw(st.integers(0, 6))]
    more = data.draw(st.lists(st.sampled_from(["new", "newer", "same"]), max_size=3))
    thread = [*beginning, *(UserMessage(text) for text in more)]
    node = rewritten(tree, thread)
    assert said(tree.history()) == said(thread)
    kept = {name: said(tree.history(name)) for name in before if name != current or node != current}
    assert kept == {name: before[name] for name in kept}
    assert sum(count for _, count in way_of(tree)) == len(tree.history())
    assert rewritten(tree, [*thread]) == node
    assert said(tree.history()) == said(thread)


def asks(*calls: str) -> AssistantMessage:
    return AssistantMessage("wait", [ToolCall(call, "tool", {}) for call in calls])


def tells(*results: str) -> ToolResultMessage:
    return ToolResultMessage([ToolResult(result, f"result {result}") for result in results])


@pytest.mark.parametrize("result", ["result a", "another"])
def test_calls_may_have_other_ids(result: str) -> None:
    """What comes of a call that stays is told under the id that it has in the thread."""
    tree = ThreadTree()
    tree.root.thread.push(UserMessage("go"), asks("a"), tells("a"))
    given = [UserMessage("go"), asks("x"), ToolResultMessage([ToolResult("x", result)]), UserMessage("on")]
    node = rewritten(tree, given)
    history = tree.history()
    assert (node == tree.root.id) == (result == "result a")
    assert isinstance(history[2], ToolResultMessage)
    assert [(one.tool_call_id, one.result) for one in history[2].results] == [("a", result)]
    assert [message.text for message in history[3:]] == ["on"]


def test_results_stand_behind_their_calls_in_order() -> None:
    thread = [UserMessage("go"), asks("a", "b", "a"), tells("b"), tells("a"), UserMessage("go on")]
    made = sound_rewrite(Rewrite(thread)).thread
    assert made is not None
    assert [message.type for message in made] == ["user", "assistant", "tool_result", "user"]
    assert isinstance(made[2], ToolResultMessage)
    assert [(one.tool_call_id, one.result, one.is_error) for one in made[2].results] == [
        ("a", "result a", False), ("b", "result b", False), ("a", NOT_CARRIED_OUT, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "thread",
    [[tells("a")], [UserMessage("go"), tells("a")], [asks("b"), tells("a")], [asks("a"), tells("a", "a")],
     [AssistantMessage("hi"), tells("a")]],
)  # fmt: skip
def test_a_result_of_no_call_is_refused(thread: list[Message]) -> None:
    with pytest.raises(InvalidInput, match="call 'a' stands behind no answer that asked for it; give the assistant's"):
        sound_rewrite(Rewrite(thread))
    with pytest.raises(InvalidInput):
        sound_rewrite(Rewrite(None, thread))


def test_it_is_kept_as_it_was_given() -> None:
    for given_one in (Rewrite([], talk("x")), Rewrite(None, talk("a", "b")), Rewrite(talk("a", "b"))):
        assert Rewrite.from_json(given_one.to_json()).to_json() == given_one.to_json()
        assert not given_one.is_nothing
    assert Rewrite.from_json(Rewrite([]).to_json()).thread == []
    assert Rewrite().is_nothing
