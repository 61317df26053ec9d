"""The inbox. An input is a row before anything else happens; the row is the acknowledgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import Row, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput, KeyConflict, RunActive, SessionGone, UnknownSession
from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.store.opening import Opening, check_history, content_of, digest_of, lock_head, write_session
from perdure.store.tables import inputs, payloads, runs, session_heads, sessions
from perdure.uap.events import run_event
from perdure.uap.ids import derive_id, new_id, run_id
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey, checked_session_id
from perdure.upp.json_value import JSONObject, JSONValue, dumps, sha256_hex
from perdure.upp.messages import Message

KEEP_BYTES = 65536
RUNS = ("message", "resume")
"""The kinds of inputs that are runs; the others change the thread tree."""
CHANGED = "session.changed"
REFUSED = "session.change_refused"


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
        history: likewise: what was said before, oldest first.
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
    history: Sequence[Message] = ()

    @property
    def opening(self) -> Opening:
        """The session that this input opens."""
        return Opening(self.agent, self.agent_id, self.history, self.title, self.metadata)


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
    check_key(submission.key)
    for attempt in (1, 2):
        try:
            async with database.transaction() as connection:
                return await _submit(connection, submission)
        except IntegrityError:  # another process opened the session, or used the key, a moment ago: look again
            if attempt == 2:
                raise
    raise AssertionError("unreachable")


def check_key(key: str) -> None:
    """See that a key can be one. Raises InvalidInput."""
    if not 0 < len(key) <= 200 or not key.isprintable():
        raise InvalidInput("the idempotency key must be 1 to 200 printable characters")


async def _submit(connection: AsyncConnection, submission: Submission) -> Accepted:
    body = _body(submission)
    key = SessionKey(submission.tenant, submission.session or "")
    if submission.session is None:
        known = await _by_opening_key(connection, submission)
        if known is not None:
            return await again(connection, known, sha256_hex(body))
        key = SessionKey(submission.tenant, new_id())
    head = await lock_head(connection, key)
    if head is None:
        if submission.session is not None and not submission.create:
            checked_session_id(submission.session)  # an id of another form can only be that of an imported session
            raise UnknownSession(f"no session {key.session}; leave the session out to open one")
        head = await write_session(connection, key, submission.opening)
    if head.deleting:
        raise SessionGone(f"session {key.session} is being deleted and takes no more input")
    known = await by_key(connection, key, submission.key)
    if known is not None:
        return await again(connection, known, sha256_hex(body))
    await _check_owner(connection, key, submission.agent)
    if submission.history:
        await check_history(connection, key, submission.history)
    return await _append(connection, key, head, submission, sha256_hex(body))


def _body(submission: Submission) -> bytes:
    """What must be equal for two submits under one key to be the same: message content and options, not ids."""
    body: JSONObject = {"message": content_of(submission.message), "options": submission.options.to_json()}
    return dumps({**body, "history": digest_of(submission.history)} if submission.history else body)


async def _by_opening_key(connection: AsyncConnection, submission: Submission) -> Row[Any] | None:
    query = select(inputs).where(
        inputs.c.tenant_id == submission.tenant, inputs.c.key == submission.key, inputs.c.opens_session
    )
    return (await connection.execute(query)).first()


async def by_key(connection: AsyncConnection, key: SessionKey, name: str) -> Row[Any] | None:
    """The session's input of an idempotency key, or None."""
    query = select(inputs).where(
        inputs.c.tenant_id == key.tenant, inputs.c.session_id == key.session, inputs.c.key == name
    )
    return (await connection.execute(query)).first()


async def again(connection: AsyncConnection, known: Row[Any], body_sha256: str) -> Accepted:
    """The answer to an input that is known by its key.

    Raises:
        KeyConflict: the key was used with another input.
    """
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


async def _check_owner(connection: AsyncConnection, key: SessionKey, agent: str) -> None:
    """See that the session is the agent's, and that no run of its parent's has it.

    Raises:
        UnknownSession: it is another agent's.
        RunActive: it is a sub-agent's, and the run that called it is open.
    """
    query = select(sessions.c.agent, sessions.c.parent_session, sessions.c.parent_run)
    row = (
        await connection.execute(query.where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session))
    ).one()
    if row.agent != agent:
        raise UnknownSession(f"session {key.session} belongs to agent {row.agent!r}, not {agent!r}; use that agent")
    await check_parent(connection, key, row.parent_session, row.parent_run)


async def check_parent(connection: AsyncConnection, key: SessionKey, session: str | None, run: str | None) -> None:
    """See that no run of its parent's has a session.

    Raises:
        RunActive: it is a sub-agent's, and the run that called it is open.
    """
    if session is None or run is None:
        return
    query = select(runs.c.ended_at).where(
        runs.c.tenant_id == key.tenant, runs.c.session_id == session, runs.c.id == run
    )
    parent = (await connection.execute(query)).first()
    if parent is not None and parent.ended_at is None:
        raise RunActive(
            f"session {key.session} is a sub-agent's, and run {run} of session {session}, which called it, is open; "
            "submit to that session, or wait for the run's end",
            run_id=run,
        )


async def _append(
    connection: AsyncConnection, key: SessionKey, head: Row[Any], submission: Submission, body_sha256: str
) -> Accepted:
    ordinal, run = await next_place(connection, key, head)
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
    queued: JSONValue = {"s": "run", "t": "run.queued", "d": {"input": ordinal, "message": row_id}}
    last = await emit(connection, key, run, [queued])
    return Accepted(key, run, ordinal, "queued", repeated=False, paused=bool(head.paused), after_seq=last - 1)


async def next_place(connection: AsyncConnection, key: SessionKey, head: Row[Any]) -> tuple[int, str]:
    """Take the next ordinal of a session; with the id of the run that handles the input.

    A session from elsewhere has had runs there, whose ids must not come again: its own derive from a salt.
    """
    ordinal = int(head.next_ordinal)
    await connection.execute(
        update(session_heads)
        .where(session_heads.c.tenant_id == key.tenant, session_heads.c.session_id == key.session)
        .values(next_ordinal=ordinal + 1)
    )
    imported = await connection.scalar(
        select(sessions.c.imported).where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
    )
    salt = cast("dict[str, str]", imported or {}).get("salt")
    return ordinal, run_id(key.session if salt is None else salt, ordinal)


async def _keep(connection: AsyncConnection, key: SessionKey, sha256: str, body: bytes) -> None:
    row = {"tenant_id": key.tenant, "session_id": key.session, "sha256": sha256, "bytes": body}
    await connection.execute(upsert(payloads).values(row).on_conflict_do_nothing())


_STATUS = {"withdrawn": "cancelled", "refused": "failed"}


def waiting_status(state: str) -> str:
    """The status of a run that has not begun, by its input's state."""
    return _STATUS.get(state, state)


async def withdraw(database: Database, key: SessionKey, run: str) -> bool:
    """Take back an input that is still queued, with its run's terminal event; False if a run has begun of it."""
    async with database.transaction() as connection:
        if await lock_head(connection, key) is None:
            return False
        found = (
            await connection.execute(
                update(inputs)
                .where(
                    inputs.c.tenant_id == key.tenant,
                    inputs.c.session_id == key.session,
                    inputs.c.run_id == run,
                    inputs.c.state == "queued",
                )
                .values(state="withdrawn")
                .returning(inputs.c.kind, inputs.c.ordinal)
            )
        ).first()
        if found is None:
            return False
        if found.kind in RUNS:
            await emit(connection, key, run, [run_event("run.cancelled", {"withdrawn": True})])
        else:
            error: JSONObject = {"type": "InvalidInput", "message": f"the {found.kind} was withdrawn"}
            data: JSONObject = {"input": found.ordinal, "kind": found.kind, "error": error, "withdrawn": True}
            await emit(connection, key, None, [{**run_event(REFUSED, data), "n": outcome_note(found.ordinal)}])
        return True


def outcome_note(ordinal: int) -> str:
    """The name under which the event stands that says what became of a change."""
    return f"input:{ordinal}"


async def emit(connection: AsyncConnection, key: SessionKey, run: str | None, events: list[JSONValue]) -> int:
    """Append events to the session's log; the number of the last."""
    last = await connection.scalar(
        text("select perdure.emit_v1(:tenant, :session, :run, cast(:events as json))"),
        {"tenant": key.tenant, "session": key.session, "run": run, "events": escaped_json(events)},
    )
    assert last is not None, "emit_v1 returns the last number"
    return int(last)
