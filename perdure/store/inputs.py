"""The inbox. An input is a row before anything else happens; the row is the acknowledgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput, KeyConflict, SessionGone, UnknownSession
from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.store.tables import inputs, payloads, runs, session_heads, sessions, thread_nodes
from perdure.uap.ids import derive_id, new_id, root_node_id, run_id
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONValue, dumps, sha256_hex
from perdure.upp.messages import Message

KEEP_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Submission:
    """One input, as a client hands it in.

    Attributes:
        tenant: whose it is.
        agent: the agent's name.
        agent_id: the agent's id, for a session that this input opens.
        session: the session's id; None opens a session, the same one for the same key.
        create: open the named session if it does not exist.
        message: the user's message.
        key: idempotency key; the same key again is the same run.
        options: the run's options.
        not_before: take it no earlier.
        title: of a session that this input opens.
        metadata: likewise.
    """

    tenant: str
    agent: str
    agent_id: str
    message: Message
    key: str
    session: str | None = None
    create: bool = False
    options: RunOptions = RunOptions()
    not_before: datetime | None = None
    title: str | None = None
    metadata: Mapping[str, JSONValue] | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of an input.

    Attributes:
        key: the session.
        run: the run that handles it.
        ordinal: its place in the session's order.
        status: "queued" or the run's status today.
        repeated: it was known before under its idempotency key.
        paused: the session is paused, so it waits.
        after_seq: number of the last event before this input's own.
    """

    key: SessionKey
    run: str
    ordinal: int
    status: str
    repeated: bool
    paused: bool
    after_seq: int


async def submit(database: Database, submission: Submission) -> Accepted:
    """Store an input, opening its session if need be, in one transaction.

    Raises:
        InvalidInput: an idempotency key that cannot be used.
        KeyConflict: the key was used with another body.
        UnknownSession: the session does not exist, or belongs to another agent.
        SessionGone: the session is being deleted.
    """
    _check_key(submission.key)
    for attempt in (1, 2):
        try:
            async with database.transaction() as connection:
                return await _submit(connection, submission)
        except IntegrityError:  # another process opened the session, or used the key, a moment ago: look again
            if attempt == 2:
                raise
    raise AssertionError("unreachable")


def _check_key(key: str) -> None:
    if not 0 < len(key) <= 200 or not key.isprintable():
        raise InvalidInput("the idempotency key must be 1 to 200 printable characters")


async def _submit(connection: AsyncConnection, submission: Submission) -> Accepted:
    body = _body(submission)
    key = SessionKey(submission.tenant, submission.session or "")
    if submission.session is None:
        known = await _by_opening_key(connection, submission)
        if known is not None:
            return await _again(connection, known, sha256_hex(body))
        key = SessionKey(submission.tenant, new_id())
    head = await _head(connection, key)
    if head is None:
        if submission.session is not None and not submission.create:
            raise UnknownSession(f"no session {key.session}; leave the session out to open one")
        head = await _open_session(connection, key, submission)
    if head.deleting:
        raise SessionGone(f"session {key.session} is being deleted and takes no more input")
    known = await _by_key(connection, key, submission.key)
    if known is not None:
        return await _again(connection, known, sha256_hex(body))
    await _check_agent(connection, key, submission.agent)
    return await _append(connection, key, head, submission, sha256_hex(body))


def _body(submission: Submission) -> bytes:
    """What must be equal for two submits under one key to be the same: message content and options, not ids."""
    message = {name: value for name, value in submission.message.to_json().items() if name not in ("id", "timestamp")}
    return dumps({"message": message, "options": submission.options.to_json()})


async def _head(connection: AsyncConnection, key: SessionKey) -> Row[Any] | None:
    query = select(session_heads).where(
        session_heads.c.tenant_id == key.tenant, session_heads.c.session_id == key.session
    )
    return (await connection.execute(query.with_for_update())).first()


async def _open_session(connection: AsyncConnection, key: SessionKey, submission: Submission) -> Row[Any]:
    now = datetime.now(UTC)
    root = root_node_id(key.session)
    await connection.execute(
        upsert(sessions)
        .values(
            tenant_id=key.tenant, id=key.session, agent=submission.agent, agent_id=submission.agent_id,
            status="idle", title=submission.title, metadata=dict(submission.metadata or {}), current_node=root,
            usage={"inputTokens": 0, "outputTokens": 0}, created_at=now, updated_at=now,
        )
        .on_conflict_do_nothing()
    )  # fmt: skip
    await connection.execute(
        upsert(thread_nodes)
        .values(
            tenant_id=key.tenant, session_id=key.session, id=root, name="main", thread_id=root, metadata={},
            created_at=now,
        )
        .on_conflict_do_nothing()
    )  # fmt: skip
    head = {"tenant_id": key.tenant, "session_id": key.session, "touched_at": now}
    await connection.execute(upsert(session_heads).values(head).on_conflict_do_nothing())
    found = await _head(connection, key)
    assert found is not None, "the head row was inserted in this transaction, or by another that has committed"
    return found


async def _by_opening_key(connection: AsyncConnection, submission: Submission) -> Row[Any] | None:
    query = select(inputs).where(
        inputs.c.tenant_id == submission.tenant, inputs.c.key == submission.key, inputs.c.opens_session
    )
    return (await connection.execute(query)).first()


async def _by_key(connection: AsyncConnection, key: SessionKey, name: str) -> Row[Any] | None:
    query = select(inputs).where(
        inputs.c.tenant_id == key.tenant, inputs.c.session_id == key.session, inputs.c.key == name
    )
    return (await connection.execute(query)).first()


async def _again(connection: AsyncConnection, known: Row[Any], body_sha256: str) -> Accepted:
    if known.body_sha256 != body_sha256:
        raise KeyConflict(f"idempotency key {known.key!r} was used with another input; use a new key for a new input")
    key = SessionKey(known.tenant_id, known.session_id)
    run = (
        await connection.execute(
            select(runs.c.status, runs.c.first_seq).where(
                runs.c.tenant_id == key.tenant, runs.c.session_id == key.session, runs.c.id == known.run_id
            )
        )
    ).first()
    paused = await connection.scalar(
        select(session_heads.c.paused).where(
            session_heads.c.tenant_id == key.tenant, session_heads.c.session_id == key.session
        )
    )
    return Accepted(
        key, known.run_id, known.ordinal, run.status if run else waiting_status(known.state), repeated=True, paused=bool(paused),
        after_seq=run.first_seq - 1 if run else 0,
    )  # fmt: skip


async def _check_agent(connection: AsyncConnection, key: SessionKey, agent: str) -> None:
    query = select(sessions.c.agent).where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
    owner = await connection.scalar(query)
    if owner != agent:
        raise UnknownSession(f"session {key.session} belongs to agent {owner!r}, not {agent!r}; use that agent")


async def _append(
    connection: AsyncConnection, key: SessionKey, head: Row[Any], submission: Submission, body_sha256: str
) -> Accepted:
    ordinal = int(head.next_ordinal)
    run = run_id(key.session, ordinal)
    row_id = derive_id(run, "message", 0, 0)  # ours, so that one message object may be sent twice
    message = dumps(submission.message.to_json())
    sha256 = sha256_hex(message)
    if len(message) > KEEP_BYTES:
        await _keep(connection, key, sha256, message)
    options = submission.options.to_json()
    await connection.execute(
        insert(inputs).values(
            tenant_id=key.tenant, session_id=key.session, ordinal=ordinal, key=submission.key,
            opens_session=submission.session is None, body_sha256=body_sha256, kind="message",
            message_id=row_id, message=message if len(message) <= KEEP_BYTES else None,
            message_sha=sha256, options=dumps(options) if options else None, policy="enqueue", run_id=run,
            not_before=submission.not_before, state="queued", created_at=datetime.now(UTC),
        )
    )  # fmt: skip
    await connection.execute(
        update(session_heads)
        .where(session_heads.c.tenant_id == key.tenant, session_heads.c.session_id == key.session)
        .values(next_ordinal=ordinal + 1)
    )
    last = await _emit(
        connection, key, run, [{"s": "run", "t": "run.queued", "d": {"input": ordinal, "message": row_id}}]
    )
    return Accepted(key, run, ordinal, "queued", repeated=False, paused=bool(head.paused), after_seq=last - 1)


async def _keep(connection: AsyncConnection, key: SessionKey, sha256: str, body: bytes) -> None:
    row = {"tenant_id": key.tenant, "session_id": key.session, "sha256": sha256, "bytes": body}
    await connection.execute(upsert(payloads).values(row).on_conflict_do_nothing())


def waiting_status(state: str) -> str:
    """The status of a run that has not begun, by its input's state."""
    return "cancelled" if state == "withdrawn" else state


async def withdraw(database: Database, key: SessionKey, run: str) -> bool:
    """Take back an input that is still queued, with its run's terminal event; False if a run has begun of it."""
    async with database.transaction() as connection:
        if await _head(connection, key) is None:
            return False
        found = await connection.execute(
            update(inputs)
            .where(
                inputs.c.tenant_id == key.tenant,
                inputs.c.session_id == key.session,
                inputs.c.run_id == run,
                inputs.c.state == "queued",
            )
            .values(state="withdrawn")
        )
        if found.rowcount == 0:
            return False
        await _emit(connection, key, run, [{"s": "run", "t": "run.cancelled", "d": {"withdrawn": True}}])
        return True


async def _emit(connection: AsyncConnection, key: SessionKey, run: str, events: list[JSONValue]) -> int:
    last = await connection.scalar(
        text("select perdure.emit_v1(:tenant, :session, :run, cast(:events as json))"),
        {"tenant": key.tenant, "session": key.session, "run": run, "events": escaped_json(events)},
    )
    assert last is not None, "emit_v1 returns the last number"
    return int(last)
