"""A stored session as one JSON document, whatever state it is in. Source: UAP-1.0 section 13.

Which messages and checkpoints there are is read at one moment; their bodies, which never change, are read piece by piece.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, cast

from perdure.activities.convert import converter
from perdure.errors import UnknownSession
from perdure.runtime.session_outline import Outline, read_outline
from perdure.store.checkpoints import CheckpointRow
from perdure.store.database import Database
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.payloads import read_payloads
from perdure.store.tree import NodeSlots
from perdure.uap.checkpoint import CheckpointRecord
from perdure.uap.session_checkpoints import CURRENT
from perdure.uap.session_json import (
    SessionCheckpoint,
    SessionNode,
    SessionParts,
    checkpoint_json,
    head_json,
    node_json,
)
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, dumps, loads

_PAGE = 50
_NO_MESSAGES = b'"messages":[]'


async def session_document(database: Database, key: SessionKey) -> JSONObject:
    """The SessionJSON of a session, from its rows alone: the same rows give the same document.

    Its size is that of the thread times the steps of a run, since each checkpoint holds its run's messages so far.

    Raises:
        UnknownSession: there is none.
        DamagedSession: a body is missing or does not have its hash.
    """
    return cast(JSONObject, loads(await session_json_bytes(database, key)))


async def session_json_bytes(database: Database, key: SessionKey) -> bytes:
    """The document's bytes; see `session_document`."""
    return b"".join([piece async for piece in document_pieces(database, key)])


async def document_pieces(database: Database, key: SessionKey) -> AsyncGenerator[bytes]:
    """The document's bytes in order, a few messages or one checkpoint at a time; see `session_document`."""
    outline = await read_outline(database, key)
    parts = outline.parts()
    tree: JSONObject = {
        "rootId": next(node.id for node in outline.nodes if node.parent is None),
        "currentId": parts.current,
    }
    yield dumps(head_json(parts))[:-1] + b',"threadTree":' + dumps(tree)[:-1] + b',"nodes":['
    for place, node in enumerate(parts.nodes):
        if place:
            yield b","
        async for piece in _node_pieces(database, outline, node, parts):
            yield piece
    yield b']},"checkpoints":['
    reader = _Checkpoints(database, outline)
    for place, row in enumerate(outline.checkpoints):
        yield (b"," if place else b"") + await reader.read(row)
    yield b'],"metadata":' + dumps(parts.metadata) + b"}"


async def _node_pieces(
    database: Database, outline: Outline, node: SessionNode, parts: SessionParts
) -> AsyncGenerator[bytes]:
    kept = outline.thread(node.id).kept
    yield dumps(node_json(node, parts.nodes)).split(_NO_MESSAGES, 1)[0] + b'"messages":['
    last: list[JSONObject] = []
    for start in range(0, len(kept), _PAGE):
        slots = kept[start : start + _PAGE]
        wanted = {slot.id for slot in slots}
        stored = await read_messages(
            database, outline.row.key, node.id, first=slots[0].position, end=slots[-1].position + 1, discarded=True
        )
        bodies = [item.message.to_json() for item in stored if item.id in wanted]
        yield (b"," if start else b"") + b",".join(dumps(body) for body in bodies)
        last = bodies[-1:]
    updated = node_json(replace(node, messages=last), parts.nodes)
    cast(JSONObject, updated["thread"])["messages"] = []
    yield b"]" + dumps(updated).split(_NO_MESSAGES, 1)[1]


class _Checkpoints:
    """Reads checkpoints one after the other; the messages of one run are read once."""

    def __init__(self, database: Database, outline: Outline) -> None:
        self._database = database
        self._outline = outline
        self._key = outline.row.key
        self._run = ""
        self._stored: list[StoredMessage] = []

    async def read(self, row: CheckpointRow) -> bytes:
        """The bytes of a CheckpointJSON."""
        if row.imported_sha is not None:
            return await self._imported(row, row.imported_sha)
        record = converter.structure(row.record, CheckpointRecord)
        stored = await self._messages(record)
        thread = self._outline.thread(record.node)
        texts = {item.id: item.message.text for item in stored}
        unknown = [ident for ident in record.reasoning if ident not in texts]
        if unknown:  # reasoning of a run that came from elsewhere without its messages stands before the run
            before = await read_messages(self._database, self._key, record.node, end=record.start, discarded=True)
            texts |= {item.id: item.message.text for item in before}
        checkpoint = SessionCheckpoint(
            record,
            [item.message.to_json() for item in stored],
            thread.count_before(record.start),
            [texts[ident] for ident in record.reasoning],
            done=record.done or self._is_end(record, thread),
            current=row.id == self._outline.current,
            sub_agents=await self._sub_agents(record),
        )
        return dumps(checkpoint_json(self._key.session, checkpoint))

    def _is_end(self, record: CheckpointRecord, thread: NodeSlots) -> bool:
        """Whether the run has completed here, and with these messages."""
        if self._outline.ended.get(record.run) != record.step:
            return False
        later = any(slot.position >= record.position and slot.run == record.run for slot in thread.kept)
        gone = any(slot.hidden and not slot.scaffold for slot in thread.between(record.start, record.position))
        return not later and not gone

    async def _messages(self, record: CheckpointRecord) -> list[StoredMessage]:
        if record.run != self._run:
            self._run, self._stored = record.run, []
        first = self._stored[-1].position + 1 if self._stored else record.start
        if first < record.position:
            self._stored += await read_messages(
                self._database, self._key, record.node, first=first, end=record.position, discarded=True
            )
        return [item for item in self._stored if item.position < record.position and not item.unchecked]

    async def _imported(self, row: CheckpointRow, sha256: str) -> bytes:
        body = (await read_payloads(self._database, self._key, [sha256]))[sha256]
        if row.id != self._outline.current:
            return body
        document = cast("dict[str, Any]", loads(body))
        return dumps({**document, "metadata": {**document["metadata"], CURRENT: True}})

    async def _sub_agents(self, record: CheckpointRecord) -> dict[str, JSONObject]:
        found: dict[str, JSONObject] = {}
        for call, session in record.sub_agents.items():
            try:
                found[call] = await session_document(self._database, SessionKey(self._key.tenant, session))
            except UnknownSession:  # a sub-agent's session may have been deleted by hand
                continue
        return found
