"""Storing a session that came from elsewhere: all of its rows in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput
from perdure.store.database import Database
from perdure.store.inputs import emit
from perdure.store.message_rows import put_messages, put_payloads
from perdure.store.opening import lock_head
from perdure.store.sealing import seal_in
from perdure.store.session_labels import label_sealed
from perdure.store.tables import checkpoints, session_heads, sessions, thread_nodes
from perdure.uap.events import run_event
from perdure.uap.ids import derive_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, sha256_hex
from perdure.upp.messages import Message

IMPORTED = "session.imported"


@dataclass(frozen=True, slots=True)
class ImportedNode:
    """A thread node: its row's columns, and its messages, oldest first."""

    values: dict[str, Any]
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class ImportedCheckpoint:
    """A checkpoint: its row's columns, and its CheckpointJSON."""

    values: dict[str, Any]
    body: bytes


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A session as rows.

    Attributes:
        agent: the name of the agent that goes on with it.
        agent_id: the id of the one that it was begun with.
        metadata: the session's own.
        current: id of the current node.
        created_at: when it was opened.
        updated_at: when it was last changed.
        imported: what rows cannot say: see `perdure.runtime.session_import`.
        nodes: parents before children.
        checkpoints: oldest first.
    """

    agent: str
    agent_id: str
    metadata: JSONObject
    current: str
    created_at: datetime
    updated_at: datetime
    imported: JSONObject
    nodes: Sequence[ImportedNode]
    checkpoints: Sequence[ImportedCheckpoint]


async def store_session(database: Database, key: SessionKey, session: ImportedSession) -> None:
    """Write a session whole, or nothing.

    Raises:
        InvalidInput: there is one of that id.
    """
    async with database.transaction() as connection:
        await _write_session(connection, key, session)
        seal = seal_in(connection, key)
        for node in session.nodes:
            own = {"tenant_id": key.tenant, "session_id": key.session}
            values = {name: value for name, value in node.values.items() if value is not None}
            await connection.execute(insert(thread_nodes).values(**own, **seal.row(thread_nodes, values)))
            ids = [derive_id(key.session, "imported", node.values["id"], place) for place in range(len(node.messages))]
            await put_messages(connection, key, node.values["id"], list(zip(ids, node.messages, strict=True)))
        for checkpoint in session.checkpoints:
            await put_payloads(connection, key, [checkpoint.body])
            await connection.execute(
                insert(checkpoints).values(
                    tenant_id=key.tenant, session_id=key.session, temporal_run_id="",
                    imported_sha=sha256_hex(checkpoint.body), **seal.row(checkpoints, checkpoint.values),
                )
            )  # fmt: skip
        told: JSONObject = {"current": session.current, "checkpoints": len(session.checkpoints)}
        await emit(connection, key, None, [run_event(IMPORTED, told)])


async def _write_session(connection: AsyncConnection, key: SessionKey, session: ImportedSession) -> None:
    there = select(sessions.c.id).where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
    if await connection.scalar(there) is not None:
        raise InvalidInput(f"id: there is a session {key.session!r}; it is not written over")
    if await lock_head(connection, key, stage=True) is not None:
        raise InvalidInput(f"id: there is a stage session {key.session!r}; it is not written over")
    seal = seal_in(connection, key)
    await connection.execute(
        insert(sessions).values(
            tenant_id=key.tenant, id=key.session, agent=session.agent, agent_id=session.agent_id, status="idle",
            metadata=seal.value(session.metadata), current_node=session.current, usage={"inputTokens": 0, "outputTokens": 0},
            created_at=session.created_at, updated_at=session.updated_at, imported=seal.value(session.imported),
        )
    )  # fmt: skip
    await label_sealed(connection, key, session.metadata)
    head = {"tenant_id": key.tenant, "session_id": key.session, "touched_at": datetime.now(UTC)}
    await connection.execute(insert(session_heads).values(head))
