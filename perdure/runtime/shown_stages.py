"""Stage workflows, their sessions and actions as every answer shows them; see `shown`."""

from __future__ import annotations

from perdure.protocols.uaip.reply import Reply
from perdure.runtime.shown import iso
from perdure.runtime.stage_action import WAITING
from perdure.runtime.stages import StageView
from perdure.store.stages.definitions import ServedWorkflow
from perdure.store.stages.rows import ActionRow, ActionWait, StageSessionRow
from perdure.uaip.definition import WorkflowDefinition
from perdure.uap.ids import agent_session_id
from perdure.upp.json_value import JSONObject, JSONValue


def workflow_json(served: ServedWorkflow) -> JSONObject:
    """A workflow as its last worker registered it, without its tasks."""
    definition = served.definition
    return {
        "name": definition.name,
        "description": definition.description,
        "initial_stage": definition.initial_stage,
        "stages": list[JSONValue](definition.stage_names),
        "definition": served.sha256,
        "task_queue": served.task_queue,
        "seen_at": iso(served.seen_at),
    }


def stage_session_json(row: StageSessionRow) -> JSONObject:
    """A session."""
    session = row.session
    return {
        "session": row.key.session,
        "workflow": session.workflow,
        "definition": session.definition,
        "stage": session.stage,
        "status": session.status.value,
        "actions": session.taken,
        "open_actions": row.open_actions,
        "state_version": session.version,
        "state_bytes": sum(session.sizes.values()),
        "last_event": row.last_seq,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
        "expires_at": iso(row.expires_at),
        "ended_at": iso(row.ended_at),
        "ended_reason": row.ended_reason,
    }


def stage_view_json(view: StageView, state: JSONObject, in_hand: ActionRow | None) -> JSONObject:
    """A session with its state, the action that runs or waits now, and what can be done."""
    offers: list[JSONValue] = [
        {"name": offer.name, "description": offer.description, "input_schema": offer.parameters}
        for offer in view.offers
    ]
    ways: list[JSONValue] = [{"stage": way.stage, "missing": list[JSONValue](way.missing)} for way in view.ways_on]
    return {
        **stage_session_json(view.row),
        "state": state,
        "tools": offers,
        "ways_on": ways,
        "in_hand": None if in_hand is None else action_json(in_hand, view.definition),
        "wait": None if in_hand is None or not _is_asked(in_hand) else stage_wait_json(in_hand),
    }


def _is_asked(row: ActionRow) -> bool:
    return row.state == WAITING and row.wait is not None and not row.wait.answered_by


def action_json(row: ActionRow, definition: WorkflowDefinition) -> JSONObject:
    """An action, without what was answered. `child` is the session of the agent whose run its task is.

    Args:
        row: the action.
        definition: what its session is pinned to.
    """
    return {
        "action_id": row.id,
        "session": row.key.session,
        "ordinal": row.ordinal,
        "action": row.action.kind.value,
        "name": row.action.name,
        "arguments": row.action.arguments,
        "updates": row.action.updates,
        "reason": row.action.reason,
        "state": row.state,
        "status": row.status,
        "http": None if row.reply is None else row.reply.status,
        "stage": row.stage,
        "to_stage": row.to_stage,
        "attempt": row.attempt,
        "child": _child(row, definition),
        "wait": None if row.wait is None else _wait_json(row.wait),
        "accepted_at": iso(row.accepted_at),
        "started_at": iso(row.started_at),
        "settled_at": iso(row.settled_at),
    }


def _child(row: ActionRow, definition: WorkflowDefinition) -> str | None:
    stage = definition.stage(row.stage) if row.started_at is not None else None
    task = None if stage is None else stage.task(row.action.name)
    is_agent = task is not None and task.kind == "agent"
    return agent_session_id(row.key.session, row.ordinal) if is_agent else None


def replied_json(row: ActionRow, definition: WorkflowDefinition, reply: Reply) -> JSONObject:
    """An action with what its client is told now; `http` is that reply's status."""
    return {**action_json(row, definition), "http": reply.status, "reply": reply.body}


def stage_wait_json(row: ActionRow) -> JSONObject:
    """An action that waits, or waited, for a person: what is asked, about which task, with which arguments."""
    return {
        "session": row.key.session,
        "action_id": row.id,
        "stage": row.stage,
        "task": row.action.name,
        "arguments": row.action.arguments,
        **({} if row.wait is None else _wait_json(row.wait)),
    }


def _wait_json(wait: ActionWait) -> JSONObject:
    return {
        "kind": wait.kind,
        "asked_at": iso(wait.asked_at),
        "expires_at": iso(wait.expires_at),
        "answer": wait.answer,
        "answered_by": wait.answered_by,
        "answer_reason": wait.reason,
        "answered_at": iso(wait.answered_at),
    }
