"""The JSON of thread trees loses nothing; what is no tree is refused with the path of what is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.uap.thread_node import ThreadNode
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads
from perdure.upp.thread import Thread
from tests.unit.uap.thread_trees import CHILD, LONG_AGO, ROOT, documents, example, family, said, trees
from tests.unit.upp.strategies import json_objects, json_values, texts, threads

Change = Callable[[dict[str, Any]], object]


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
