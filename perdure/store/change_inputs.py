"""Inputs that are no message: changes of the thread tree, and runs that go on from a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from sqlalchemy import ColumnElement, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput, SessionGone
from perdure.store.accepted import Accepted, again, by_key
from perdure.store.database import Database
from perdure.store.events import Event
from perdure.store.inputs import CHANGED, REFUSED, check_key, emit, next_place, outcome_note
from perdure.store.opening import lock_head
from perdure.store.ownership import check_parent
from perdure.store.policies import ENQUEUE, QUEUED, STARTED, count_before
from perdure.store.sealing import seal_in
from perdure.store.session_limits import check_limits
from perdure.store.tables import events, inputs, sessions
from perdure.uap.events import run_event
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey, unknown_session
from perdure.upp.json_value import JSONObject, dumps, loads, sha256_hex

RESUME = "resume"
_DETAIL = {
    "fork": ({"node"}, {"name", "id"}),
    "checkout": ({"node"}, set[str]()),
    "merge": ({"source", "target"}, set[str]()),
    "restore": ({"checkpoint"}, set[str]()),
    RESUME: (set[str](), {"checkpoint"}),
}
"""What each kind needs, and what it may have besides."""
_NO_BODY = b"{}"


@dataclass(frozen=True, slots=True)
class Change:
    """One input that is no message, as a client hands it in.

    Attributes:
        kind: "fork", "checkout", "merge", "restore" or "resume".
        detail: its arguments, all of them text.
        key: idempotency key; the same key again is the same change.
        options: of the run that `resume` goes on with.
    """

    kind: str
    detail: JSONObject
    key: str
    options: RunOptions | None = None

    def check(self) -> None:
        """See that it can be one. Raises InvalidInput."""
        if self.kind not in _DETAIL:
            raise InvalidInput(f"a change is one of {', '.join(_DETAIL)}, not {self.kind[:40]!r}")
        needed, more = _DETAIL[self.kind]
        missing, unknown = needed - self.detail.keys(), self.detail.keys() - needed - more
        if missing or unknown:
            names = ", ".join(sorted(missing or unknown))
            raise InvalidInput(f"{self.kind} {'needs' if missing else 'does not take'} {names}")
        for name, value in self.detail.items():
            if not isinstance(value, str):
                raise InvalidInput(f"{self.kind}'s {name} must be text")


async def submit_change(database: Database, key: SessionKey, change: Change) -> Accepted:
    """Store a change, in one transaction; it is made when its turn comes.

    Raises:
        InvalidInput: a kind, an argument or a key that cannot be used.
        KeyConflict: the key was used with another input.
        UnknownSession: the session does not exist.
        SessionGone: it is being deleted.
        RunActive: it is a sub-agent's, and the run that called it is open.
        SessionLimitReached: it would be a run, and the session's runs have used all that they may.
    """
    check_key(change.key)
    change.check()
    for attempt in (1, 2):
        try:
            async with database.transaction(key) as connection:
                return await _submit(connection, key, change)
        except IntegrityError:  # another process used the key a moment ago: look again
            if attempt == 2:
                raise
    raise AssertionError("unreachable")


async def _submit(connection: AsyncConnection, key: SessionKey, change: Change) -> Accepted:
    options = None if change.options is None else change.options.to_json()
    body = sha256_hex(dumps({"kind": change.kind, "detail": change.detail, "options": options or {}}))
    head = await lock_head(connection, key)
    if head is None:
        raise unknown_session(key.session)
    if head.deleting:
        raise SessionGone(f"session {key.session} is being deleted and takes no more input")
    known = await by_key(connection, key, change.key)
    if known is not None:
        return await again(connection, known, body)
    columns = select(sessions.c.parent_session, sessions.c.parent_run, sessions.c.limits)
    parent = (
        await connection.execute(columns.where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session))
    ).one()
    await check_parent(connection, key, parent.parent_session, parent.parent_run)
    if change.kind == RESUME and parent.limits is not None:
        await check_limits(connection, key)
    ordinal, run = await next_place(connection, key, head)
    seal = seal_in(connection, key)
    await connection.execute(
        insert(inputs).values(
            tenant_id=key.tenant, session_id=key.session, ordinal=ordinal, key=change.key, opens_session=False,
            body_sha256=body, kind=change.kind, message_id="", message=seal.body(_NO_BODY),
            message_sha=sha256_hex(_NO_BODY), options=seal.body(dumps(options)) if options else None, policy="enqueue",
            run_id=run, state="queued", created_at=datetime.now(UTC), detail=seal.detail(change.detail),
        )
    )  # fmt: skip
    data: JSONObject = {"input": ordinal, "kind": change.kind}
    if change.kind == RESUME:
        last = await emit(connection, key, run, [run_event("run.queued", data)])
    else:
        last = await emit(connection, key, None, [run_event("session.change_queued", data)])
    action = QUEUED if head.active_run or head.paused else STARTED
    return Accepted(
        key, run, ordinal, "queued", repeated=False, paused=bool(head.paused), after_seq=last - 1, action=action,
        place=await count_before(connection, key, ordinal, ENQUEUE, None) + 1,
    )  # fmt: skip


async def read_outcome(database: Database, key: SessionKey, ordinal: int) -> Event | None:
    """The event that says what became of a change; None if its turn has not come."""
    query = select(events).where(
        events.c.tenant_id == key.tenant,
        events.c.session_id == key.session,
        events.c.note == outcome_note(ordinal),
    )
    async with database.reading(key) as connection:
        row = (await connection.execute(query)).first()
    if row is None:
        return None
    return Event(key.session, row.seq, row.run_id, row.step, row.attempt, row.source, row.type, row.data, row.at)


@dataclass(frozen=True, slots=True)
class Turn:
    """A change whose turn has come.

    Attributes:
        ordinal: its place.
        kind: see `Change`; likewise `detail`.
        run: the id of the run that an input at its place is.
        epoch: how often the session's thread has lost messages.
    """

    ordinal: int
    kind: str
    detail: JSONObject
    run: str
    epoch: int


async def take_turn(connection: AsyncConnection, key: SessionKey, ordinal: int) -> Turn | None:
    """A change that is to be made now, with the session locked; None if somebody was here before."""
    head = await lock_head(connection, key)
    if head is None or head.deleting or head.paused or head.active_run is not None:
        return None
    query = select(inputs).where(*_of(key), inputs.c.ordinal == ordinal, inputs.c.state == "queued")
    row = (await connection.execute(query)).first()
    return None if row is None else Turn(row.ordinal, row.kind, row.detail, row.run_id, head.discards)


async def note_made(
    connection: AsyncConnection, key: SessionKey, turn: Turn, data: JSONObject, detail: JSONObject
) -> None:
    """Say that a change is made; its row remembers what it came to.

    Args:
        connection: of the transaction that made it.
        key: the session.
        turn: the change.
        data: of the event.
        detail: added to that of the row.
    """
    event = {**run_event(CHANGED, {"input": turn.ordinal, "kind": turn.kind, **data}), "n": outcome_note(turn.ordinal)}
    seq = await emit(connection, key, turn.run if turn.kind == RESUME else None, [event])
    await _settle(connection, key, turn, state="taken", detail={**turn.detail, "seq": seq, **detail})


async def name_input(connection: AsyncConnection, key: SessionKey, turn: Turn, message: str, sha256: str) -> JSONObject:
    """Let the row of a run that goes on name the message that it began with; returns the run's options."""
    await _settle(connection, key, turn, message_id=message, message_sha=sha256)
    packed = await connection.scalar(select(inputs.c.options).where(*_of(key), inputs.c.ordinal == turn.ordinal))
    return cast(JSONObject, loads(packed)) if packed else {}


async def refuse(connection: AsyncConnection, key: SessionKey, turn: Turn, error: JSONObject) -> None:
    """Say that a change cannot be made. A run that would have gone on ends as failed."""
    run = turn.run if turn.kind == RESUME else None
    told = run_event(REFUSED, {"input": turn.ordinal, "kind": turn.kind, "error": error})
    ended = [] if run is None else [run_event("run.failed", {"error": error})]
    await emit(connection, key, run, [{**told, "n": outcome_note(turn.ordinal)}, *ended])
    await _settle(connection, key, turn, state="refused", detail={**turn.detail, "error": error})


async def read_base(database: Database, key: SessionKey, run: str) -> JSONObject | None:
    """Where a run that goes on from a checkpoint began, as Progress; None for any other run."""
    query = select(inputs.c.detail).where(*_of(key), inputs.c.run_id == run, inputs.c.kind == RESUME)
    async with database.reading(key) as connection:
        detail = cast("JSONObject | None", await connection.scalar(query))
    return cast("JSONObject | None", (detail or {}).get("progress"))


async def _settle(connection: AsyncConnection, key: SessionKey, turn: Turn, **values: object) -> None:
    sealed = seal_in(connection, key).row(inputs, values)
    await connection.execute(update(inputs).where(*_of(key), inputs.c.ordinal == turn.ordinal).values(**sealed))


def _of(key: SessionKey) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return inputs.c.tenant_id == key.tenant, inputs.c.session_id == key.session
