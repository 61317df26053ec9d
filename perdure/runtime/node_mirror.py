"""One node of a stored thread tree in memory: its messages by position, those of failed runs too."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, cast

from perdure.store.messages import StoredMessage
from perdure.store.session_news import MessagePlace
from perdure.store.sessions import NodeRow
from perdure.uap.thread_node import FORK_INDEX, ThreadNode
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message
from perdure.upp.thread import Thread
from perdure.upp.timestamp import parse_timestamp


class NodeMirror:
    """A thread node and what is known of its rows.

    Attributes:
        row: as it was read last.
        node: what the session's tree shows; it stays the same object.
        texts: of its messages, by row id.
    """

    def __init__(self, row: NodeRow, node: ThreadNode | None) -> None:
        """Show a row in a node that the tree has already, or in a new one."""
        thread = Thread(id=row.thread, created_at=row.created_at)
        self.node = ThreadNode(row.id, thread, row.parent, row.name) if node is None else node
        self.row = row
        self.texts: dict[str, str] = {}
        self._stored: list[StoredMessage] = []
        self._positions: list[int] = []
        self._places: list[MessagePlace] = []
        self._kept: list[int] = []

    @property
    def next(self) -> int:
        """The position after the last message that is known."""
        return self._positions[-1] + 1 if self._positions else 0

    def take(self, places: Sequence[MessagePlace], stored: Sequence[StoredMessage]) -> None:
        """Take where messages stand from some position on, and those of them that are new."""
        known = bisect_left(self._positions, places[0].position)
        self._places[known:] = places
        self._stored.extend(stored)
        self._positions.extend(item.position for item in stored)
        self.texts.update((item.id, item.message.text) for item in stored)
        self._kept = [place.position for place in self._places if not place.hidden]

    @property
    def messages(self) -> list[Message]:
        """Those of the thread, oldest first."""
        return [item.message for item, place in zip(self._stored, self._places, strict=True) if not place.hidden]

    def show(self, parent: NodeMirror | None, children: Sequence[str]) -> ThreadNode:
        """The node, with what its thread holds now, what it goes on from and what goes on from it."""
        came = cast("dict[str, Any] | None", self.row.imported)
        messages = self.messages
        self._fill(messages)
        thread = self.node.thread
        thread.id, thread.created_at = self.row.thread, self.row.created_at
        thread.updated_at = max([self.row.created_at, *(message.timestamp for message in messages[-1:])])
        if came is not None:
            thread.created_at = parse_timestamp(came["thread"]["createdAt"])
            if len(messages) == came["count"]:
                thread.updated_at = parse_timestamp(came["thread"]["updatedAt"])
        self.node.name = self.row.name
        fork: JSONObject = {}
        if parent is not None and came is None:
            fork = {FORK_INDEX: parent.count_before(self.row.fork_index or 0)}
        self.node.metadata = {**self.row.metadata, **fork}
        first: list[str] = [] if came is None else came["children"]
        self.node.children = [*first, *(child for child in children if child not in first)]
        return self.node

    def _fill(self, messages: Sequence[Message]) -> None:
        """Have the thread hold these messages; what is there already stays."""
        thread = self.node.thread
        there = thread.messages
        if [message.id for message in there] != [message.id for message in messages[: len(there)]]:
            thread.clear()
        thread.push(*messages[len(thread) :])

    def count_before(self, position: int) -> int:
        """How many messages of the thread stand before a position."""
        return bisect_left(self._kept, position)

    def between(self, start: int, end: int) -> list[Message]:
        """Messages from position `start` up to, not including, `end`, those of failed runs too; none that is unchecked."""
        return [item.message for item in self._stored[self._place(start) : self._place(end)] if not item.unchecked]

    def is_end(self, run: str, start: int, end: int) -> bool:
        """Whether a completed run has left what stands from `start` up to `end` in the thread, and nothing behind."""
        behind = zip(self._stored[self._place(end) :], self._places[self._place(end) :], strict=True)
        later = any(item.run == run and not place.hidden for item, place in behind)
        own = self._places[self._place(start) : self._place(end)]
        return not later and not any(place.hidden and not place.scaffold for place in own)

    def _place(self, position: int) -> int:
        return bisect_left(self._positions, position)
