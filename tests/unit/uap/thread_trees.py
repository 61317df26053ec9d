"""Thread trees for tests: small ones, any ones, and documents of other systems."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from perdure.uap.ids import derive_id
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import Message, UserMessage
from perdure.upp.thread import Thread
from tests.unit.upp.strategies import json_values, moments, texts

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
ROOT, CHILD, OTHER = (derive_id("test", name) for name in ("root", "child", "other"))

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
