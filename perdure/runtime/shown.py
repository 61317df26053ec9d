"""Rows as every answer shows them: the command line's `--json` and the HTTP API's bodies are the same objects."""

from __future__ import annotations

from datetime import datetime

from perdure.store.accepted import Accepted
from perdure.store.agents import AgentRow
from perdure.store.checkpoints import CheckpointRow
from perdure.store.content.contents import ContentRow
from perdure.store.limits import BucketRow, LeaseRow
from perdure.store.messages import StoredMessage
from perdure.store.runs import RunRow
from perdure.store.sessions import NodeRow, SessionRow
from perdure.store.waits import WaitRow
from perdure.uap.content_refs import content_path
from perdure.upp.json_value import JSONObject
from perdure.upp.timestamp import format_timestamp


def iso(at: datetime | None) -> str | None:
    """A time as ISO 8601, UTC, milliseconds, with Z."""
    return None if at is None else format_timestamp(at)


def agent_json(row: AgentRow) -> JSONObject:
    """An agent as its last worker registered it."""
    return {
        "agent": row.name,
        "agent_id": row.agent_id,
        "task_queue": row.task_queue,
        "spec": row.spec,
        "seen_at": iso(row.seen_at),
    }


def session_json(row: SessionRow) -> JSONObject:
    """A session."""
    return {
        "session": row.key.session,
        "agent": row.agent,
        "agent_id": row.agent_id,
        "status": row.status,
        "paused": row.paused,
        "active_run": row.active_run,
        "title": row.title,
        "metadata": row.metadata,
        "current_node": row.current_node,
        "run_count": row.runs,
        "step_count": row.steps,
        "usage": row.usage,
        "limits": row.limits,
        "last_event": row.last_seq,
        "late_results": row.late_results,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }


def run_json(row: RunRow) -> JSONObject:
    """A run."""
    return {
        "run": row.id,
        "session": row.key.session,
        "ordinal": row.ordinal,
        "status": row.status,
        "steps": row.step,
        "model_calls": row.cycles,
        "usage": row.usage,
        "error": row.error,
        "first_event": row.first_seq,
        "last_event": row.last_seq,
        "started_at": iso(row.started_at),
        "ended_at": iso(row.ended_at),
    }


def accepted_json(accepted: Accepted) -> JSONObject:
    """What became of an input."""
    return {
        "run": accepted.run,
        "session": accepted.key.session,
        "ordinal": accepted.ordinal,
        "status": accepted.status,
        "repeated": accepted.repeated,
        "paused": accepted.paused,
        "action": accepted.action,
        "target": accepted.target,
        "place": accepted.place,
    }


def wait_json(row: WaitRow) -> JSONObject:
    """A wait."""
    return {
        "wait": row.id,
        "session": row.key.session,
        "root": row.root,
        "path": row.path,
        "run": row.run,
        "kind": row.kind,
        "asked": row.asked,
        "asked_at": iso(row.asked_at),
        "args_sha256": row.args_sha256,
        "expires_at": iso(row.expires_at),
    }


def limit_json(row: BucketRow) -> JSONObject:
    """A limit that all workers share."""
    return {
        "name": row.name,
        "owner": row.owner,
        "requests_per_second": row.per_second,
        "burst": row.burst,
        "max_concurrent": row.max_concurrent,
        "tokens": row.tokens,
        "held": row.held,
        "waiting": row.waiting,
        "refused_in_a_row": row.strikes,
        "blocked_until": iso(row.blocked_until),
        "leases": [_lease_json(lease) for lease in row.leases],
    }


def _lease_json(row: LeaseRow) -> JSONObject:
    return {
        "permit": row.permit,
        "session": row.session,
        "run": row.run,
        "worker": row.holder,
        "state": row.state,
        "asked_at": iso(row.asked_at),
        "held_at": iso(row.held_at),
        "expires_at": iso(row.expires_at),
    }


def content_json(row: ContentRow) -> JSONObject:
    """Stored media without its bytes."""
    return {
        "content_id": row.id,
        "url": content_path(row.id),
        "media_type": row.media_type,
        "filename": row.filename,
        "size_bytes": row.size,
        "sha256": row.sha256,
        "made_by": row.made_by,
        "made_at": iso(row.made_at),
        "expires_at": iso(row.expires_at),
    }


def node_json(row: NodeRow) -> JSONObject:
    """A thread node."""
    return {
        "node": row.id,
        "parent": row.parent,
        "name": row.name,
        "position": row.fork_index,
        "thread": row.thread,
        "metadata": row.metadata,
        "created_at": iso(row.created_at),
    }


def message_json(node: str, stored: StoredMessage) -> JSONObject:
    """A message with its place."""
    return {
        "node": node,
        "position": stored.position,
        "run": stored.run,
        "step": stored.step,
        "message": stored.message.to_json(),
    }


def checkpoint_json(row: CheckpointRow) -> JSONObject:
    """A checkpoint, without the bodies of its messages."""
    return {
        "checkpoint": row.id,
        "run": row.run or None,
        **{name: row.record.get(name) for name in ("node", "step", "position", "at")},
        "imported": row.imported_sha is not None,
        "record": row.record,
    }
