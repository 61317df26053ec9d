"""The nodes of a ThreadTreeJSON, and what such a document is refused for. Source: UAP-1.0 section 13.2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure.uap.thread_node import ThreadNode, read_id, read_list, read_object, short, wrong
from perdure.upp.json_value import JSONObject, JSONValue

_TREE = "threadTree"


def read_tree(value: JSONValue) -> tuple[dict[str, ThreadNode], ThreadNode, ThreadNode]:
    """The nodes by id in the document's order, the root, and the current node.

    Raises:
        InvalidInput: it is no tree; the message begins with the JSON path of what is wrong, as
            `threadTree.nodes[3].parentId`.
    """
    source = read_object(value, _TREE)
    items = enumerate(read_list(source, "nodes", _TREE))
    nodes = _by_id(ThreadNode.from_json(item, _node_path(index)) for index, item in items)
    root, current = (_named_node(source, name, nodes) for name in ("rootId", "currentId"))
    _check_parents(nodes, root)
    _check_children(nodes)
    _check_no_cycle(nodes, root)
    return nodes, root, current


def _by_id(nodes: Iterable[ThreadNode]) -> dict[str, ThreadNode]:
    found: dict[str, ThreadNode] = {}
    for index, node in enumerate(nodes):
        if node.id in found:
            raise wrong(f"{_node_path(index)}.id", f"two nodes have the id {short(node.id)}")
        found[node.id] = node
    return found


def _named_node(source: JSONObject, name: str, nodes: Mapping[str, ThreadNode]) -> ThreadNode:
    node_id = read_id(source.get(name), f"{_TREE}.{name}")
    if node_id not in nodes:
        raise wrong(f"{_TREE}.{name}", f"there is no node {short(node_id)}")
    return nodes[node_id]


def _check_parents(nodes: Mapping[str, ThreadNode], root: ThreadNode) -> None:
    for index, node in enumerate(nodes.values()):
        path = f"{_node_path(index)}.parentId"
        if node is root:
            if node.parent_id is not None:
                raise wrong(path, "the root must have none")
        elif node.parent_id is None:
            raise wrong(path, f"is missing; the root is {short(root.id)}, every other node must have a parent")
        elif node.parent_id not in nodes:
            raise wrong(path, f"there is no node {short(node.parent_id)}")


def _check_children(nodes: Mapping[str, ThreadNode]) -> None:
    listed: set[str] = set()
    for index, node in enumerate(nodes.values()):
        for place, child in enumerate(node.children):
            path = f"{_node_path(index)}.children[{place}]"
            if child not in nodes:
                raise wrong(path, f"there is no node {short(child)}")
            if nodes[child].parent_id != node.id:
                raise wrong(path, f"node {short(child)} has another parentId")
            if child in listed:
                raise wrong(path, f"node {short(child)} is listed twice")
            listed.add(child)
    for index, node in enumerate(nodes.values()):
        if node.parent_id is not None and node.id not in listed:
            raise wrong(f"{_node_path(index)}.parentId", f"node {short(node.parent_id)} does not list it as a child")


def _check_no_cycle(nodes: Mapping[str, ThreadNode], root: ThreadNode) -> None:
    """Refuses nodes that the root does not lead to: with one root and known parents, only a circle keeps them apart."""
    below, reached = [root], {root.id}
    while below:
        children = below.pop().children
        reached.update(children)
        below.extend(nodes[child] for child in children)
    for index, node in enumerate(nodes.values()):
        if node.id not in reached:
            raise wrong(f"{_node_path(index)}.parentId", f"leads round in a circle, not to the root {short(root.id)}")


def _node_path(index: int) -> str:
    return f"{_TREE}.nodes[{index}]"
