"""Settling actions: what one came to, its reply, the session after it and what happened, all at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import select, update

from perdure.protocols.uaip.reply import Reply, settled
from perdure.store.sealing import seal_in
from perdure.store.stages.held import HeldSession
from perdure.store.stages.rows import ActionRow, action_row, at_ms
from perdure.store.stages.values import write_values
from perdure.store.tables import stage_actions, stage_waits
from perdure.uaip.action import Action
from perdure.uaip.decision import Move, Refused, Settling, Terminate
from perdure.uaip.machine import commit, state_refusal
from perdure.uaip.refusal import session_not_found
from perdure.uaip.session import StageSession
from perdure.uaip.settled_diff import settled_diff
from perdure.uaip.state import StateDiff
from perdure.uaip.task_outcome import TaskError, TaskRun
from perdure.upp.json_value import dumps
from perdure.upp.redaction import known_secrets

ACCEPTED = "stage.action_accepted"
SETTLED = "stage.action_settled"
MOVED = "stage.moved"
TERMINATED = "stage.terminated"


async def open_actions(held: HeldSession, *, limit: int | None = None) -> list[ActionRow]:
    """The session's actions that are not settled, in order, without what they wait for."""
    query = select(stage_actions).where(*_of(held, stage_actions), stage_actions.c.state != "settled")
    rows = (await held.connection.execute(query.order_by(stage_actions.c.ordinal).limit(limit))).all()
    return [action_row(row, {}) for row in rows]


async def settle(held: HeldSession, row: ActionRow, decision: Settling, run: TaskRun | None = None) -> ActionRow:
    """Settle an action, and return it so. The session's row and the events are left to `keep`.

    Args:
        held: the session; its `session` is the one after this.
        row: the action.
        decision: of the stage machine.
        run: of a task that was to be run.
    """
    action, before = row.action, held.session
    made = None if run is None else _fitting(before, clean_run(run))
    head = action.head(row.ordinal, at_ms(row.accepted_at))
    outcome = None if made is None else made.outcome
    held.session = commit(held.definition, before, head, decision, outcome, at_ms=held.now_ms)
    reply = settled(held.definition, held.session, action, row.id, decision, made)
    await write_values(held.connection, held.key, settled_diff(before, action, decision, made))
    if isinstance(decision, Move):
        held.tell(MOVED, {"from": decision.source, "to": decision.target, "action_id": row.id})
    if isinstance(decision, Terminate):
        held.tell(TERMINATED, {"reason": action.reason})
    to_stage = decision.target if isinstance(decision, Move) else None
    closed = await _close(held, replace(row, stage=row.stage or before.stage, to_stage=to_stage), reply)
    if row.wait is not None:
        await close_waits(held, row.ordinal)
    if isinstance(decision, Terminate):
        await answer_open(held)
    return closed


async def answer_open(held: HeldSession) -> None:
    """Settle whatever is open of a session that has ended: there is no such session any more, whatever was asked of it."""
    decision = Refused(session_not_found())
    for row in await open_actions(held):
        await _close(held, row, settled(held.definition, held.session, row.action, row.id, decision))
        if row.started_at is not None:
            await close_waits(held, row.ordinal)
        held.session = replace(held.session, taken=max(held.session.taken, row.ordinal))


def clean_run(run: TaskRun) -> TaskRun:
    """What came of a task, without secrets that this process knows."""
    diff, error, refusal = run.diff, run.error, run.refusal
    return TaskRun(
        result=known_secrets.json(run.result),
        diff=StateDiff(diff.version, known_secrets.json(diff.values), diff.deleted),
        error=None if error is None else TaskError(error.type, known_secrets.text(error.message)),
        refusal=None
        if refusal is None
        else replace(refusal, detail=known_secrets.text(refusal.detail), more=known_secrets.json(refusal.more)),
    )


def clean_action(action: Action) -> Action:
    """An action, without secrets that this process knows."""
    return replace(
        action,
        name=known_secrets.text(action.name),
        arguments=known_secrets.json(action.arguments),
        updates=known_secrets.json(action.updates),
        reason=known_secrets.text(action.reason),
    )


def _fitting(session: StageSession, run: TaskRun) -> TaskRun:
    """The run, or its error if the state would be too large: what stands for a secret may be longer than it."""
    change = run.outcome.change
    refusal = None if change is None else state_refusal(session, change)
    return run if refusal is None else TaskRun(error=TaskError("StateTooLarge", refusal.detail))


async def _close(held: HeldSession, row: ActionRow, reply: Reply) -> ActionRow:
    """Write into an action's row that it is settled, and tell of it."""
    body = seal_in(held.connection, held.key).body(dumps(reply.body))
    values: dict[str, Any] = {
        "state": "settled", "stage": row.stage, "to_stage": row.to_stage, "http": reply.status, "reply": body,
        "settled_at": held.now,
    }  # fmt: skip
    await put_action(held, row.ordinal, values)
    held.tell(SETTLED, {**row.told, "status": str(reply.body.get("status", "")), "http": reply.status})
    held.open_actions -= 1
    return replace(row, state="settled", reply=reply, settled_at=held.now)


async def put_action(held: HeldSession, ordinal: int, values: dict[str, Any]) -> None:
    """Write columns of an action's row."""
    own = (*_of(held, stage_actions), stage_actions.c.ordinal == ordinal)
    await held.connection.execute(update(stage_actions).where(*own).values(values))


async def close_waits(held: HeldSession, ordinal: int) -> None:
    """Have nobody look at an action's waits any more."""
    own = (*_of(held, stage_waits), stage_waits.c.ordinal == ordinal)
    await held.connection.execute(update(stage_waits).where(*own).values(closed=True))


def _of(held: HeldSession, table: Any) -> tuple[Any, Any]:
    return table.c.tenant_id == held.key.tenant, table.c.session_id == held.key.session
