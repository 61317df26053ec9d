"""Running an action's task: whether a try may begin, and what came of it.

A try is marked before its task runs. So a later one knows whether an earlier one may have had its effect, and runs only if
the task's effect class, or a person, says that it may.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from sqlalchemy import insert, select

from perdure.errors import InvalidInput
from perdure.store.database import Database
from perdure.store.stages.actions import one_action
from perdure.store.stages.held import HeldSession, hold, keep, write_events
from perdure.store.stages.rows import ActionRow, ActionWait, WaitKind, wait_of
from perdure.store.stages.settling import close_waits, put_action, settle
from perdure.store.stages.taking import task_of
from perdure.store.stages.values import read_values
from perdure.store.tables import stage_actions, stage_waits
from perdure.uaip.decision import RunTask
from perdure.uaip.definition import TaskSpec
from perdure.uaip.session import StageSession
from perdure.uaip.task_outcome import TaskRun
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.tools import HUMAN, ToolEffect

BegunKind: TypeAlias = Literal["gone", "settled", "unasked", "asked", "denied", "unknown", "done", "begun"]
STARTED = "stage.task_started"
WAITING = "stage.waiting"
_AGAIN = (ToolEffect.NONE, ToolEffect.IDEMPOTENT)


@dataclass(frozen=True, slots=True)
class BegunTask:
    """Whether a try of an action's task may run, and with what.

    Attributes:
        kind: "gone" (there is no such action any more); "settled" (it has its reply); "unasked" (a person must approve, and was
            not asked); "asked" (there is a wait without an answer); "denied" (a person said no, or nobody answered in time);
            "unknown" (an earlier try may have had its effect, and it may not be had twice); "done" (a person said that it
            had, and what its result was); "begun" (this try is marked, and is to run).
        row: the action.
        session: as it is.
        task: as the session is pinned to it.
        arguments: those that were approved, if somebody changed them; else the action's.
        values: of the shared state, if the try is begun or done.
        attempt: which try this is, if it is begun, from 1.
        news: something was written.
    """

    kind: BegunKind
    row: ActionRow | None = None
    session: StageSession | None = None
    task: TaskSpec | None = None
    arguments: JSONObject = field(default_factory=dict[str, JSONValue])
    values: JSONObject = field(default_factory=dict[str, JSONValue])
    attempt: int = 0
    news: bool = False


@dataclass(frozen=True, slots=True)
class SettledTask:
    """A task whose action is settled.

    Attributes:
        session: after it; None if there is no such session.
        row: the action with its reply; None likewise.
        won: it was settled by this call, not by another before it.
        news: something was written.
    """

    session: StageSession | None
    row: ActionRow | None
    won: bool
    news: bool


async def begin_task(database: Database, key: SessionKey, ordinal: int, *, try_id: str) -> BegunTask:
    """Mark a try of an action's task, if it may run.

    Args:
        database: the store.
        key: the session.
        ordinal: of an action that was taken.
        try_id: unique for each try, and the same if this call is repeated for it.

    Raises:
        InvalidInput: nobody has taken the action.
    """
    async with database.transaction(key) as connection:
        held = await hold(connection, key)
        row = None if held is None else await _find(held, ordinal)
        if held is None or row is None:
            return BegunTask("gone")
        if row.state == "settled":
            return BegunTask("settled", row, held.session)
        task, waits = task_of(held, row), {} if row.wait is None else await _waits(held, ordinal)
        kind = _standing(row, task, waits, held.now, try_id)
        if kind not in ("begun", "done"):
            return BegunTask(kind, row, held.session, task)
        before = row.attempt
        if kind == "begun" and row.try_id != try_id:
            row = await _mark(held, row, try_id)
        arguments = _arguments(waits) or row.action.arguments
        values = await read_values(connection, key)
        return BegunTask(kind, row, held.session, task, arguments, values, row.attempt, news=row.attempt != before)


async def ask_wait(
    database: Database, key: SessionKey, ordinal: int, kind: WaitKind, *, timeout_s: float | None = None
) -> ActionWait | None:
    """Have an action wait for a person. What was asked before about the same is not asked again.

    Args:
        database: the store.
        key: the session.
        ordinal: of an action that was taken.
        kind: "approval" of the call, or "outcome" of its last try.
        timeout_s: seconds after which it is given up; None for never.

    Returns:
        The wait, which may have its answer; None if there is no such action, or it is settled.
    """
    async with database.transaction(key) as connection:
        held = await hold(connection, key)
        row = None if held is None else await _find(held, ordinal)
        if held is None or row is None or row.state == "settled":
            return None
        place = (kind, row.attempt if kind == "outcome" else 0)
        known = (await _waits(held, ordinal)).get(place)
        if known is not None:
            return known
        expires_at = None if timeout_s is None else held.now + timedelta(seconds=timeout_s)
        own: dict[str, Any] = {"tenant_id": key.tenant, "session_id": key.session, "ordinal": ordinal}
        asked = {**own, "kind": kind, "attempt": place[1], "asked_at": held.now, "expires_at": expires_at}
        await connection.execute(insert(stage_waits).values(asked))
        await put_action(held, ordinal, {"state": "waiting"})
        held.tell(WAITING, {**row.told, "kind": kind})
        await write_events(held)
        return ActionWait(kind, held.now, expires_at)


async def settle_task(database: Database, key: SessionKey, ordinal: int, run: TaskRun) -> SettledTask:
    """Store what came of an action's task: values, reply and events, unless it was settled before.

    Args:
        database: the store.
        key: the session.
        ordinal: of an action that was taken.
        run: what came of it; secrets that this process knows are taken out.

    Raises:
        InvalidInput: its changes were made on another version of the state than the session's.
    """
    async with database.transaction(key) as connection:
        held = await hold(connection, key)
        row = None if held is None else await _find(held, ordinal)
        if held is None or row is None:
            return SettledTask(None if held is None else held.session, None, won=False, news=False)
        if row.state == "settled":
            return SettledTask(held.session, row, won=False, news=False)
        settled = await settle(held, row, RunTask(row.stage, task_of(held, row)), run)
        await keep(held, held.session)
        return SettledTask(held.session, settled, won=True, news=True)


def _standing(
    row: ActionRow, task: TaskSpec, waits: dict[tuple[str, int], ActionWait], now: datetime, try_id: str
) -> BegunKind:
    """Whether a try may run, by what the rows say."""
    if task.approval == HUMAN:
        approval = waits.get(("approval", 0))
        if approval is None:
            return "unasked"
        if approval.answer is None:
            return "asked" if approval.expires_at is None or approval.expires_at > now else "denied"
        if approval.answer.get("approved") is not True:
            return "denied"
    if not row.attempt or row.try_id == try_id or task.effect in _AGAIN:
        return "begun"
    outcome = waits.get(("outcome", row.attempt))
    if outcome is None:
        return "unknown"
    if outcome.answer is None:
        return "asked"
    return "done" if outcome.answer.get("outcome") == "done" else "begun"


def _arguments(waits: dict[tuple[str, int], ActionWait]) -> JSONObject | None:
    """The arguments that somebody approved in the place of the action's."""
    approval = waits.get(("approval", 0))
    given = None if approval is None or approval.answer is None else approval.answer.get("arguments")
    return given if isinstance(given, dict) else None


async def _mark(held: HeldSession, row: ActionRow, try_id: str) -> ActionRow:
    """Have the action's row say that a try has begun; what was answered before is taken by it."""
    attempt = row.attempt + 1
    await put_action(held, row.ordinal, {"state": "running", "attempt": attempt, "try_id": try_id})
    if row.wait is not None:
        await close_waits(held, row.ordinal)
    held.tell(STARTED, {**row.told, "attempt": attempt})
    await write_events(held)
    return replace(row, state="running", attempt=attempt, try_id=try_id)


async def _find(held: HeldSession, ordinal: int) -> ActionRow | None:
    """The action of that ordinal, or None.

    Raises:
        InvalidInput: nobody has taken it.
    """
    row = await one_action(held.connection, held.key, stage_actions.c.ordinal == ordinal)
    if row is not None and row.state == "queued":
        raise InvalidInput(f"action {ordinal} of session {held.key.session} was not taken; take_action gives it out")
    return row


async def _waits(held: HeldSession, ordinal: int) -> dict[tuple[str, int], ActionWait]:
    """An action's waits, by kind and attempt."""
    query = select(stage_waits).where(
        stage_waits.c.tenant_id == held.key.tenant,
        stage_waits.c.session_id == held.key.session,
        stage_waits.c.ordinal == ordinal,
    )
    rows = (await held.connection.execute(query)).all()
    return {(row.kind, row.attempt): wait_of(row) for row in rows}
