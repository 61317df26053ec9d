"""The stage machine: what an action does to a session. Pure and deterministic, so that workflow code runs it.

`decide` says what is to be done; the host does it; `commit` gives the session after it. Arguments are not looked at
here: their schema is the task's activity's to check, since that may take long. Source: UAIP 0.1, POST /execute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perdure.errors import InvalidInput
from perdure.uaip.action import ActionHead, ActionKind
from perdure.uaip.decision import (
    Decision,
    Greet,
    Held,
    Known,
    Move,
    Refused,
    RunTask,
    Settling,
    TakeInput,
    Terminate,
)
from perdure.uaip.definition import StageSpec, WorkflowDefinition
from perdure.uaip.keys import key_problem
from perdure.uaip.refusal import Reason, Refusal, session_not_found
from perdure.uaip.session import SessionStatus, StageSession, expire
from perdure.uaip.state_change import StateChange, too_large
from perdure.uaip.task_outcome import TaskOutcome
from perdure.upp.json_value import JSONValue


def decide(definition: WorkflowDefinition, session: StageSession, action: ActionHead) -> Decision:
    """What an action is answered with, or what is to be done first.

    Args:
        definition: the one that the session is pinned to.
        session: after all actions before this one.
        action: the next of the session's inbox.

    Raises:
        InvalidInput: the definition is not the session's.
    """
    if action.ordinal <= session.taken:
        return Known()
    if expire(definition, session, action.at_ms).has_ended:
        return Refused(session_not_found())
    if session.status is SessionStatus.PAUSED:
        return Held()
    stage = stage_of(definition, session)
    match action.kind:
        case ActionKind.METHOD_CALL:
            return _call(stage, action.name)
        case ActionKind.STAGE_TRANSITION:
            return _move(definition, session, stage, action.name)
        case ActionKind.STATE_INPUT:
            return _input(definition, session, action)
        case ActionKind.TERMINATE_SESSION:
            return Terminate()
        case ActionKind.HANDSHAKE:
            return Greet()


def commit(
    definition: WorkflowDefinition,
    session: StageSession,
    action: ActionHead,
    decision: Settling,
    outcome: TaskOutcome | None = None,
    *,
    at_ms: int,
) -> StageSession:
    """The session after an action.

    A session that ended while the task ran stays as it is but for the action being settled: nothing of it is kept.

    Args:
        definition: the one that the session is pinned to.
        session: as it is now; it may have been paused or ended since `decide`.
        action: what was decided on.
        decision: what was decided.
        outcome: of a task that was to be run.
        at_ms: when the action was done, in milliseconds since 1970. From then on the session's time counts, unless the
            action was refused.

    Raises:
        InvalidInput: an outcome is missing or too many, or was made on another version of the state.
    """
    if (outcome is not None) != isinstance(decision, RunTask):
        raise InvalidInput("a task that was to be run has an outcome, and nothing else has")
    settled = replace(expire(definition, session, action.at_ms), taken=max(session.taken, action.ordinal))
    if settled.has_ended or isinstance(decision, Refused) or (outcome is not None and outcome.refusal is not None):
        return settled
    settled = replace(settled, settled_at_ms=max(at_ms, session.settled_at_ms))
    match decision:
        case RunTask():
            change = outcome.change if outcome is not None else None
            return settled if change is None else _changed(settled, change)
        case TakeInput(change):
            return _changed(settled, change)
        case Move(_, target, change):
            return replace(_changed(settled, change), stage=target)
        case Terminate():
            return replace(settled, status=SessionStatus.TERMINATED)
        case Greet():
            return settled


def stage_of(definition: WorkflowDefinition, session: StageSession) -> StageSpec:
    """Where a session is.

    Raises:
        InvalidInput: the definition is not the one that the session is pinned to.
    """
    stage = definition.stage(session.stage)
    if stage is None:
        raise InvalidInput(
            f"session {session.id} is in stage {session.stage!r}, which this definition of workflow "
            f"{definition.name!r} does not have; use the definition that is stored with the session"
        )
    return stage


def missing_keys(target: StageSpec, keys: Mapping[str, int]) -> list[str]:
    """The prerequisites of a stage that the state does not have, as declared. Whatever way leads there keeps them."""
    return [key for key in target.prerequisites if key not in keys]


def state_refusal(session: StageSession, change: StateChange) -> Refusal | None:
    """The refusal of a change that would make the state too large, or None."""
    return None if not change.sizes else too_large(change.apply(session.sizes))


def _call(stage: StageSpec, name: str) -> Decision:
    task = stage.task(name)
    if task is not None:
        return RunTask(stage.name, task)
    available: list[JSONValue] = [task.name for task in stage.tasks]
    detail = f"Task '{name}' not found in stage '{stage.name}'"
    return Refused(Refusal(Reason.TASK_NOT_IN_STAGE, detail, {"task": name, "available": available}))


def _move(definition: WorkflowDefinition, session: StageSession, stage: StageSpec, name: str) -> Decision:
    edge, target = stage.edge(name), definition.stage(name)
    if edge is None or target is None:
        allowed: list[JSONValue] = [edge.target for edge in stage.transitions]
        detail = f"Cannot transition from '{stage.name}' to '{name}'"
        return Refused(Refusal(Reason.INVALID_TRANSITION, detail, {"target_stage": name, "allowed": allowed}))
    missing = missing_keys(target, session.sizes)
    if missing:
        detail = f"To transition to '{name}', please provide: {', '.join(missing)}"
        more: dict[str, JSONValue] = {"target_stage": name, "missing": list[JSONValue](missing)}
        return Refused(Refusal(Reason.MISSING_PREREQUISITES, detail, more))
    dropped = () if edge.keep is None else tuple(sorted(key for key in session.sizes if key not in edge.keep))
    return Move(stage.name, name, StateChange(session.version, {}, dropped))


def _input(definition: WorkflowDefinition, session: StageSession, action: ActionHead) -> Decision:
    for key in action.sizes:
        problem = key_problem(key)
        if problem is None and definition.inputs is not None and key not in definition.inputs:
            problem = (
                f"key {key!r} is not for clients to write; they may write: {', '.join(definition.inputs) or 'none'}"
            )
        if problem is not None:
            return Refused(Refusal(Reason.KEY_NOT_ALLOWED, f"Invalid state update: {problem}", {"key": key}))
    change = StateChange(session.version, dict(action.sizes))
    refusal = state_refusal(session, change)
    return TakeInput(change) if refusal is None else Refused(refusal)


def _changed(session: StageSession, change: StateChange) -> StageSession:
    if change.version != session.version:
        raise InvalidInput(
            f"session {session.id}: a change of version {change.version} of the state does not fit version "
            f"{session.version}"
        )
    if change.is_empty:
        return session
    return replace(session, sizes=change.apply(session.sizes), version=session.version + 1)
