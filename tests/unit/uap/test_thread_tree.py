"""Thread trees: branches keep their own context, a merge copies nothing twice, and JSON loses nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.uap.ids import derive_id, is_uuid4
from perdure.uap.thread_node import ThreadNode
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads
from perdure.upp.messages import Message, UserMessage
from perdure.upp.thread import Thread
from tests.unit.upp.strategies import json_objects, json_values, moments, texts, threads

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
ROOT, CHILD, OTHER = (derive_id("test", name) for name in ("root", "child", "other"))

Change = Callable[[dict[str, Any]], object]

short_messages: st.SearchStrategy[Message] = st.builds(
    UserMessage, texts(2), id=st.sampled_from("abcdefgh") | texts(2), timestamp=moments()
)
short_threads = st.builds(Thread, st.lists(short_messages, max_size=1), id=texts(2), created_at=moments())
notes = st.dictionaries(texts(2), json_values(2), max_size=1)
forks: st.SearchStrategy[JSONObject] = st.fixed_dictionaries({}, optional={"forkIndex": st.integers(0, 3)})


def say(tree: ThreadTree, node_id: str, *said: str) -> None:
    tree.nodes[node_id].thread.push(*(UserMessage(text, id=text) for text in said))


def said(history: list[Message]) -> list[str]:
    return [message.id for message in history]


def family() -> tuple[ThreadTree, str, str, str]:
    """The tree of the specification's section 7.3 with a message per node: root -> a -> b, root -> c."""
    tree = ThreadTree()
    say(tree, tree.root.id, "root")
    a = tree.branch(tree.root.id, "a")
    say(tree, a, "a")
    b = tree.branch(a, "b")
    say(tree, b, "b")
    c = tree.branch(tree.root.id)
    say(tree, c, "c")
    return tree, a, b, c


@st.composite
def trees(draw: st.DrawFn) -> ThreadTree:
    """Trees that grew by branching, speaking, merging and checking out."""
    tree = ThreadTree(draw(short_threads))
    for _ in range(draw(st.integers(0, 6))):
        node, other = (draw(st.sampled_from([*tree.nodes])) for _ in range(2))
        match draw(st.sampled_from(["branch", "speak", "merge", "checkout", "note"])):
            case "branch":
                tree.branch(node, draw(st.none() | texts()), thread=draw(st.none() | short_threads))
            case "speak":
                tree.nodes[node].thread.push(draw(short_messages))
            case "merge" if node != other:
                tree.merge(node, other)
            case "checkout":
                tree.checkout(node)
            case _:
                tree.nodes[node].metadata.setdefault("note", draw(json_values(2)))
    return tree


@st.composite
def documents(draw: st.DrawFn) -> JSONObject:
    """Trees of other systems: any ids, any order of nodes, metadata of any kind, fork indexes here and there."""
    ids = draw(st.lists(texts().filter(bool), min_size=1, max_size=5, unique=True))
    parents: list[str | None] = [None, *(draw(st.sampled_from(ids[:count])) for count in range(1, len(ids)))]
    nodes: list[JSONValue] = []
    for node_id, parent in zip(ids, parents, strict=True):
        children = [child for child, above in zip(ids, parents, strict=True) if above == node_id]
        nodes.append(
            {
                "id": node_id,
                "parentId": parent,
                "name": draw(st.none() | texts()),
                "thread": draw(short_threads).to_json(),
                "children": [*draw(st.permutations(children))],
                "metadata": {**draw(notes), **draw(forks)},
            }
        )
    return {"rootId": ids[0], "currentId": draw(st.sampled_from(ids)), "nodes": draw(st.permutations(nodes))}


WHEN = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)


def example() -> dict[str, Any]:
    """The tree of the specification's example, section 13.5."""
    return {
        "rootId": "node_root",
        "currentId": "node_branch1",
        "nodes": [
            {
                "id": "node_root",
                "parentId": None,
                "name": "main",
                "thread": {"id": "thread_001", "messages": [UserMessage("hi", id="m1", timestamp=WHEN).to_json()]},
                "children": ["node_branch1"],
                "metadata": {},
            },
            {
                "id": "node_branch1",
                "parentId": "node_root",
                "name": "alternative",
                "thread": {"id": "thread_002", "messages": [UserMessage("ho", id="m2", timestamp=WHEN).to_json()]},
                "children": [],
                "metadata": {},
            },
        ],
    }


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


@given(trees())
def test_a_tree_survives_json(tree: ThreadTree) -> None:
    """Its form is equal byte for byte, and it behaves as before."""
    again = ThreadTree.from_json(loads(dumps(tree.to_json())))
    assert dumps(again.to_json()) == dumps(tree.to_json())
    assert (again.root.id, again.current.id) == (tree.root.id, tree.current.id)
    assert {node: again.history(node) for node in again.nodes} == {node: tree.history(node) for node in tree.nodes}
    assert again.get_branches() == tree.get_branches()


@given(documents())
def test_a_tree_of_another_system_is_kept_exactly(document: JSONObject) -> None:
    """Ids of any kind, the order of nodes and children, unknown metadata."""
    before = copy.deepcopy(document)
    assert dumps(ThreadTree.from_json(document).to_json()) == dumps(before)
    assert document == before


@given(json_objects(), st.none() | texts(), st.none() | texts().filter(bool), threads)
def test_a_node_survives_json(metadata: JSONObject, name: str | None, parent: str | None, thread: Thread) -> None:
    node = ThreadNode("n", thread, parent, name, metadata, ["x", "y"])
    assert ThreadNode.from_json(loads(dumps(node.to_json()))).to_json() == node.to_json()


def test_the_json_of_a_tree_is_as_the_specification_has_it() -> None:
    tree = ThreadTree(Thread(id="t1", created_at=LONG_AGO), root_id=ROOT)
    tree.branch(ROOT, "alternative", id=CHILD, thread=Thread(id="t2", created_at=LONG_AGO))
    dates = {"createdAt": "2001-01-01T00:00:00.000Z", "updatedAt": "2001-01-01T00:00:00.000Z"}
    assert tree.to_json() == {
        "rootId": ROOT,
        "currentId": ROOT,
        "nodes": [
            {
                "id": ROOT,
                "parentId": None,
                "name": "main",
                "thread": {"id": "t1", "messages": [], **dates},
                "children": [CHILD],
                "metadata": {},
            },
            {
                "id": CHILD,
                "parentId": ROOT,
                "name": "alternative",
                "thread": {"id": "t2", "messages": [], **dates},
                "children": [],
                "metadata": {"forkIndex": 0},
            },
        ],
    }


def test_the_specifications_own_example_is_read() -> None:
    """Its ids are no UUIDs and its threads have no dates."""
    tree = ThreadTree.from_json(example())
    assert (tree.root.id, tree.current.id, tree.current.name) == ("node_root", "node_branch1", "alternative")
    assert said(tree.history()) == ["m1", "m2"]
    written = cast("dict[str, Any]", tree.to_json())
    for node in written["nodes"]:
        assert node["thread"].pop("createdAt") == node["thread"].pop("updatedAt")
    assert written == example()


def test_what_was_written_once_is_written_the_same_ever_after() -> None:
    once = ThreadTree.from_json(example()).to_json()
    assert ThreadTree.from_json(once).to_json() == once


@pytest.mark.parametrize("field", ["name", "metadata", "parentId"])
def test_optional_fields_may_be_absent_or_null(field: str) -> None:
    absent, null = example(), example()
    del absent["nodes"][0][field]
    null["nodes"][0][field] = None
    for document in (absent, null):
        assert ThreadTree.from_json(document).root.metadata == {}


def test_the_json_shares_nothing_with_the_tree() -> None:
    tree, a, *_ = family()
    tree.nodes[a].metadata["note"] = {"inner": ["x"]}
    written = cast("dict[str, Any]", tree.to_json())
    before = copy.deepcopy(written)
    again = ThreadTree.from_json(written)
    cast("dict[str, Any]", tree.nodes[a].metadata["note"])["inner"].append("y")
    tree.branch(a)
    assert written == before
    written["nodes"][1]["metadata"]["note"]["inner"].append("z")
    assert again.to_json() == before


def test_metadata_that_is_no_json_is_named() -> None:
    tree = ThreadTree(root_id=ROOT)
    tree.root.metadata["file"] = cast(JSONValue, object())
    with pytest.raises(InvalidInput, match=rf"node '{ROOT}'\.metadata: \$\.file"):
        tree.to_json()


def in_node(index: int, **changed: object) -> Change:
    return lambda document: document["nodes"][index].update(changed)


def without(field: str, index: int | None = None) -> Change:
    return lambda document: (document if index is None else document["nodes"][index]).pop(field)


EMPTY: JSONObject = {"id": "t", "messages": []}
UNTYPED: JSONObject = {"id": "t", "messages": [{}]}


def add_node(**changed: object) -> Change:
    """Adds a third node, which the root lists, and changes it."""

    def change(document: dict[str, Any]) -> None:
        document["nodes"][0]["children"].append("third")
        document["nodes"].append({"id": "third", "parentId": "node_root", "thread": EMPTY, "children": [], **changed})

    return change


REFUSED: dict[str, tuple[Change, str]] = {
    "no root id": (without("rootId"), "threadTree.rootId: must be an id"),
    "no current id": (without("currentId"), "threadTree.currentId: must be an id"),
    "an id that is a number": (lambda tree: tree.update(rootId=7), "threadTree.rootId: must be an id"),
    "unknown root": (lambda tree: tree.update(rootId="x"), "threadTree.rootId: there is no node 'x'"),
    "unknown current": (lambda tree: tree.update(currentId="x"), "threadTree.currentId: there is no node 'x'"),
    "no nodes": (without("nodes"), "threadTree.nodes: must be a list"),
    "empty nodes": (lambda tree: tree.update(nodes=[]), "threadTree.rootId: there is no node 'node_root'"),
    "a node that is text": (lambda tree: tree["nodes"].append("x"), "threadTree.nodes[2]: must be a JSON object"),
    "a node without id": (without("id", 1), "threadTree.nodes[1].id: must be an id"),
    "an empty id": (in_node(1, id=""), "threadTree.nodes[1].id: must be an id"),
    "two nodes of one id": (add_node(id="node_branch1"), "threadTree.nodes[2].id: two nodes have the id"),
    "a root with a parent": (in_node(0, parentId="node_branch1"), "threadTree.nodes[0].parentId: the root must have"),
    "a second root": (in_node(1, parentId=None), "threadTree.nodes[1].parentId: is missing"),
    "unknown parent": (in_node(1, parentId="x"), "threadTree.nodes[1].parentId: there is no node 'x'"),
    "a parent that is a list": (in_node(1, parentId=["x"]), "threadTree.nodes[1].parentId: must be an id"),
    "its own parent": (
        add_node(parentId="third", children=["third"]),
        "threadTree.nodes[0].children[1]: node 'third' has another parentId",
    ),
    "a circle of two": (
        lambda tree: tree["nodes"].extend(
            {"id": a, "parentId": b, "thread": EMPTY, "children": [b]} for a, b in (("x", "y"), ("y", "x"))
        ),
        "threadTree.nodes[2].parentId: leads round in a circle",
    ),
    "a circle of one": (
        lambda tree: tree["nodes"].append({"id": "x", "parentId": "x", "thread": EMPTY, "children": ["x"]}),
        "threadTree.nodes[2].parentId: leads round in a circle",
    ),
    "no children": (without("children", 1), "threadTree.nodes[1].children: must be a list"),
    "children that are null": (in_node(1, children=None), "threadTree.nodes[1].children: must be a list"),
    "a child that is a number": (in_node(1, children=[1]), "threadTree.nodes[1].children[0]: must be an id"),
    "unknown child": (in_node(1, children=["x"]), "threadTree.nodes[1].children[0]: there is no node 'x'"),
    "a child of another": (
        in_node(1, children=["node_root"]),
        "threadTree.nodes[1].children[0]: node 'node_root' has another parentId",
    ),
    "a child listed twice": (
        in_node(0, children=["node_branch1", "node_branch1"]),
        "threadTree.nodes[0].children[1]: node 'node_branch1' is listed twice",
    ),
    "a child not listed": (
        in_node(0, children=[]),
        "threadTree.nodes[1].parentId: node 'node_root' does not list it as a child",
    ),
    "no thread": (without("thread", 1), "threadTree.nodes[1].thread: "),
    "a thread without id": (in_node(0, thread={"messages": []}), "threadTree.nodes[0].thread: "),
    "a message of no type": (in_node(0, thread=UNTYPED), "threadTree.nodes[0].thread: "),
    "a name that is a number": (in_node(0, name=1), "threadTree.nodes[0].name: must be a text"),
    "metadata that is a list": (in_node(0, metadata=[]), "threadTree.nodes[0].metadata: must be a JSON object"),
    "a fork before the start": (
        in_node(1, metadata={"forkIndex": -1}),
        "threadTree.nodes[1].metadata.forkIndex: must be a whole number",
    ),
    "a fork that is true": (
        in_node(1, metadata={"forkIndex": True}),
        "threadTree.nodes[1].metadata.forkIndex: must be a whole number",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_json_that_is_no_tree_is_refused_with_its_path(what: str) -> None:
    change, problem = REFUSED[what]
    document = example()
    change(document)
    with pytest.raises(InvalidInput) as refused:
        ThreadTree.from_json(document)
    assert str(refused.value).startswith(problem)


@given(json_values() | json_objects())
def test_json_of_any_kind_is_read_or_refused(value: JSONValue) -> None:
    try:
        tree = ThreadTree.from_json(value)
    except InvalidInput as error:
        assert str(error).startswith("threadTree")  # noqa: PT017  # either outcome is right
    else:
        assert ThreadTree.from_json(tree.to_json()).to_json() == tree.to_json()


@given(documents(), st.data())
def test_a_tree_with_one_field_of_junk_is_read_or_refused(document: JSONObject, data: st.DataObject) -> None:
    """What is read behaves: every history can be had and the form is stable."""
    node = data.draw(st.sampled_from(cast("list[JSONObject]", document["nodes"])))
    ids: list[JSONValue] = [each["id"] for each in cast("list[JSONObject]", document["nodes"])]
    junk: st.SearchStrategy[JSONValue] = (
        json_values() | st.sampled_from(ids) | st.lists(st.sampled_from(ids), max_size=3)
    )
    node[data.draw(st.sampled_from(sorted(node)))] = data.draw(junk)
    try:
        tree = ThreadTree.from_json(document)
    except InvalidInput as error:
        assert str(error).startswith("threadTree.")  # noqa: PT017  # either outcome is right
    else:
        assert all(isinstance(tree.history(each), list) for each in tree.nodes)
        assert ThreadTree.from_json(tree.to_json()).to_json() == tree.to_json()
