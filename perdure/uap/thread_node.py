"""One thread of a tree, and its JSON. Source: UAP-1.0 sections 7.1 and 13.2.

What nodes are to each other is `thread_tree`'s part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from perdure.errors import InvalidInput
from perdure.uap.ids import is_uuid4, new_id
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject, JSONValue, jsonable
from perdure.upp.thread import Thread

FORK_INDEX = "forkIndex"


@dataclass(slots=True, eq=False)
class ThreadNode:
    """One thread and its place in the tree. Source: UAP-1.0 section 7.1, ThreadNode.

    Attributes:
        id: a UUIDv4, unless another system wrote it.
        thread: the node's own messages; those before the branch point are in the threads above.
        parent_id: the node that it branched from; None for the root.
        name: of the branch, for people.
        metadata: JSON; `forkIndex` and `mergedFrom` in it are the tree's own, the rest is the user's.
        children: ids of the nodes that branched from it, in the order in which they did.
    """

    id: str
    thread: Thread
    parent_id: str | None = None
    name: str | None = None
    metadata: JSONObject = field(default_factory=dict[str, JSONValue])
    children: list[str] = field(default_factory=list[str])

    @property
    def fork_index(self) -> int | None:
        """How many messages of the parent's thread it goes on from; None for all, also those said later."""
        value = self.metadata.get(FORK_INDEX)
        return value if isinstance(value, int) and _is_count(value) else None

    def to_json(self) -> JSONObject:
        """Returns UAP's ThreadNodeJSON.

        Raises:
            InvalidInput: the metadata holds something that is not JSON.
        """
        return {
            "id": self.id,
            "parentId": self.parent_id,
            "name": self.name,
            "thread": self.thread.to_json(),
            "children": list(self.children),
            "metadata": _copy(self.metadata, f"node {self.id!r}.metadata"),
        }

    @classmethod
    def from_json(cls, value: JSONValue, path: str = "node") -> ThreadNode:
        """Returns the node of a ThreadNodeJSON; ids and metadata stay as they are, unknown fields are ignored.

        Args:
            value: the JSON.
            path: where it stands in its document, for errors.

        Raises:
            InvalidInput: it is none; the message begins with the JSON path of what is wrong.
        """
        source = read_object(value, path)
        metadata = read_object({} if source.get("metadata") is None else source["metadata"], f"{path}.metadata")
        fork = metadata.get(FORK_INDEX)
        if fork is not None and not _is_count(fork):
            raise wrong(f"{path}.metadata.{FORK_INDEX}", "must be a whole number of at least 0")
        children = enumerate(read_list(source, "children", path))
        return cls(
            id=read_id(source.get("id"), f"{path}.id"),
            thread=_thread(source.get("thread"), f"{path}.thread"),
            parent_id=None if source.get("parentId") is None else read_id(source["parentId"], f"{path}.parentId"),
            name=_name(source.get("name"), f"{path}.name"),
            metadata=_copy(metadata, f"{path}.metadata"),
            children=[read_id(child, f"{path}.children[{index}]") for index, child in children],
        )


def node_id_of(given: str | None) -> str:
    """The id given, or a new one. Raises InvalidInput."""
    if given is not None and not is_uuid4(given):
        raise InvalidInput(f"node id {short(given)} is not a UUIDv4; leave it out to get one")
    return new_id() if given is None else given


def wrong(path: str, problem: str) -> InvalidInput:
    """The error of a document, with the JSON path of what is wrong."""
    return InvalidInput(f"{path}: {problem}")


def short(text: str) -> str:
    """A text as errors show it: quoted, and not too long."""
    return f"{text!r:.80}"


def read_object(value: JSONValue, path: str) -> JSONObject:
    """The value itself, known to be an object. Raises InvalidInput."""
    if not isinstance(value, dict):
        raise wrong(path, "must be a JSON object")
    return value


def read_list(source: JSONObject, name: str, path: str) -> list[JSONValue]:
    """A required list. Raises InvalidInput."""
    value = source.get(name)
    if not isinstance(value, list):
        raise wrong(f"{path}.{name}", "must be a list")
    return value


def read_id(value: JSONValue, path: str) -> str:
    """The value itself, known to be an id. Raises InvalidInput."""
    if not isinstance(value, str) or not value:
        raise wrong(path, "must be an id: a text that is not empty")
    return value


def _is_count(value: JSONValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _name(value: JSONValue, path: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise wrong(path, "must be a text, or left out")
    return value


def _thread(value: JSONValue, path: str) -> Thread:
    try:
        return Thread.from_json(value)
    except UPPError as error:
        raise wrong(path, error.message) from error


def _copy(metadata: JSONObject, path: str) -> JSONObject:
    try:
        return cast(JSONObject, jsonable(metadata))
    except TypeError as error:
        raise wrong(path, str(error)) from error
