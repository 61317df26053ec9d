"""Taking the next action of a session: what needs no task is decided, done and answered here, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from perdure.errors import DamagedSession
from perdure.store.database import Database
from perdure.store.stages.held import HeldSession, hold, keep
from perdure.store.stages.rows import ActionRow, at_ms
from perdure.store.stages.settling import open_actions, put_action, settle
from perdure.uaip.decision import Decision, Held, Known, RunTask
from perdure.uaip.definition import TaskSpec
from perdure.uaip.machine import decide
from perdure.uaip.session import StageSession
from perdure.uap.session_key import SessionKey

TakenKind: TypeAlias = Literal["gone", "none", "paused", "settled", "task"]


@dataclass(frozen=True, slots=True)
class TakenAction:
    """What came of asking for the next action.

    Attributes:
        kind: "gone" (there is no such session), "none" (nothing is open), "paused" (something is, and the session is paused),
            "settled" (one action was, here), "task" (one is to be run).
        session: after it; None if there is none.
        ordinal: of the action, if there is one; and its
        action_id: id,
        action: kind,
        name: task or stage that it names.
        from_stage: where the session was.
        to_stage: where it is now.
        status: the reply's word, if it was settled.
        http: the reply's status, likewise.
        task: that is to be run, as the session is pinned to it.
        state: of its row: "running", or "waiting" if a person is asked.
        news: something was written.
    """

    kind: TakenKind
    session: StageSession | None = None
    ordinal: int = 0
    action_id: str = ""
    action: str = ""
    name: str = ""
    from_stage: str = ""
    to_stage: str = ""
    status: str = ""
    http: int = 0
    task: TaskSpec | None = None
    state: str = ""
    news: bool = False


async def take_action(database: Database, key: SessionKey) -> TakenAction:
    """Take the first action that is not settled. One whose task was taken before is given out again until it is settled.

    Raises:
        DamagedSession: the session's row says that the action was settled, and the action's that it was not.
    """
    async with database.transaction(key) as connection:
        held = await hold(connection, key)
        if held is None:
            return TakenAction("gone")
        found = await open_actions(held, limit=1)
        if not found:
            return TakenAction("none", held.session)
        (one,) = found
        decision = decide(held.definition, held.session, one.action.head(one.ordinal, at_ms(one.accepted_at)))
        if isinstance(decision, Known):
            raise DamagedSession(f"action {one.ordinal} of session {key.session} is open, and one after it is settled")
        if one.state == "running":
            return _given_out(held, one, task_of(held, one))
        if isinstance(decision, Held):
            return TakenAction("paused", held.session)
        if isinstance(decision, RunTask):
            return await _start(held, one, decision.task)
        return await _settled(held, one, decision)


async def _start(held: HeldSession, one: ActionRow, task: TaskSpec) -> TakenAction:
    """Give out an action's task; the first time its row says so."""
    if one.state != "queued":
        return _given_out(held, one, task)
    values: dict[str, Any] = {"state": "running", "stage": held.session.stage, "started_at": held.now}
    await put_action(held, one.ordinal, values)
    return _given_out(held, one, task, state="running")


async def _settled(held: HeldSession, one: ActionRow, decision: Decision) -> TakenAction:
    assert not isinstance(decision, Known | Held | RunTask), "these were looked at before"
    source = held.session.stage
    row = await settle(held, one, decision)
    await keep(held, held.session, reason=one.action.reason if held.session.has_ended else "")
    return _record(held, row, source)


def _record(held: HeldSession, row: ActionRow, source: str) -> TakenAction:
    assert row.reply is not None, "it is settled"
    return TakenAction(
        kind="settled",
        session=held.session,
        ordinal=row.ordinal,
        action_id=row.id,
        action=row.action.kind.value,
        name=row.action.name,
        from_stage=source,
        to_stage=held.session.stage,
        status=row.status,
        http=row.reply.status,
        state=row.state,
        news=True,
    )


def _given_out(held: HeldSession, one: ActionRow, task: TaskSpec, *, state: str = "") -> TakenAction:
    stage = held.session.stage
    return TakenAction(
        kind="task",
        session=held.session,
        ordinal=one.ordinal,
        action_id=one.id,
        action=one.action.kind.value,
        name=one.action.name,
        from_stage=stage,
        to_stage=stage,
        task=task,
        state=state or one.state,
    )


def task_of(held: HeldSession, one: ActionRow) -> TaskSpec:
    """The task of an action that was taken, as its session is pinned to it.

    Raises:
        DamagedSession: the definition has none of that name where it was taken.
    """
    stage = held.definition.stage(one.stage)
    task = None if stage is None else stage.task(one.action.name)
    if task is None:
        raise DamagedSession(
            f"action {one.ordinal} of session {held.key.session} is a task {one.action.name!r:.80} of stage {one.stage!r}, "
            "which its definition does not have"
        )
    return task
