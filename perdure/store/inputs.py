"""The inbox. An input is a row before anything else happens; the row is the acknowledgement."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import Row, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput, SessionGone, UnknownSession
from perdure.store.accepted import Accepted, again, by_key, by_opening_key
from perdure.store.database import Database
from perdure.store.opening import check_history, lock_head, write_drawn_session, write_session
from perdure.store.ownership import check_owner, check_task, stage_task
from perdure.store.policies import check_policy, check_room, count_before, find_target, queued_action
from perdure.store.sealing import seal_in
from perdure.store.submission import Submission
from perdure.store.tables import inputs, payloads, session_heads, sessions
from perdure.uap.events import run_event
from perdure.uap.ids import derive_id, new_id, run_id
from perdure.uap.session_key import SessionKey, checked_session_id
from perdure.upp.json_value import JSONObject, JSONValue, dumps, sha256_hex

KEEP_BYTES = 65536
MESSAGE = "message"
REWRITE = "rewrite"
"""A message whose thread is to be made first, see `perdure.store.rewrites`."""
RUNS = (MESSAGE, "resume", REWRITE)
"""The kinds of inputs that are runs; the others change the thread tree."""
CHANGED = "session.changed"
REFUSED = "session.change_refused"


async def submit(database: Database, submission: Submission) -> Accepted:
    """Store an input, opening its session if need be, in one transaction.

    Raises:
        InvalidInput: an idempotency key or a policy that cannot be used.
        KeyConflict: the key was used with another body.
        UnknownSession: the session does not exist.
        WrongAgent: the session belongs to another agent.
        SessionGone: the session is being deleted.
        RunActive: it is a sub-agent's and the run that called it is open; or the policy is `reject` and a run is active.
        QueueFull: as many inputs wait as may.
        SessionLimitReached: the session's runs have used all that they may.
    """
    check_key(submission.key)
    check_policy(submission.policy, submission.max_queue)
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
    body_sha256 = sha256_hex(submission.body)
    if submission.session is None:
        drawn = submission.key_is_drawn
        known = None if drawn else await by_opening_key(connection, submission.tenant, submission.key)
        if known is not None:
            return await again(connection, known, body_sha256)
        key = SessionKey(submission.tenant, new_id())
        head = await write_drawn_session(connection, key, submission.opening)
        return await _append(connection, key, head, submission, body_sha256)
    key = SessionKey(submission.tenant, submission.session)
    head = await lock_head(connection, key)
    if head is None:
        if not submission.create:
            checked_session_id(submission.session)  # an id of another form can only be that of an imported session
            raise UnknownSession(f"no session {key.session}; leave the session out to open one")
        head = await write_session(connection, key, submission.opening)
    elif submission.stage is not None:
        await check_task(connection, key, submission.key, submission.stage)
    if head.deleting:
        raise SessionGone(f"session {key.session} is being deleted and takes no more input")
    known = await by_key(connection, key, submission.key)
    if known is not None:
        return await again(connection, known, body_sha256)
    await check_owner(connection, key, submission.agent)
    if submission.history:
        await check_history(connection, key, submission.history)
    return await _append(connection, key, head, submission, body_sha256)


async def _append(
    connection: AsyncConnection, key: SessionKey, head: Row[Any], submission: Submission, body_sha256: str
) -> Accepted:
    target, waiting, ordinal, run = None, 0, 1, run_id(key.session, 1)
    if submission.session is not None:  # else it was opened a moment ago, and nothing is in it
        target = await find_target(connection, key, head, submission.policy)
        waiting = await check_room(connection, key, submission.max_queue)
        ordinal, run = await next_place(connection, key, head)
    row_id = derive_id(run, "message", 0, 0)  # ours, so that one message object may be sent twice
    message = dumps(submission.message.to_json())
    sha256 = sha256_hex(message)
    if len(message) > KEEP_BYTES:
        await _keep(connection, key, sha256, message)
    options, rewrite = submission.options.to_json(), submission.rewrite
    if rewrite is not None:
        options: JSONObject = {"options": options, "rewrite": rewrite.to_json()}
    values: dict[str, Any] = {
        "tenant_id": key.tenant, "session_id": key.session, "ordinal": ordinal, "key": submission.key,
        "opens_session": submission.session is None, "body_sha256": body_sha256,
        "kind": MESSAGE if rewrite is None else REWRITE,
        "message_id": row_id, "message": message if len(message) <= KEEP_BYTES else None, "message_sha": sha256,
        "options": dumps(options) if options else None, "policy": submission.policy, "target_run": target,
        "run_id": run, "not_before": submission.not_before, "state": "queued", "created_at": datetime.now(UTC),
        "trace": submission.trace,
    }  # fmt: skip
    if submission.stage is not None:  # else it stays NULL: None would be written as JSON's null
        values["detail"] = stage_task(*submission.stage)
    await connection.execute(insert(inputs).values(seal_in(connection, key).row(inputs, values)))
    queued: JSONObject = {"input": ordinal, "message": row_id}
    if target is not None:
        queued |= {"policy": submission.policy, "target": target}
    last = await emit(connection, key, run, [run_event("run.queued", queued)])
    starts = not (head.active_run or head.paused or waiting or submission.not_before)
    return Accepted(
        key=key,
        run=run,
        ordinal=ordinal,
        status="queued",
        repeated=False,
        paused=bool(head.paused),
        after_seq=last - 1,
        action=queued_action(submission.policy, target, starts=starts),
        target=target,
        place=await count_before(connection, key, ordinal, submission.policy, target) + 1 if waiting else 1,
    )


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
    row = seal_in(connection, key).row(payloads, row)
    await connection.execute(upsert(payloads).values(row).on_conflict_do_nothing())


def outcome_note(ordinal: int) -> str:
    """The name under which the event stands that says what became of a change."""
    return f"input:{ordinal}"


async def emit(connection: AsyncConnection, key: SessionKey, run: str | None, events: list[JSONValue]) -> int:
    """Append events to the session's log; the number of the last."""
    last = await connection.scalar(
        text("select perdure.emit_v1(:tenant, :session, :run, cast(:events as json))"),
        {
            "tenant": key.tenant,
            "session": key.session,
            "run": run,
            "events": seal_in(connection, key).event_text(events),
        },
    )
    assert last is not None, "emit_v1 returns the last number"
    return int(last)
