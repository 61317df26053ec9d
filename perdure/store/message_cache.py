"""The conversations that a process has read or has written itself, so that a step reads only what others have written."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

from perdure.store.answers import AnswerRow, Writer
from perdure.store.database import Database
from perdure.store.messages import StoredMessage, fill, read_body, read_messages
from perdure.store.tool_calls import ResultRow
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from perdure.upp.messages import message_from_json

_Name: TypeAlias = tuple[SessionKey, str, int]
"""Session, node and epoch."""

_MOST_OPEN = 256
_POSITION = attrgetter("position")


@dataclass(slots=True)
class _Entry:
    messages: list[StoredMessage]
    upto: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _OpenCalls:
    """An answer of this process whose tools are being called, and the results so far."""

    name: _Name
    run: str
    answer: AnswerRow
    results: dict[int, ResultRow]

    def message(self, at: str, sha256: str) -> StoredMessage | None:
        """The message that the last result has made, at that time; None if it is another, as its hash tells."""
        answer = self.answer
        if len(self.results) < len(answer.calls):
            return None
        rows = [self.results[index] for index in range(len(answer.calls))]
        document: JSONObject = {
            "content": [],
            "id": answer.results_id,
            "results": [
                {
                    "isError": row.is_error,
                    "ref": {"sha256": row.sha256, "size": len(row.body)},
                    "toolCallId": call["call_id"],
                }
                for row, call in zip(rows, answer.calls, strict=True)
            ],
            "timestamp": at,
            "type": "tool_result",
        }
        body = dumps(document)
        if sha256_hex(body) != sha256:
            return None
        fill(document, {row.sha256: row.body for row in rows})
        return StoredMessage(
            position=answer.position + 1,
            id=answer.results_id,
            run=self.run,
            step=answer.step,
            sha256=sha256,
            size_bytes=len(body) + sum(len(row.body) for row in rows),
            message=message_from_json(document),
        )


class MessageCache:
    """Messages never change, so what is here is what the store has.

    An entry is for one epoch of its session: a failed run, whose messages leave the thread, begins another.
    """

    def __init__(self, database: Database, *, limit_bytes: int = 256 * 1024 * 1024) -> None:
        """Cache reads of `database`, up to about `limit_bytes` of stored bodies; the least recently used leave."""
        self._database = database
        self._limit = limit_bytes
        self._size = 0
        self._entries: OrderedDict[_Name, _Entry] = OrderedDict()
        self._open: OrderedDict[tuple[SessionKey, str], _OpenCalls] = OrderedDict()

    async def read(self, key: SessionKey, node: str, *, end: int, epoch: int, first: int = 0) -> list[StoredMessage]:
        """Messages of a node from position `first` up to, not including, `end`, oldest first."""
        name = (key, node, epoch)
        entry = self._entries.pop(name, None) or _Entry([], 0, 0)
        self._size -= entry.size_bytes
        if entry.upto < end:
            fresh = await read_messages(self._database, key, node, first=entry.upto, end=end)
            entry.messages.extend(fresh)
            entry.upto = end
            entry.size_bytes += sum(item.size_bytes for item in fresh)
        self._keep(name, entry)
        messages = entry.messages
        return messages[bisect_left(messages, first, key=_POSITION) : bisect_left(messages, end, key=_POSITION)]

    def reaches(self, key: SessionKey, node: str, *, position: int, epoch: int) -> bool:
        """Whether `read` has all messages of a node before a position at hand."""
        entry = self._entries.get((key, node, epoch))
        return position <= (0 if entry is None else entry.upto)

    def add_answer(self, writer: Writer, row: AnswerRow, epoch: int) -> None:
        """Note an answer that this process has stored. What stands beside the thread, or has a prompt, is left to `read`."""
        if row.scaffold or row.prompt is not None:
            return
        name = (writer.key, row.node, epoch)
        message = StoredMessage(
            position=row.position,
            id=row.id,
            run=writer.run,
            step=row.step,
            sha256=row.sha256,
            size_bytes=len(row.body),
            message=message_from_json(read_body("assistant", row.body)),
            usage=row.usage,
            stop=row.stop,
        )
        if self._extend(name, message) and row.calls:
            self._open[writer.key, row.id] = _OpenCalls(name, writer.run, row, {})
            if len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)

    def add_result(self, key: SessionKey, row: ResultRow, batch_sha256: str | None) -> None:
        """Note a tool result that this process has stored.

        Args:
            key: the session.
            row: the result.
            batch_sha256: of the message that holds the results of all calls of the answer, if this was the last.
        """
        calls = self._open.get((key, row.message))
        if calls is None:
            return
        calls.results[row.index] = row
        if batch_sha256 is None:
            return
        del self._open[key, row.message]
        message = calls.message(row.at, batch_sha256)
        if message is not None:
            self._extend(calls.name, message)

    def _extend(self, name: _Name, message: StoredMessage) -> bool:
        """Put a message at the end of an entry, if that is its place."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return False
        self._size -= entry.size_bytes
        fits = entry.upto == message.position
        if fits:
            entry.messages.append(message)
            entry.upto += 1
            entry.size_bytes += message.size_bytes
        self._keep(name, entry)
        return fits

    def _keep(self, name: _Name, entry: _Entry) -> None:
        other = self._entries.pop(name, None)
        if other is not None:
            self._size -= other.size_bytes
        self._entries[name] = entry
        self._size += entry.size_bytes
        while self._size > self._limit and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            self._size -= oldest.size_bytes
