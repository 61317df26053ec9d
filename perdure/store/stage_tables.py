"""The tables of stage sessions. They are among `perdure.store.tables`, whose rules hold for them too."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    desc,
    false,
    text,
)

from perdure.store.columns import json_column as _json
from perdure.store.columns import metadata
from perdure.store.columns import number_column as _number
from perdure.store.columns import text_column as _text
from perdure.store.columns import time_column as _time

stage_definitions = Table(
    "stage_definitions", metadata,
    _text("tenant_id"), _text("sha256"), _json("body"), _time("made_at"), PrimaryKeyConstraint("tenant_id", "sha256"),
)  # fmt: skip

stage_workflows = Table(
    "stage_workflows", metadata,
    _text("tenant_id"), _text("name"), _text("sha256"), _text("task_queue"), _time("seen_at"),
    PrimaryKeyConstraint("tenant_id", "name"),
)  # fmt: skip

stage_sessions = Table(
    "stage_sessions", metadata,
    _text("tenant_id"), _text("id"), _text("workflow"), _text("definition"), _text("stage"), _text("status"),
    _number("version"), _number("taken", BigInteger()), _number("settled_at_ms", BigInteger()), _json("sizes"),
    _number("open_actions", default=0), _text("key", null=True), _text("opening_sha256"), _time("created_at"),
    _time("updated_at"), _time("expires_at", null=True), _time("ended_at", null=True), _json("ended_reason", null=True),
    PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
_places = (desc(stage_sessions.c.created_at), desc(stage_sessions.c.id))
Index("stage_sessions_by_key", stage_sessions.c.tenant_id, stage_sessions.c.key, unique=True,
      postgresql_where=text("key is not null"))  # fmt: skip
Index("stage_sessions_by_time", stage_sessions.c.tenant_id, *_places)
Index("stage_sessions_by_workflow", stage_sessions.c.tenant_id, stage_sessions.c.workflow, *_places)
Index(
    "stage_sessions_by_stage", stage_sessions.c.tenant_id, stage_sessions.c.workflow, stage_sessions.c.stage, *_places
)
Index("stage_sessions_by_status", stage_sessions.c.tenant_id, stage_sessions.c.status, *_places)
Index("stage_sessions_due", stage_sessions.c.expires_at,
      postgresql_where=text("expires_at is not null and open_actions = 0"))  # fmt: skip

stage_values = Table(
    "stage_values", metadata,
    _text("tenant_id"), _text("session_id"), _text("key"), Column("value", LargeBinary(), nullable=False),
    PrimaryKeyConstraint("tenant_id", "session_id", "key"),
)  # fmt: skip

stage_actions = Table(
    "stage_actions", metadata,
    _text("tenant_id"), _text("session_id"), _number("ordinal", BigInteger()), _text("id"), _text("kind"), _json("name"),
    Column("body", LargeBinary(), nullable=False), _text("sha256"), _text("idempotency_key", null=True), _text("state"),
    _text("stage", default=""), _text("to_stage", null=True), _number("attempt", default=0), _text("try_id", null=True),
    _number("http", null=True), Column("reply", LargeBinary()), _time("accepted_at"), _time("started_at", null=True),
    _time("settled_at", null=True), PrimaryKeyConstraint("tenant_id", "session_id", "ordinal"),
    UniqueConstraint("tenant_id", "session_id", "id"), UniqueConstraint("tenant_id", "session_id", "idempotency_key"),
)  # fmt: skip
Index("stage_actions_open", stage_actions.c.tenant_id, stage_actions.c.session_id, stage_actions.c.ordinal,
      postgresql_where=text("state <> 'settled'"))  # fmt: skip
Index("stage_actions_queued", stage_actions.c.accepted_at, postgresql_where=text("state = 'queued'"))
Index("stage_actions_started", stage_actions.c.started_at,
      postgresql_where=text("started_at is not null and settled_at is null"))  # fmt: skip

stage_waits = Table(
    "stage_waits", metadata,
    _text("tenant_id"), _text("session_id"), _number("ordinal", BigInteger()), _text("kind"), _number("attempt"),
    _time("asked_at"), _time("expires_at", null=True), _json("answer", null=True), _json("answered_by", null=True),
    _json("reason", null=True), _time("answered_at", null=True),
    Column("closed", Boolean(), nullable=False, server_default=false()),
    PrimaryKeyConstraint("tenant_id", "session_id", "ordinal", "kind", "attempt"),
)  # fmt: skip
Index("stage_waits_open", stage_waits.c.tenant_id, stage_waits.c.asked_at, stage_waits.c.session_id,
      stage_waits.c.ordinal, postgresql_where=text("answered_at is null and not closed"))  # fmt: skip
Index("stage_waits_answered", stage_waits.c.answered_at,
      postgresql_where=text("answered_at is not null and not closed"))  # fmt: skip
