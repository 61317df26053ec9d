"""What parked runs wait for. A wait is a row that is answered once, in time, and for what it was asked about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, func, literal, or_, select, tuple_, union_all

from perdure.errors import InvalidInput, UnknownWait, UserError, WaitAnswered, WaitStale
from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.store.messages import read_message
from perdure.store.payloads import read_payloads
from perdure.store.sessions import MAX_PAGE
from perdure.store.tables import sessions, waits
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue, loads
from perdure.upp.messages import AssistantMessage


@dataclass(frozen=True, slots=True)
class WaitRow:
    """An open or answered wait.

    Attributes:
        key: the session.
        id: the wait's id.
        run: the parked run.
        kind: "approval" (may this call run?), "outcome" (did a `once` tool have its effect?), "client_tool" (what was
            its result?), "payment" (what pays for the run?) or "remote" (what does an agent elsewhere answer?).
        asked: tool name, call id and the arguments; long arguments are a preview in lists. Of a payment amount, currency,
            schemes, reason and expires_at.
        asked_at: when.
        answer: what was answered, or None.
        answered_by: who, or None; None also if nobody did, as where it has expired.
        root: the session whose sub-agent's, or its sub-agent's, it is; the session itself if it is nobody's.
        path: the agent's path: the root agent's name and the names of the tools that led to it, joined by `/`.
        answered_at: when, or None.
        args_sha256: of an approval: hash of the arguments that it is about.
        expires_at: when it answers itself; None for never.
        message: row id of the message that has the call, and
        index: its place in it.
    """

    key: SessionKey
    id: str
    run: str
    kind: str
    asked: JSONObject
    asked_at: datetime
    answer: JSONObject | None
    answered_by: str | None
    root: str = ""
    path: str = ""
    answered_at: datetime | None = None
    args_sha256: str | None = None
    expires_at: datetime | None = None
    message: str = ""
    index: int = 0


async def open_waits(
    database: Database,
    tenant: str,
    session: str | None = None,
    *,
    before: tuple[datetime, str] | None = None,
    after: tuple[datetime, str] | None = None,
    limit: int | None = None,
) -> list[WaitRow]:
    """The waits that can be answered, oldest first: all of them, or one page.

    Args:
        database: the store.
        tenant: whose.
        session: only of this session and its sub-agents.
        before: time and id of the first wait of the page that comes next; this is the page before it.
        after: time and id of the last wait of the page before.
        limit: at most so many, 1 to `MAX_PAGE`; None for all.

    Raises:
        InvalidInput: a limit out of range, or both `before` and `after`.
    """
    if limit is not None and not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit is {limit}; it must be 1 to {MAX_PAGE}")
    if before is not None and after is not None:
        raise InvalidInput("give before or after, not both")
    query, place = _open(tenant, session), tuple_(waits.c.asked_at, waits.c.id)
    if before is not None:
        query = query.where(place < before).order_by(waits.c.asked_at.desc(), waits.c.id.desc())
    else:
        query = query.order_by(waits.c.asked_at, waits.c.id)
    if after is not None:
        query = query.where(place > after)
    async with database.reading(tenant) as connection:
        rows = (await connection.execute(query.limit(limit))).all()
    found = [_wait(row) for row in rows]
    return found[::-1] if before is not None else found


async def open_wait_of(database: Database, key: SessionKey, run: str, kind: str) -> WaitRow | None:
    """The wait of a kind that a run has and that can be answered; the oldest of several."""
    query = _select().where(
        waits.c.tenant_id == key.tenant, waits.c.session_id == key.session, waits.c.run_id == run, waits.c.kind == kind,
        waits.c.answered_at.is_(None), or_(waits.c.expires_at.is_(None), waits.c.expires_at > func.now()),
    )  # fmt: skip
    async with database.reading(key) as connection:
        row = (await connection.execute(query.order_by(waits.c.asked_at, waits.c.id).limit(1))).first()
    return None if row is None else _wait(row)


async def read_wait(database: Database, tenant: str, wait: str) -> WaitRow:
    """One wait by id.

    Raises:
        UnknownWait: there is none for this tenant.
    """
    query = _select().where(waits.c.tenant_id == tenant, waits.c.id == wait)
    async with database.reading(tenant) as connection:
        row = (await connection.execute(query)).first()
    if row is None:
        raise UnknownWait(f"no wait {wait}; `perdure waits list` shows the open ones")
    return _wait(row)


async def asked_arguments(database: Database, row: WaitRow) -> JSONValue:
    """The whole arguments that a wait is about.

    Raises:
        DamagedSession: they are stored no more.
    """
    if row.args_sha256 is not None:
        found = await read_payloads(database, row.key, [row.args_sha256])
        return loads(found[row.args_sha256])
    stored = await read_message(database, row.key, row.message)
    calls = stored.message.tool_calls if stored is not None and isinstance(stored.message, AssistantMessage) else None
    return calls[row.index].arguments if calls and row.index < len(calls) else row.asked.get("arguments")


async def answer_wait(
    database: Database, tenant: str, wait: str, answer: JSONObject, by: str, *, args_sha256: str | None = None
) -> WaitRow:
    """Answer a wait.

    Args:
        database: the store.
        tenant: whose.
        wait: its id.
        answer: what is answered.
        by: who answers.
        args_sha256: hash of the arguments that were looked at; of an approval it must be the wait's.

    Raises:
        UnknownWait: there is no such wait.
        WaitAnswered: it has been answered.
        WaitStale: its run has ended, it has expired, or its call's arguments are other ones now.
    """
    word = str(answer.get("decision") or answer.get("outcome") or "result")
    given: JSONObject = answer
    if database.keyring:  # sealed for its session, which only the wait's row names
        given = database.seal((await read_wait(database, tenant, wait)).key).answer(answer)
    made = await database.call_for_tenant(
        "answer_wait_v1", tenant, wait, escaped_json(given), escaped_json(by), word, args_sha256
    )
    kind = str(made["kind"])
    if kind != "won":
        raise _refusal(wait, kind, made)
    return await read_wait(database, tenant, wait)


def _open(tenant: str, session: str | None) -> Select[Any]:
    query = _select().where(
        waits.c.tenant_id == tenant,
        waits.c.answered_at.is_(None),
        or_(waits.c.expires_at.is_(None), waits.c.expires_at > func.now()),
    )
    if session is None:
        return query
    below = select(sessions.c.id).where(sessions.c.tenant_id == tenant, sessions.c.root_session == session)
    return query.where(waits.c.session_id.in_(union_all(select(literal(session)), below)))


def _select() -> Select[Any]:
    """Waits with the place of their session among those of its root."""
    on = (sessions.c.tenant_id == waits.c.tenant_id) & (sessions.c.id == waits.c.session_id)
    return select(waits, waits.c.index.label("place"), sessions.c.agent, sessions.c.root_session).join_from(
        waits, sessions, on
    )


def _wait(row: Row[Any]) -> WaitRow:
    return WaitRow(
        SessionKey(row.tenant_id, row.session_id),
        row.id,
        row.run_id,
        row.kind,
        row.asked,
        row.asked_at,
        row.answer,
        row.answered_by,
        row.root_session or row.session_id,
        row.agent,
        row.answered_at,
        row.args_sha256,
        row.expires_at,
        row.message_id,
        row.place,
    )


def _refusal(wait: str, kind: str, made: JSONObject) -> UserError:
    if kind == "unknown":
        return UnknownWait(f"no wait {wait}; `perdure waits list` shows the open ones")
    if kind == "answered":
        at = datetime.fromisoformat(str(made["at"])).isoformat(timespec="seconds")
        return WaitAnswered(f"wait {wait} was answered by {made['by']} at {at}; a wait is answered once")
    if kind == "expired":
        at = datetime.fromisoformat(str(made["at"])).isoformat(timespec="seconds")
        return WaitStale(f"wait {wait} expired at {at}; the run went on without an answer")
    if kind == "changed":
        return WaitStale(
            f"wait {wait} is not about these arguments any more, or its call has its result; "
            "look at what waits now: `perdure waits list`"
        )
    return WaitStale(f"the run of wait {wait} has ended; nothing waits for this answer")
