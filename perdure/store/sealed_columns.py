"""Which columns of the store are sealed if there are keys, and which are clear, each with the reason.

Every column of `perdure.store.tables` is in one of the two; a test compares. What stays clear within a sealed object is
what the database itself looks at.
"""

from __future__ import annotations

BODY = "body"
WHOLE = "whole"

SEALED_COLUMNS: dict[str, dict[str, str]] = {
    "sessions": {"title": WHOLE, "metadata": WHOLE, "imported": WHOLE},
    "inputs": {"message": BODY, "options": BODY, "detail": "detail"},
    "thread_nodes": {"name": WHOLE, "metadata": WHOLE, "imported": WHOLE},
    "messages": {"body": BODY},
    "runs": {"error": "error"},
    "checkpoints": {"record": "record"},
    "waits": {"asked": WHOLE, "answer": "answer"},
    "events": {"data": "event"},
    "payloads": {"bytes": BODY},
    "run_views": {"error": "error", "metadata": BODY, "items": BODY, "result": "result"},
}
"""By table and column: its shape. `BODY` is bytes, `WHOLE` a JSON value; of the others some fields stay clear, as below."""

EVENT_CLEAR = frozenset({
    "message", "input", "execution", "run", "index", "stepNumber", "checkpointId", "wait", "target", "session", "as",
})  # fmt: skip
"""Of an event's data, and only where they are numbers or ids of ours; besides, what the database itself writes."""
RECORD_CLEAR = frozenset({
    "id", "node", "step", "position", "at", "usage", "cycles", "step_usage", "imported",
})  # fmt: skip
DETAIL_CLEAR = frozenset({"node", "step", "seq"})
PROGRESS_CLEAR = frozenset({"step", "position", "usage", "usage_by_agent", "cycles"})
ANSWER_CLEAR = frozenset({"decision", "outcome"})
ERROR_CLEAR = frozenset({"type", "code", "run_id"})
RESULT_CLEAR = frozenset({"start", "used"})

_ID = "an id"
_WHEN = "a time"
_COUNT = "a number, or numbers by name"
_STATE = "a word of ours, or a flag"
_HASH = "a claim check: the hash by which history names a body"
_NAME = "a name of the deployed code"
_KEY = "a client's own name for its input; unique by a constraint"
_WHO = "who did it, as the authenticator or the caller names them"

CLEAR_COLUMNS: dict[str, dict[str, str]] = {
    "agents": {
        "tenant_id": _ID, "name": _NAME, "agent_id": _ID, "workflow_type": _NAME, "task_queue": _NAME,
        "spec": "names and limits of the deployed code; its prompts stay in the worker", "seen_at": _WHEN,
    },
    "sessions": {
        "tenant_id": _ID, "id": _ID, "agent": _NAME, "agent_id": _ID, "status": _STATE, "current_node": _ID,
        "runs": _COUNT, "steps": _COUNT, "usage": _COUNT, "created_at": _WHEN, "updated_at": _WHEN,
        "parent_session": _ID, "parent_run": _ID, "parent_message": _ID, "parent_index": _COUNT, "root_session": _ID,
        "usage_by_agent": _COUNT, "limits": _COUNT,
    },
    "session_heads": {
        "tenant_id": _ID, "session_id": _ID, "last_seq": _COUNT, "next_ordinal": _COUNT, "active_run": _ID,
        "paused": _STATE, "deleting": _STATE, "discards": _COUNT, "late_results": _COUNT, "delta_key": _ID,
        "delta_upto": _COUNT, "note_execution": _ID, "touched_at": _WHEN,
    },
    "inputs": {
        "tenant_id": _ID, "session_id": _ID, "ordinal": _COUNT, "key": _KEY, "opens_session": _STATE,
        "body_sha256": _HASH, "kind": _STATE, "message_id": _ID, "message_sha": _HASH, "policy": _STATE, "run_id": _ID,
        "not_before": _WHEN, "state": _STATE, "created_at": _WHEN, "target_run": _ID, "trace": _ID,
    },
    "thread_nodes": {
        "tenant_id": _ID, "session_id": _ID, "id": _ID, "parent_id": _ID, "fork_index": _COUNT, "thread_id": _ID,
        "created_at": _WHEN,
    },
    "messages": {
        "tenant_id": _ID, "session_id": _ID, "id": _ID, "node_id": _ID, "position": _COUNT, "run_id": _ID,
        "step": _COUNT, "type": _STATE, "sha256": _HASH, "usage": _COUNT, "stop": _STATE, "discarded": _STATE,
        "scaffold": _STATE,
    },
    "runs": {
        "tenant_id": _ID, "session_id": _ID, "id": _ID, "ordinal": _COUNT, "status": _STATE,
        "spec": "names and limits of the deployed code; its prompts stay in the worker", "node_id": _ID,
        "start_position": _COUNT, "step": _COUNT, "started_step": _COUNT, "usage": _COUNT, "cycles": _COUNT,
        "temporal_run_id": _ID, "first_seq": _COUNT, "last_seq": _COUNT, "started_at": _WHEN, "ended_at": _WHEN,
        "usage_by_agent": _COUNT, "turn_sha": _HASH, "folded": _STATE,
    },
    "checkpoints": {
        "tenant_id": _ID, "session_id": _ID, "id": _ID, "run_id": _ID, "node_id": _ID, "step": _COUNT,
        "position": _COUNT, "at": _WHEN, "temporal_run_id": _ID, "imported_sha": _HASH,
    },
    "tool_calls": {
        "tenant_id": _ID, "session_id": _ID, "message_id": _ID, "index": _COUNT, "run_id": _ID, "step": _COUNT,
        "call_id": "the id that the model's vendor gave the call; the database puts tool-result messages together with it",
        "tool": "a tool's name, as the model wrote it", "args_sha256": _HASH, "effect": _STATE, "state": _STATE,
        "attempt": _COUNT, "is_error": _STATE, "result_sha256": _HASH, "result_bytes": _COUNT, "duration_ms": _COUNT,
        "results_id": _ID, "approved": _STATE, "used_sha256": _HASH,
    },
    "waits": {
        "tenant_id": _ID, "id": _ID, "session_id": _ID, "run_id": _ID, "kind": _STATE, "message_id": _ID,
        "index": _COUNT, "asked_at": _WHEN, "answered_by": _WHO, "answered_at": _WHEN, "delivered": _STATE,
        "used": _STATE, "args_sha256": _HASH, "call_sha256": _HASH, "expires_at": _WHEN,
    },
    "events": {
        "tenant_id": _ID, "session_id": _ID, "seq": _COUNT, "run_id": _ID, "step": _COUNT, "attempt": _COUNT,
        "source": _STATE, "type": _STATE, "note": "what a note is about, by ids", "at": _WHEN,
    },
    "payloads": {"tenant_id": _ID, "session_id": _ID, "sha256": _HASH},
    "run_views": {"tenant_id": _ID, "session_id": _ID, "run_id": _ID, "entered": _COUNT},
    "limit_buckets": {
        "tenant_id": _ID, "name": "of a limit, which names a provider", "per_second": _COUNT, "burst": _COUNT,
        "max_concurrent": _COUNT, "tokens": _COUNT, "filled_at": _WHEN, "blocked_until": _WHEN, "strikes": _COUNT,
        "served": _COUNT,
    },
    "limit_leases": {
        "tenant_id": _ID, "name": "of a limit, which names a provider", "permit": _ID, "asker": _ID, "session_id": _ID,
        "run_id": _ID, "holder": _ID, "state": _STATE, "turn": _COUNT, "asked_at": _WHEN, "held_at": _WHEN,
        "expires_at": _WHEN,
    },
    "tenants": {"tenant_id": _ID, "created_at": _WHEN},
    "api_keys": {
        "tenant_id": _ID, "id": _ID, "sha256": "of a random secret of 256 bits", "name": _WHO, "scopes": _STATE,
        "created_at": _WHEN, "expires_at": _WHEN, "last_used_at": _WHEN, "revoked_at": _WHEN,
    },
    "encryption_keys": {
        "tenant_id": "always `*`: keys are of a deployment", "id": _ID,
        "proof": "a fixed word, sealed: tells another key of the same id", "made_at": _WHEN,
    },
}  # fmt: skip
"""By table and column: why it is clear."""
