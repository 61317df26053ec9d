"""Shapes of answers about what a session holds: its thread tree, messages and checkpoints."""

from __future__ import annotations

from pydantic import AwareDatetime

from perdure.api.shapes import Shape
from perdure.upp.json_value import JSONObject


class Node(Shape):
    """A node of the thread tree; `position` is where it leaves its parent's thread."""

    node: str
    parent: str | None
    name: str | None
    position: int | None
    thread: str
    metadata: JSONObject
    created_at: AwareDatetime


class Tree(Shape):
    """The thread tree."""

    session: str
    root: str
    current: str
    nodes: list[Node]


class Message(Shape):
    """A message of a thread, with its place."""

    node: str
    position: int
    run: str | None
    step: int
    message: JSONObject


class Messages(Shape):
    """A page of a thread, oldest first."""

    node: str
    messages: list[Message]
    next: str | None


class Checkpoint(Shape):
    """A checkpoint, without the bodies of its messages."""

    checkpoint: str
    run: str | None
    node: str
    step: int
    position: int
    at: str
    imported: bool
    record: JSONObject


class Checkpoints(Shape):
    """A page of checkpoints, oldest first."""

    checkpoints: list[Checkpoint]
    next: str | None
