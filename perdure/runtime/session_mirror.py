"""A stored session in the memory of who works with it, brought up to date by reading only what is new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from perdure.errors import UnknownSession
from perdure.runtime.checkpoint_mirror import CheckpointMirror
from perdure.runtime.mirrored_tree import MirroredTree
from perdure.runtime.node_mirror import NodeMirror
from perdure.store.database import Database
from perdure.store.messages import read_messages
from perdure.store.session_news import MessagePlace, SessionNews, read_news, read_places
from perdure.store.sessions import NodeRow, SessionRow
from perdure.uap.ids import root_node_id
from perdure.uap.session_checkpoints import Checkpoint
from perdure.uap.session_key import SessionKey
from perdure.upp.timestamp import format_timestamp, parse_timestamp
from perdure.upp.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class MirroredSession:
    """What a session's rows say of it.

    Attributes:
        row: as lists show it.
        created_at: as its document has it; `updated_at` too.
        usage_by_agent: by agent path.
        current: the checkpoint that it stands at; None before the first.
    """

    row: SessionRow
    created_at: str
    updated_at: str
    usage_by_agent: dict[str, TokenUsage]
    current: Checkpoint | None


class SessionMirror:
    """The tree and the checkpoints of one stored session."""

    def __init__(self, database: Database, key: SessionKey, tree: MirroredTree) -> None:
        """Show the session in `tree`, which keeps being the same object."""
        self._database = database
        self._key = key
        self._tree = tree
        self._nodes: dict[str, NodeMirror] = {}
        self._discards = 0
        self._since = 0
        self._open: dict[str, int] = {}
        self._checkpoints = CheckpointMirror(database, key, self._nodes)

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """All of them, in the order of the session's document."""
        return self._checkpoints.items

    async def refresh(self, *, ahead: bool) -> MirroredSession | None:
        """Read what is new; None if there is no such session.

        Args:
            ahead: the tree has changes that are not made in the store yet, which it must go on showing.
        """
        try:
            news = await read_news(self._database, self._key, self._since)
        except UnknownSession:
            return None
        await self._read_messages(news)
        await self._checkpoints.take(news)
        self._show(news.row, ahead=ahead)
        still = [run for run in news.runs if run.is_open]
        self._open = {run.node: run.start for run in reversed(still)}
        self._since = min((run.first_seq for run in still or news.runs[-1:]), default=self._since)
        return _mirrored(news, self._checkpoints.current(news))

    def is_kept(self, checkpoint: Checkpoint) -> bool:
        """Whether what the checkpoint's run has said is part of its thread: the run has not failed."""
        node = self._tree.nodes[checkpoint.thread_id]
        known = {message.id for message in node.thread}
        return all(message.id in known for message in checkpoint.spoken)

    async def _read_messages(self, news: SessionNews) -> None:
        """Bodies of new messages; of those that a run had not ended with, and of all if some have left, the places."""
        first: dict[str, int] = {}
        for row in news.nodes:
            mirror = self._mirror_of(row)
            first[row.id] = min(mirror.next, self._open.get(row.id, mirror.next))
            if news.discards != self._discards:
                first[row.id] = 0
        places: dict[str, list[MessagePlace]] = {}
        for place in await read_places(self._database, self._key, first):
            places.setdefault(place.node, []).append(place)
        for node, own in places.items():
            mirror, end = self._nodes[node], own[-1].position + 1
            new = await read_messages(
                self._database, self._key, node, first=mirror.next, end=end, discarded=True
            ) if mirror.next < end else []  # fmt: skip
            mirror.take(own, new)
        self._discards = news.discards

    def _mirror_of(self, row: NodeRow) -> NodeMirror:
        mirror = self._nodes.get(row.id)
        if mirror is None:
            mirror = self._nodes[row.id] = NodeMirror(row, self._tree.nodes.get(row.id))
        mirror.row = row
        return mirror

    def _show(self, row: SessionRow, *, ahead: bool) -> None:
        coming = [node for name, node in self._tree.nodes.items() if name not in self._nodes] if ahead else []
        parents = [(name, mirror.row.parent) for name, mirror in self._nodes.items()]
        parents += [(node.id, node.parent_id) for node in coming]
        shown = [
            mirror.show(
                None if mirror.row.parent is None else self._nodes[mirror.row.parent],
                [child for child, parent in parents if parent == name],
            )
            for name, mirror in self._nodes.items()
        ]
        stored = row.current_node or root_node_id(self._key.session)
        self._tree.become([*shown, *coming], self._tree.current.id if ahead else stored)


def _mirrored(news: SessionNews, current: Checkpoint | None) -> MirroredSession:
    row, came = news.row, cast("dict[str, str]", news.row.imported or {})
    updated = came.get("updatedAt")
    untouched = updated is not None and parse_timestamp(updated) == row.updated_at
    usage = {row.agent: row.usage} if news.usage_by_agent is None else news.usage_by_agent
    return MirroredSession(
        row=row,
        created_at=came.get("createdAt") or format_timestamp(row.created_at),
        updated_at=updated if updated is not None and untouched else format_timestamp(row.updated_at),
        usage_by_agent={path: TokenUsage.from_json(used) for path, used in usage.items()},
        current=current,
    )
