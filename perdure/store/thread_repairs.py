"""Writing what makes a thread sound: new result messages, and what is in their way out of it. Nothing is deleted.

What a message said stays under its id, for history names it by its hash: a result that is replaced leaves the thread and its
place, and a new row takes that. Where there is no place, what stands behind moves up by one, and so does whatever names
a position behind it; the event log keeps that, for a rebuild.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.inputs import emit
from perdure.store.message_rows import put_messages
from perdure.store.tables import events, messages, session_heads
from perdure.uap.events import run_event
from perdure.uap.ids import derive_id
from perdure.uap.session_key import SessionKey
from perdure.uap.sound_thread import Batch, Cure
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import Message, ToolResultMessage

REPAIRED = "thread.repaired"

_FAR = (
    1_000_000_000  # a position is unique at every moment, so what moves up goes by way of a place where nothing stands
)
_MOVE_UP = (
    """
update perdure.messages set position = position + :far
 where tenant_id = :tenant and session_id = :session and node_id = :node and position >= :at
""",
    """
update perdure.messages set position = position - :far + 1
 where tenant_id = :tenant and session_id = :session and node_id = :node and position >= :far
""",
    """
update perdure.thread_nodes set fork_index = fork_index + 1
 where tenant_id = :tenant and session_id = :session and parent_id = :node and fork_index >= :at
""",
    """
update perdure.runs set start_position = start_position + 1
 where tenant_id = :tenant and session_id = :session and node_id = :node and start_position >= :at
""",
    """
update perdure.checkpoints c set position = position + 1, record = (
    select json_object_agg(f.key, case when f.key = 'position' then to_json(c.position + 1) else f.value end)
      from json_each(c.record) f)
 where tenant_id = :tenant and session_id = :session and node_id = :node and position >= :at and imported_sha is null
""",
)


@dataclass(frozen=True, slots=True)
class _Stand:
    """Where a message stands, and whose it is."""

    position: int
    run: str | None
    step: int


async def write_cure(
    connection: AsyncConnection, key: SessionKey, node: str, epoch: int, cure: Cure, asked: Mapping[str, Message]
) -> None:
    """Make a thread sound.

    Args:
        connection: in a transaction that holds the session; nothing of it runs.
        key: the session.
        node: whose thread.
        epoch: the session's; there is another one afterwards, for what processes have cached is not true any more.
        cure: what is to be done.
        asked: the answers whose results are written, by row id.
    """
    moved: list[JSONValue] = []
    for batch in cure.batches:
        await _write_batch(connection, key, node, epoch, batch, asked[batch.answer], moved)
    for ident in cure.dropped:
        await _retire(connection, key, node, ident)
    head = update(session_heads).where(*_of(session_heads, key))
    await connection.execute(head.values(discards=session_heads.c.discards + 1))
    told: list[JSONValue] = list(cure.faults)
    await emit(connection, key, None, [run_event(REPAIRED, {"node": node, "moved": moved, "faults": told})])


async def _write_batch(
    connection: AsyncConnection,
    key: SessionKey,
    node: str,
    epoch: int,
    batch: Batch,
    answer: Message,
    moved: list[JSONValue],
) -> None:
    stand = await _stand(connection, key, batch.answer)
    if batch.instead:
        stand = await _stand(connection, key, batch.instead[0])
        for ident in batch.instead:
            await _retire(connection, key, node, ident)
        at = stand.position
    else:
        at = stand.position + 1
        if not await _free(connection, key, node, at):
            await _move_up(connection, key, node, at)
            moved.append(at)
    made = derive_id(batch.answer, "repaired", epoch)
    message = ToolResultMessage(batch.results, id=made, timestamp=answer.timestamp)
    await put_messages(connection, key, node, [(made, message)], first=at, run_id=stand.run, step=stand.step)


async def _stand(connection: AsyncConnection, key: SessionKey, ident: str) -> _Stand:
    query = select(messages.c.position, messages.c.run_id, messages.c.step).where(*_of(messages, key))
    row = (await connection.execute(query.where(messages.c.id == ident))).one()
    return _Stand(row.position, row.run_id, row.step)


async def _retire(connection: AsyncConnection, key: SessionKey, node: str, ident: str) -> None:
    """Take a message out of the thread, and off its place."""
    last = select(func.max(messages.c.position)).where(*_of(messages, key), messages.c.node_id == node)
    end = int(await connection.scalar(last) or 0) + 1
    gone = update(messages).where(*_of(messages, key), messages.c.id == ident)
    await connection.execute(gone.values(discarded=True, position=end))


async def _free(connection: AsyncConnection, key: SessionKey, node: str, position: int) -> bool:
    """Whether nothing of the thread stands at a place; what is no part of it makes room."""
    query = select(messages.c.id, messages.c.discarded).where(
        *_of(messages, key), messages.c.node_id == node, messages.c.position == position
    )
    row = (await connection.execute(query)).first()
    if row is not None and row.discarded:
        await _retire(connection, key, node, row.id)
    return row is None or bool(row.discarded)


async def _move_up(connection: AsyncConnection, key: SessionKey, node: str, at: int) -> None:
    values: dict[str, Any] = {**key._asdict(), "node": node, "at": at, "far": _FAR}
    for statement in _MOVE_UP:
        await connection.execute(text(statement), values)


@dataclass(frozen=True, slots=True)
class Move:
    """What stood in a node at a position or behind it has moved up by one, in the transaction that wrote this event."""

    seq: int
    node: str
    at: int


async def read_moves(connection: AsyncConnection, key: SessionKey) -> list[Move]:
    """All moves of a session, in order."""
    query = select(events.c.seq, events.c.data).where(*_of(events, key), events.c.type == REPAIRED)
    rows = (await connection.execute(query.order_by(events.c.seq))).all()
    return [Move(row.seq, str(row.data["node"]), int(at)) for row in rows for at in row.data["moved"]]


def _of(table: Any, key: SessionKey) -> tuple[Any, Any]:
    return table.c.tenant_id == key.tenant, table.c.session_id == key.session
