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
    "stage_sessions": {"ended_reason": WHOLE},
    "stage_values": {"value": BODY},
    "stage_actions": {"body": BODY, "reply": BODY},
    "stage_waits": {"answer": WHOLE, "reason": WHOLE},
    "contents": {"filename": WHOLE, "bytes": BODY},
    "url_keys": {"secret": BODY},
    "uamp_sessions": {"username": WHOLE, "chat": WHOLE, "state": BODY, "payment": WHOLE, "ended_reason": WHOLE},
    "uamp_taken": {"body": BODY},
    "uamp_responses": {"asked": BODY},
    "uamp_mail": {"body": WHOLE},
    "signing_keys": {"private_key": BODY},
    "envelopes": {"raw": BODY},
    "envelope_exchanges": {"error": WHOLE, "proposal": WHOLE},
    "envelope_frames": {"frame": BODY},
    "remote_asks": {"asked": BODY, "envelope": BODY, "problem": WHOLE},
    "remote_ask_frames": {"frame": BODY},
    "envelope_keys": {"private_key": BODY},
}
"""By table and column: its shape. `BODY` is bytes, `WHOLE` a JSON value; of the others some fields stay clear, as below."""

SEALED_FOR: dict[str, str] = {"envelopes": "id", "envelope_exchanges": "id", "envelope_frames": "exchange"}
"""The column that names what a table's values are sealed for, where that is not the session: none may be known yet."""

EVENT_CLEAR = frozenset({
    "message", "input", "execution", "run", "index", "stepNumber", "checkpointId", "wait", "target", "session", "as",
})  # fmt: skip
"""Of an event's data, and only where they are numbers or ids of ours; besides, what the database itself writes."""
RECORD_CLEAR = frozenset({
    "id", "node", "step", "position", "at", "usage", "cycles", "step_usage", "imported",
})  # fmt: skip
DETAIL_CLEAR = frozenset({"node", "step", "seq", "stage_session", "stage_action"})
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
_AGENT = "the public name of an agent"
_STREAM = "its sender's name for a stream; unique by a constraint"
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
        "delta_upto": _COUNT, "note_execution": _ID, "touched_at": _WHEN, "stage": _STATE,
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
    "stage_definitions": {
        "tenant_id": _ID, "sha256": _HASH, "body": "a workflow as deployed, which clients may see; secrets only by name",
        "made_at": _WHEN,
    },
    "stage_workflows": {
        "tenant_id": _ID, "name": _NAME, "sha256": _HASH, "task_queue": _NAME, "seen_at": _WHEN,
    },
    "stage_sessions": {
        "tenant_id": _ID, "id": _ID, "workflow": _NAME, "definition": _HASH, "stage": _NAME, "status": _STATE,
        "version": _COUNT, "taken": _COUNT, "settled_at_ms": _WHEN, "sizes": _COUNT, "open_actions": _COUNT, "key": _KEY,
        "opening_sha256": _HASH, "created_at": _WHEN, "updated_at": _WHEN, "expires_at": _WHEN, "ended_at": _WHEN,
    },
    "stage_values": {"tenant_id": _ID, "session_id": _ID, "key": "the name of a value; a workflow's graph asks for it"},
    "stage_actions": {
        "tenant_id": _ID, "session_id": _ID, "ordinal": _COUNT, "id": _ID, "kind": _STATE,
        "name": "a task's or a stage's name, as the client wrote it", "sha256": _HASH, "idempotency_key": _KEY,
        "state": _STATE, "stage": _NAME, "to_stage": _NAME, "attempt": _COUNT, "try_id": _ID, "http": _COUNT,
        "accepted_at": _WHEN, "started_at": _WHEN, "settled_at": _WHEN,
    },
    "stage_waits": {
        "tenant_id": _ID, "session_id": _ID, "ordinal": _COUNT, "kind": _STATE, "attempt": _COUNT, "asked_at": _WHEN,
        "expires_at": _WHEN, "answered_by": _WHO, "answered_at": _WHEN, "closed": _STATE,
    },
    "contents": {
        "tenant_id": _ID, "id": _ID, "media_type": "what kind of media it is, as its sender says", "size": _COUNT,
        "sha256": _HASH, "made_by": _WHO, "made_at": _WHEN, "expires_at": _WHEN,
    },
    "url_keys": {"tenant_id": "always `*`: the key is of a deployment", "id": _ID, "made_at": _WHEN},
    "signing_keys": {
        "tenant_id": "always `*`: the key is of a deployment", "id": "a hash of what is published", "made_at": _WHEN,
    },
    "envelope_keys": {
        "tenant_id": _ID, "did": "an agent's public name", "id": "a hash of what is published", "made_at": _WHEN,
        "retired_at": _WHEN,
    },
    "payment_accounts": {
        "tenant_id": _ID, "id": _ID, "name": "what an operator calls it", "currency": _STATE, "balance": _COUNT,
        "held": _COUNT, "entries": _COUNT, "created_at": _WHEN, "expires_at": _WHEN, "closed_at": _WHEN,
    },
    "payment_tokens": {
        "tenant_id": _ID, "sha256": "of the token, which is stored nowhere", "account": _ID, "made_at": _WHEN,
        "expires_at": _WHEN, "revoked_at": _WHEN,
    },
    "payment_holds": {
        "tenant_id": _ID, "id": _ID, "account": _ID, "amount": _COUNT, "state": _STATE, "charged": _COUNT,
        "short": _COUNT, "for_session": _ID, "for_run": _ID, "made_at": _WHEN, "ended_at": _WHEN,
    },
    "payment_entries": {
        "tenant_id": _ID, "account": _ID, "ordinal": _COUNT, "kind": _STATE, "ref": _KEY, "amount": _COUNT,
        "balance": _COUNT, "for_session": _ID, "for_run": _ID, "at": _WHEN,
    },
    "run_payments": {
        "tenant_id": _ID, "run_id": _ID, "for_session": _ID, "gate": _NAME, "currency": _STATE, "holds": _COUNT,
        "held": _COUNT, "spent": _COUNT, "charged": _COUNT, "short": _COUNT, "made_at": _WHEN, "settled_at": _WHEN,
    },
    "uamp_sessions": {
        "tenant_id": _ID, "id": _ID, "session_id": _ID, "agent": _NAME, "principal": _WHO, "user_id": _WHO,
        "token_expires_at": _WHEN, "told_log": _COUNT, "told_mail": _COUNT, "last_mail": _COUNT, "last_taken": _COUNT,
        "version": _COUNT, "created_at": _WHEN, "last_seen_at": _WHEN, "ended_at": _WHEN,
    },
    "uamp_taken": {
        "tenant_id": _ID, "session_id": _ID, "uamp_session": _ID, "ordinal": _COUNT,
        "event_sha256": "of the client's id for its event", "response": _ID, "taken_at": _WHEN,
    },
    "uamp_responses": {
        "tenant_id": _ID, "id": _ID, "session_id": _ID, "uamp_session": _ID, "request_sha256": _HASH, "run_id": _ID,
        "made_at": _WHEN, "begun_at": _WHEN, "ended_at": _WHEN,
    },
    "uamp_mail": {
        "tenant_id": _ID, "session_id": _ID, "uamp_session": _ID, "seq": _COUNT, "event_id": _ID, "type": _STATE,
        "note": "what it is about, by ids", "at": _WHEN,
    },
    "uamp_seats": {
        "tenant_id": _ID, "id": _ID, "session_id": _ID, "uamp_session": _ID, "user_id": _WHO, "expires_at": _WHEN,
    },
    "remote_asks": {
        "tenant_id": _ID, "id": _ID, "session_id": _ID, "run_id": _ID, "message_id": _ID, "index": _COUNT, "wait_id": _ID,
        "agent": _NAME, "tool": _NAME, "url": "where the agent is, as deployed", "binding": _STATE, "signed": _STATE,
        "peer": _WHO, "own": _WHO, "stream_id": _ID, "accepted": _STATE, "next_seq": _COUNT, "failures": _COUNT,
        "due_at": _WHEN, "lease_by": "a process", "lease_until": _WHEN, "outcome": _STATE, "made_at": _WHEN,
        "ended_at": _WHEN,
    },
    "remote_ask_frames": {"tenant_id": _ID, "session_id": _ID, "ask": _ID, "seq": _COUNT},
    "envelopes": {
        "tenant_id": _ID, "own": _AGENT, "sender": _AGENT, "id": _ID, "intent": _STATE, "sha256": _HASH, "exchange": _ID,
        "stream_id": _STREAM, "session_id": _ID, "state": _STATE, "joined_by": _ID, "joined": _STATE, "at": _WHEN,
    },
    "envelope_exchanges": {
        "tenant_id": _ID, "id": _ID, "own": _AGENT, "sender": _AGENT, "worker": _AGENT, "envelope": _ID,
        "intent": _STATE, "stream_id": _STREAM, "principal": _WHO, "session_id": _ID, "run_id": _ID, "state": _STATE,
        "delta_window": _COUNT, "next_seq": _COUNT, "sent": _COUNT, "acked": _COUNT, "log_seq": _COUNT,
        "log_place": _COUNT, "is_over": _STATE, "opened_at": _WHEN, "read_at": _WHEN, "ended_at": _WHEN,
    },
    "envelope_frames": {
        "tenant_id": _ID, "exchange": _ID, "session_id": _ID, "seq": _COUNT, "type": _STATE, "at": _WHEN,
    },
    "filterable_keys": {
        "tenant_id": "always `*`: the keys are of a deployment", "key": "as the deployment's settings name it",
        "state": _STATE, "horizon": _COUNT, "after_tenant": _ID, "after_session": _ID,
    },
    "session_labels": {
        "tenant_id": _ID, "session_id": _ID, "key": "as the deployment's settings name it",
        "value": "what the deployment lets lists be filtered by: the database walks an index of it",
        "status": _STATE, "created_at": _WHEN,
    },
    "unlabelled_sessions": {"tenant_id": _ID, "session_id": _ID},
    "encryption_keys": {
        "tenant_id": "always `*`: keys are of a deployment", "id": _ID,
        "proof": "a fixed word, sealed: tells another key of the same id", "made_at": _WHEN,
    },
}  # fmt: skip
"""By table and column: why it is clear."""
