"""Opening a session: its row, its head, its root node, and what was said before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import Row, select
from sqlalchemy.dialects.postgresql import Insert
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput, KeyConflict, SessionGone, WrongAgent
from perdure.store.database import Database
from perdure.store.message_rows import put_messages
from perdure.store.sealing import seal_in
from perdure.store.session_labels import label_sealed
from perdure.store.tables import session_heads, sessions, thread_nodes
from perdure.uap.ids import derive_id, root_node_id
from perdure.uap.session_key import SessionKey
from perdure.uap.session_limits import SessionLimits
from perdure.upp.json_value import JSONObject, JSONValue, dumps, sha256_hex
from perdure.upp.messages import Message

_HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Opening:
    """A session that is to be opened.

    Attributes:
        agent: the agent's name.
        agent_id: the agent's id.
        history: what was said before, oldest first: the beginning of the root's thread.
        title: for lists.
        metadata: the user's own.
        limits: what its runs may use together.
    """

    agent: str
    agent_id: str
    history: Sequence[Message] = ()
    title: str | None = None
    metadata: Mapping[str, JSONValue] | None = None
    limits: SessionLimits | None = None


async def open_session(database: Database, key: SessionKey, opening: Opening) -> None:
    """Open a session, or find it open, in one transaction.

    Raises:
        WrongAgent: it is there and belongs to another agent.
        KeyConflict: it is there and was opened with another history.
        SessionGone: it is being deleted.
    """
    async with database.transaction(key) as connection:
        head = await lock_head(connection, key) or await write_session(connection, key, opening)
        if head.deleting:
            raise SessionGone(f"session {key.session} is being deleted and takes no more input")
        query = select(sessions.c.agent).where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
        owner = await connection.scalar(query)
        if owner != opening.agent:
            raise WrongAgent(f"session {key.session} belongs to agent {owner!r}, not {opening.agent!r}; use that agent")
        if opening.history:
            await check_history(connection, key, opening.history)


async def lock_head(connection: AsyncConnection, key: SessionKey, *, stage: bool = False) -> Row[Any] | None:
    """The session's head row, locked until the transaction ends; None if there is no such session.

    Args:
        connection: of the transaction.
        key: the session.
        stage: it is a stage session; by default an agent's.
    """
    query = select(session_heads).where(
        session_heads.c.tenant_id == key.tenant,
        session_heads.c.session_id == key.session,
        session_heads.c.stage.is_(stage),
    )
    return (await connection.execute(query.with_for_update())).first()


async def write_session(connection: AsyncConnection, key: SessionKey, opening: Opening) -> Row[Any]:
    """Write the rows of a new session, unless another writer is first; its head row, locked.

    Raises:
        InvalidInput: a stage session has its id.
    """
    session, node, head = _rows(connection, key, opening)
    both = session.on_conflict_do_nothing().returning(sessions.c.id).add_cte(node.on_conflict_do_nothing().cte("node"))
    if (await connection.execute(both)).first() is not None:
        await _write_rest(connection, key, opening)
    made = (await connection.execute(head.on_conflict_do_nothing().returning(*session_heads.c))).first()
    found = made or await lock_head(connection, key)
    if found is None:
        raise InvalidInput(f"session {key.session} is a stage session; no agent can have it, leave the session out")
    return found


async def write_drawn_session(connection: AsyncConnection, key: SessionKey, opening: Opening) -> Row[Any]:
    """The same of a session whose id was drawn a moment ago, so that nobody can be first; its first ordinal is taken."""
    session, node, head = _rows(connection, key, opening)
    rows = head.values(next_ordinal=2).returning(*session_heads.c).add_cte(session.cte("session"), node.cte("node"))
    made = (await connection.execute(rows)).one()
    await _write_rest(connection, key, opening)
    return made


def _rows(connection: AsyncConnection, key: SessionKey, opening: Opening) -> tuple[Insert, Insert, Insert]:
    """What writes the session's row, its root node and its head row."""
    now = datetime.now(UTC)
    root = root_node_id(key.session)
    imported: JSONObject | None = {_HISTORY: digest_of(opening.history)} if opening.history else None
    seal = seal_in(connection, key)
    own: dict[str, Any] = {} if imported is None else {"imported": seal.value(imported)}
    if opening.limits is not None and opening.limits.to_json():
        own["limits"] = opening.limits.to_json()
    session = upsert(sessions).values(
        tenant_id=key.tenant, id=key.session, agent=opening.agent, agent_id=opening.agent_id,
        status="idle", title=seal.value(opening.title), metadata=seal.value(dict(opening.metadata or {})),
        current_node=root,
        usage={"inputTokens": 0, "outputTokens": 0}, created_at=now, updated_at=now, **own,
    )  # fmt: skip
    node = upsert(thread_nodes).values(
        tenant_id=key.tenant, session_id=key.session, id=root, name=seal.value("main"), thread_id=root,
        metadata=seal.value({}), created_at=now,
    )  # fmt: skip
    return session, node, upsert(session_heads).values(tenant_id=key.tenant, session_id=key.session, touched_at=now)


async def _write_rest(connection: AsyncConnection, key: SessionKey, opening: Opening) -> None:
    """Write what was said before, and the labels."""
    root = root_node_id(key.session)
    rows = [(derive_id(root, "history", place), message) for place, message in enumerate(opening.history)]
    await put_messages(connection, key, root, rows)
    await label_sealed(connection, key, opening.metadata or {})


async def check_history(connection: AsyncConnection, key: SessionKey, history: Sequence[Message]) -> None:
    """See that a session was opened with this history.

    Raises:
        KeyConflict: it was not.
    """
    query = select(sessions.c.imported).where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
    opened = cast("dict[str, str]", await connection.scalar(query) or {}).get(_HISTORY)
    if opened != digest_of(history):
        raise KeyConflict(
            f"session {key.session} is there and was not opened with this history; leave the history out to go on in it"
        )


def digest_of(history: Sequence[Message]) -> str:
    """A hash of what was said, whatever ids and times its messages have."""
    return sha256_hex(dumps([content_of(message) for message in history]))


def content_of(message: Message) -> JSONObject:
    """What a message says, without its id and time."""
    return {name: value for name, value in message.to_json().items() if name not in ("id", "timestamp")}
