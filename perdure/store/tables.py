"""The tables as SQLAlchemy Core knows them. The revisions in `perdure/migrations` make them; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    desc,
    false,
    text,
)

from perdure.store.columns import SCHEMA as SCHEMA
from perdure.store.columns import json_column as _json
from perdure.store.columns import metadata as metadata
from perdure.store.columns import number_column as _number
from perdure.store.columns import text_column as _text
from perdure.store.columns import time_column as _time
from perdure.store.content_tables import contents as contents
from perdure.store.content_tables import url_keys as url_keys
from perdure.store.envelope_key_tables import envelope_keys as envelope_keys
from perdure.store.envelope_tables import envelope_exchanges as envelope_exchanges
from perdure.store.envelope_tables import envelope_frames as envelope_frames
from perdure.store.envelope_tables import envelopes as envelopes
from perdure.store.label_tables import filterable_keys as filterable_keys
from perdure.store.label_tables import session_labels as session_labels
from perdure.store.label_tables import unlabelled_sessions as unlabelled_sessions
from perdure.store.payment_tables import payment_accounts as payment_accounts
from perdure.store.payment_tables import payment_entries as payment_entries
from perdure.store.payment_tables import payment_holds as payment_holds
from perdure.store.payment_tables import payment_tokens as payment_tokens
from perdure.store.payment_tables import run_payments as run_payments
from perdure.store.remote_ask_tables import remote_ask_frames as remote_ask_frames
from perdure.store.remote_ask_tables import remote_asks as remote_asks
from perdure.store.signing_tables import signing_keys as signing_keys
from perdure.store.stage_tables import stage_actions as stage_actions
from perdure.store.stage_tables import stage_definitions as stage_definitions
from perdure.store.stage_tables import stage_sessions as stage_sessions
from perdure.store.stage_tables import stage_values as stage_values
from perdure.store.stage_tables import stage_waits as stage_waits
from perdure.store.stage_tables import stage_workflows as stage_workflows
from perdure.store.uamp_tables import uamp_mail as uamp_mail
from perdure.store.uamp_tables import uamp_open_responses as uamp_open_responses
from perdure.store.uamp_tables import uamp_responses as uamp_responses
from perdure.store.uamp_tables import uamp_seats as uamp_seats
from perdure.store.uamp_tables import uamp_sessions as uamp_sessions
from perdure.store.uamp_tables import uamp_taken as uamp_taken

agents = Table(
    "agents", metadata,
    _text("tenant_id"), _text("name"), _text("agent_id"), _text("workflow_type"), _text("task_queue"), _json("spec"),
    _time("seen_at"), PrimaryKeyConstraint("tenant_id", "name"),
)  # fmt: skip

sessions = Table(
    "sessions", metadata,
    _text("tenant_id"), _text("id"), _text("agent"), _text("agent_id"), _text("status"), _json("title", null=True),
    _json("metadata"), _text("current_node", null=True), _number("runs", default=0), _number("steps", default=0),
    _json("usage"), _time("created_at"), _time("updated_at"), _text("parent_session", null=True),
    _text("parent_run", null=True), _text("parent_message", null=True), _number("parent_index", null=True),
    _text("root_session", null=True), _json("usage_by_agent", null=True), _json("imported", null=True),
    _json("limits", null=True), PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
Index("sessions_by_parent", sessions.c.tenant_id, sessions.c.parent_session,
      postgresql_where=text("parent_session is not null"))  # fmt: skip
Index("sessions_by_root", sessions.c.tenant_id, sessions.c.root_session,
      postgresql_where=text("root_session is not null"))  # fmt: skip
Index("sessions_by_status", sessions.c.tenant_id, sessions.c.status, desc(sessions.c.created_at), desc(sessions.c.id))
Index("sessions_by_time", sessions.c.tenant_id, desc(sessions.c.created_at), desc(sessions.c.id))

session_heads = Table(
    "session_heads", metadata,
    _text("tenant_id"), _text("session_id"), _number("last_seq", BigInteger(), default=0),
    _number("next_ordinal", BigInteger(), default=1), _text("active_run", null=True),
    Column("paused", Boolean(), nullable=False, server_default=false()),
    Column("deleting", Boolean(), nullable=False, server_default=false()),
    _number("discards", default=0), _number("late_results", default=0), _text("delta_key", null=True),
    _number("delta_upto", default=0), _text("note_execution", null=True),
    _time("touched_at"), Column("stage", Boolean(), nullable=False, server_default=false()),
    PrimaryKeyConstraint("tenant_id", "session_id"),
)  # fmt: skip

inputs = Table(
    "inputs", metadata,
    _text("tenant_id"), _text("session_id"), _number("ordinal", BigInteger()), _text("key"),
    Column("opens_session", Boolean(), nullable=False), _text("body_sha256"), _text("kind"), _text("message_id"),
    Column("message", LargeBinary()), _text("message_sha"), Column("options", LargeBinary()), _text("policy"),
    _text("run_id"), _time("not_before", null=True), _text("state"), _time("created_at"),
    _json("detail", null=True), _text("target_run", null=True), _text("trace", null=True),
    PrimaryKeyConstraint("tenant_id", "session_id", "ordinal"), UniqueConstraint("tenant_id", "session_id", "key"),
)  # fmt: skip
Index("inputs_by_opening_key", inputs.c.tenant_id, inputs.c.key, unique=True, postgresql_where=text("opens_session"))
Index("inputs_by_run", inputs.c.tenant_id, inputs.c.run_id)
Index("inputs_queued", inputs.c.created_at, postgresql_where=text("state = 'queued'"))
Index("inputs_waiting", inputs.c.tenant_id, inputs.c.session_id, inputs.c.ordinal,
      postgresql_where=text("state = 'queued'"))  # fmt: skip

thread_nodes = Table(
    "thread_nodes", metadata,
    _text("tenant_id"), _text("session_id"), _text("id"), _text("parent_id", null=True), _json("name", null=True),
    _number("fork_index", null=True), _text("thread_id"), _json("metadata"), _time("created_at"),
    _json("imported", null=True), PrimaryKeyConstraint("tenant_id", "session_id", "id"),
)  # fmt: skip

messages = Table(
    "messages", metadata,
    _text("tenant_id"), _text("session_id"), _text("id"), _text("node_id"), _number("position"),
    _text("run_id", null=True), _number("step"), _text("type"), Column("body", LargeBinary()), _text("sha256"),
    _json("usage", null=True), _text("stop", null=True),
    Column("discarded", Boolean(), nullable=False, server_default=false()),
    Column("scaffold", Boolean(), nullable=False, server_default=false()),
    PrimaryKeyConstraint("tenant_id", "session_id", "id"),
    UniqueConstraint("tenant_id", "session_id", "node_id", "position"),
)  # fmt: skip
Index("messages_hidden", messages.c.tenant_id, messages.c.session_id, messages.c.run_id,
      postgresql_where=text("scaffold"))  # fmt: skip

runs = Table(
    "runs", metadata,
    _text("tenant_id"), _text("session_id"), _text("id"), _number("ordinal", BigInteger()), _text("status"),
    _json("spec"), _text("node_id"), _number("start_position"), _number("step", default=0),
    _number("started_step", default=0), _json("usage", null=True), _number("cycles", default=0),
    _json("error", null=True), _text("temporal_run_id"), _number("first_seq", BigInteger()),
    _number("last_seq", BigInteger(), null=True), _time("started_at"), _time("ended_at", null=True),
    _json("usage_by_agent", null=True), _text("turn_sha", null=True),
    Column("folded", Boolean(), nullable=False, server_default=false()),
    PrimaryKeyConstraint("tenant_id", "session_id", "id"), UniqueConstraint("tenant_id", "session_id", "ordinal"),
)  # fmt: skip
Index("runs_by_id", runs.c.tenant_id, runs.c.id)
Index("runs_by_beginning", runs.c.tenant_id, runs.c.session_id, runs.c.first_seq)
Index("runs_open", runs.c.started_at, postgresql_where=text("ended_at is null"))
Index("runs_unfolded", runs.c.ended_at, postgresql_where=text("not folded and ended_at is not null"))

checkpoints = Table(
    "checkpoints", metadata,
    _text("tenant_id"), _text("session_id"), _text("id"), _text("run_id"), _text("node_id"), _number("step"),
    _number("position"), _text("at"), _json("record"), _text("temporal_run_id"),
    _text("imported_sha", null=True),
    PrimaryKeyConstraint("tenant_id", "session_id", "id"),
)  # fmt: skip

Index("checkpoints_in_order", checkpoints.c.tenant_id, checkpoints.c.session_id, checkpoints.c.run_id,
      checkpoints.c.step, checkpoints.c.at, checkpoints.c.id)  # fmt: skip  # `at` and `id` collate "C"
Index("checkpoints_imported", checkpoints.c.tenant_id, checkpoints.c.session_id,
      postgresql_where=text("imported_sha is not null"))  # fmt: skip

tool_calls = Table(
    "tool_calls", metadata,
    _text("tenant_id"), _text("session_id"), _text("message_id"), _number("index"), _text("run_id"), _number("step"),
    _json("call_id"), _json("tool"), _text("args_sha256"), _text("effect"), _text("state"),
    _number("attempt", default=0), Column("is_error", Boolean()), _text("result_sha256", null=True),
    _number("result_bytes", BigInteger(), null=True), _number("duration_ms", null=True), _text("results_id"),
    Column("approved", Boolean()), _text("used_sha256", null=True),
    PrimaryKeyConstraint("tenant_id", "session_id", "message_id", "index"),
)  # fmt: skip
Index(
    "tool_calls_open", tool_calls.c.tenant_id, tool_calls.c.session_id, tool_calls.c.run_id,
    postgresql_where=text("state <> 'done'"),
)  # fmt: skip

waits = Table(
    "waits", metadata,
    _text("tenant_id"), _text("id"), _text("session_id"), _text("run_id"), _text("kind"), _text("message_id"),
    _number("index"), _json("asked"), _time("asked_at"), _json("answer", null=True), _json("answered_by", null=True),
    _time("answered_at", null=True), Column("delivered", Boolean(), nullable=False, server_default=false()),
    Column("used", Boolean(), nullable=False, server_default=false()),
    _text("args_sha256", null=True), _text("call_sha256", null=True), _time("expires_at", null=True),
    PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
Index("waits_undelivered", waits.c.answered_at, postgresql_where=text("answered_at is not null and not delivered"))
Index("waits_by_call", waits.c.tenant_id, waits.c.session_id, waits.c.message_id, waits.c.index)
Index("waits_of_session", waits.c.tenant_id, waits.c.session_id, waits.c.asked_at, waits.c.id,
      postgresql_where=text("answered_at is null"))  # fmt: skip
Index("waits_open", waits.c.tenant_id, waits.c.asked_at, waits.c.id, postgresql_where=text("answered_at is null"))

events = Table(
    "events", metadata,
    _text("tenant_id"), _text("session_id"), _number("seq", BigInteger()), _text("run_id", null=True),
    _number("step", null=True), _number("attempt", null=True), _text("source"), _text("type"), _json("data"),
    _text("note", null=True), _time("at"), PrimaryKeyConstraint("tenant_id", "session_id", "seq"),
)  # fmt: skip

Index(
    "events_by_note", events.c.tenant_id, events.c.session_id, events.c.note, unique=True,
    postgresql_where=text("note is not null"),
)  # fmt: skip

Index(
    "events_of_runs", events.c.tenant_id, events.c.session_id, events.c.run_id, events.c.seq,
    postgresql_where=text("type = any (array['run.queued', 'run.completed', 'run.failed', 'run.cancelled'])"),
)  # fmt: skip

session_addresses = Table(  # a view: where the workflow of each session runs
    "session_addresses", MetaData(schema=SCHEMA),
    _text("tenant_id"), _text("session_id"), _text("name"), _text("agent_id"), _text("workflow_type"),
    _text("task_queue"), _json("spec"), _time("seen_at"),
)  # fmt: skip

payloads = Table(
    "payloads", metadata,
    _text("tenant_id"), _text("session_id"), _text("sha256"), Column("bytes", LargeBinary(), nullable=False),
    PrimaryKeyConstraint("tenant_id", "session_id", "sha256"),
)  # fmt: skip

run_views = Table(
    "run_views", metadata,
    _text("tenant_id"), _text("session_id"), _text("run_id"), _number("entered"), _json("error", null=True),
    Column("metadata", LargeBinary(), nullable=False), Column("items", LargeBinary()), _json("result"),
    PrimaryKeyConstraint("tenant_id", "session_id", "run_id"),
)  # fmt: skip

tenants = Table("tenants", metadata, _text("tenant_id"), _time("created_at"), PrimaryKeyConstraint("tenant_id"))

api_keys = Table(
    "api_keys", metadata,
    _text("tenant_id"), _text("id"), _text("sha256"), _text("name"), _json("scopes"), _time("created_at"),
    _time("expires_at", null=True), _time("last_used_at", null=True), _time("revoked_at", null=True),
    PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
Index("api_keys_by_id", api_keys.c.id, unique=True)

limit_buckets = Table(
    "limit_buckets", metadata,
    _text("tenant_id"), _text("name"), Column("per_second", Double[float]()), _number("burst", null=True),
    _number("max_concurrent", null=True), Column("tokens", Double[float](), nullable=False), _time("filled_at"),
    _time("blocked_until", null=True), _number("strikes", default=0), _number("served", BigInteger(), default=0),
    PrimaryKeyConstraint("tenant_id", "name"),
)  # fmt: skip

limit_leases = Table(
    "limit_leases", metadata,
    _text("tenant_id"), _text("name"), _text("permit"), _text("asker"), _text("session_id"), _text("run_id"),
    _text("holder"), _text("state"), _number("turn", BigInteger()), _time("asked_at"), _time("held_at", null=True),
    _time("expires_at"), PrimaryKeyConstraint("tenant_id", "name", "permit"),
)  # fmt: skip

encryption_keys = Table(
    "encryption_keys", metadata,
    _text("tenant_id"), _text("id"), Column("proof", LargeBinary(), nullable=False), _time("made_at"),
    PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
