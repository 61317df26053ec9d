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


class Thread(Shape):
    """A thread. Source: ThreadProtocol 1.0.0, Thread; unknown members of it and of its actions are kept."""

    version: str
    thread_id: str
    parent_thread_id: str | None = None
    created_at: AwareDatetime
    updated_at: AwareDatetime
    title: str
    metadata: JSONObject | None = None
    agents: dict[str, JSONObject]
    actions: list[JSONObject]


class Threads(Shape):
    """All threads of a session."""

    session: str
    threads: list[Thread]


class ImportedThreads(Shape):
    """A session that was made of threads.

    `mended`: by thread id, what was wrong and is mended. `left_out`: how many system actions there were, which are no
    messages.
    """

    session: str
    mended: dict[str, list[JSONObject]]
    left_out: int
