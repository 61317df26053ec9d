"""What actions wait for a person to say: answered once, in time, while it is still asked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, func, or_, select, tuple_, update

from perdure.errors import InvalidInput, UnknownWait, WaitAnswered, WaitStale
from perdure.store.database import Database
from perdure.store.sealing import seal_in
from perdure.store.sessions import MAX_PAGE
from perdure.store.stages.actions import one_action
from perdure.store.stages.held import HeldSession, hold, keep
from perdure.store.stages.rows import ActionRow, action_row, wait_of
from perdure.store.tables import stage_actions, stage_waits
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets

ANSWERED = "stage.wait_answered"


async def answer_wait(
    database: Database, key: SessionKey, action_id: str, answer: JSONObject, *, by: str, reason: str = ""
) -> ActionRow:
    """Answer what an action waits for.

    Args:
        database: the store.
        key: the session.
        action_id: of the action.
        answer: {"approved": bool, "arguments"?: object} to an approval; {"outcome": "done", "result": JSON} or
            {"outcome": "not_done"} to an outcome. Secrets that this process knows are taken out.
        by: who answers.
        reason: what they say of why.

    Returns:
        The action with its answered wait.

    Raises:
        UnknownWait: there is no such action, or it never waited.
        WaitAnswered: it has been answered.
        WaitStale: its time is over, or the action is settled.
        InvalidInput: the answer has another form.
    """
    async with database.transaction(key) as connection:
        held = await hold(connection, key)
        row = None if held is None else await one_action(connection, key, stage_actions.c.id == action_id)
        wait = None if held is None or row is None else await _last(held, row.ordinal)
        if held is None or row is None or wait is None:
            raise UnknownWait(f"action {action_id:.80} of session {key.session:.80} waits for nothing")
        _check_open(held, row, wait)
        given = checked_answer(wait.kind, known_secrets.json(answer))
        seal = seal_in(connection, key)
        values: dict[str, Any] = {
            "answer": seal.value(given), "answered_by": by, "answered_at": held.now,
            "reason": seal.value(known_secrets.text(reason) or None),
        }  # fmt: skip
        own = (*_of(held), stage_waits.c.ordinal == row.ordinal)
        place = (stage_waits.c.kind == wait.kind, stage_waits.c.attempt == wait.attempt)
        await connection.execute(update(stage_waits).where(*own, *place).values(values))
        word = given.get("outcome", given.get("approved"))
        held.tell(ANSWERED, {"action_id": row.id, "ordinal": row.ordinal, "kind": wait.kind, "answer": word, "by": by})
        await keep(held, held.session)
        answered = await one_action(connection, key, stage_actions.c.id == action_id)
        assert answered is not None, "it was there in this transaction"
        return answered


async def open_stage_waits(
    database: Database, tenant: str, *, after: tuple[datetime, str, int] | None = None, limit: int
) -> list[ActionRow]:
    """A page of a tenant's actions that wait for an answer, those that were asked about longest ago first.

    Args:
        database: the store.
        tenant: whose.
        after: when the last action of the page before was asked about, its session and its ordinal.
        limit: at most so many, 1 to `MAX_PAGE`.

    Raises:
        InvalidInput: a limit out of range.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit is {limit}; it must be 1 to {MAX_PAGE}")
    columns = stage_waits.c
    place = tuple_(columns.asked_at, columns.session_id, columns.ordinal)
    living = or_(columns.expires_at.is_(None), columns.expires_at > func.clock_timestamp())
    query = select(stage_waits).where(
        columns.tenant_id == tenant, columns.answered_at.is_(None), ~columns.closed, living
    )
    if after is not None:
        query = query.where(place > after)
    query = query.order_by(columns.asked_at, columns.session_id, columns.ordinal).limit(limit)
    async with database.transaction(tenant) as connection:
        waits = (await connection.execute(query)).all()
        places = tuple_(stage_actions.c.session_id, stage_actions.c.ordinal)
        wanted = [(wait.session_id, wait.ordinal) for wait in waits]
        own = select(stage_actions).where(stage_actions.c.tenant_id == tenant, places.in_(wanted))
        rows: list[Any] = list((await connection.execute(own)).all()) if wanted else []
    by_place = {(wait.session_id, wait.ordinal): wait_of(wait) for wait in waits}
    found = {(row.session_id, row.ordinal): action_row(row, by_place) for row in rows}
    return [found[place] for place in wanted if place in found]


def checked_answer(kind: str, answer: JSONObject) -> JSONObject:
    """An answer as it is kept.

    Raises:
        InvalidInput: it is none to a wait of this kind.
    """
    if kind == "approval":
        approved, arguments = answer.get("approved"), answer.get("arguments")
        if not isinstance(approved, bool) or not set(answer) <= {"approved", "arguments"}:
            raise InvalidInput('an approval is answered {"approved": true or false}, perhaps with "arguments"')
        if arguments is not None and not isinstance(arguments, dict):
            raise InvalidInput("the arguments of an approval must be an object")
        return answer
    outcome = answer.get("outcome")
    if outcome not in ("done", "not_done") or not set(answer) <= {"outcome", "result"}:
        raise InvalidInput('an outcome is answered {"outcome": "done", "result": ...} or {"outcome": "not_done"}')
    return answer


async def _last(held: HeldSession, ordinal: int) -> Row[Any] | None:
    """What an action was asked last; an outcome is asked after an approval."""
    query = select(stage_waits).where(*_of(held), stage_waits.c.ordinal == ordinal)
    return (await held.connection.execute(query.order_by(stage_waits.c.attempt.desc()).limit(1))).first()


def _check_open(held: HeldSession, row: ActionRow, wait: Row[Any]) -> None:
    if wait.answered_at is not None:
        at = wait.answered_at.isoformat(timespec="seconds")
        raise WaitAnswered(f"action {row.id} was answered by {wait.answered_by} at {at}; it is answered once")
    if wait.closed or row.state == "settled":
        raise WaitStale(f"action {row.id} is settled; nothing waits for this answer")
    if wait.expires_at is not None and wait.expires_at <= held.now:
        at = wait.expires_at.isoformat(timespec="seconds")
        raise WaitStale(f"the approval of action {row.id} expired at {at}; it was not run")


def _of(held: HeldSession) -> tuple[Any, Any]:
    return stage_waits.c.tenant_id == held.key.tenant, stage_waits.c.session_id == held.key.session
