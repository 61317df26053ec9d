"""The tables of UAMP's sessions. They are among `perdure.store.tables`, whose rules hold for them too."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)

from perdure.store.columns import SCHEMA, metadata
from perdure.store.columns import json_column as _json
from perdure.store.columns import number_column as _number
from perdure.store.columns import text_column as _text
from perdure.store.columns import time_column as _time

uamp_sessions = Table(
    "uamp_sessions", metadata,
    _text("tenant_id"), _text("id"), _text("session_id"), _text("agent"), _text("principal"), _text("user_id"),
    _json("username", null=True), _json("chat", null=True), Column("state", LargeBinary(), nullable=False),
    _time("token_expires_at", null=True), _json("payment", null=True), _number("told_log", BigInteger(), default=0),
    _number("told_mail", BigInteger(), default=0), _number("last_mail", BigInteger(), default=0),
    _number("last_taken", BigInteger(), default=0), _number("version", default=0), _time("created_at"),
    _time("last_seen_at"), _time("ended_at", null=True), _json("ended_reason", null=True),
    PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
Index("uamp_sessions_of_chat", uamp_sessions.c.tenant_id, uamp_sessions.c.session_id, uamp_sessions.c.id)
Index("uamp_sessions_idle", uamp_sessions.c.last_seen_at, postgresql_where=text("ended_at is null"))
Index("uamp_sessions_ended", uamp_sessions.c.ended_at, postgresql_where=text("ended_at is not null"))

uamp_taken = Table(
    "uamp_taken", metadata,
    _text("tenant_id"), _text("session_id"), _text("uamp_session"), _number("ordinal", BigInteger()),
    _text("event_sha256"), Column("body", LargeBinary()), _text("response", null=True), _time("taken_at"),
    PrimaryKeyConstraint("tenant_id", "uamp_session", "ordinal"),
    UniqueConstraint("tenant_id", "uamp_session", "event_sha256"),
)  # fmt: skip
Index("uamp_taken_of_chat", uamp_taken.c.tenant_id, uamp_taken.c.session_id)
Index("uamp_taken_inputs", uamp_taken.c.tenant_id, uamp_taken.c.uamp_session, uamp_taken.c.ordinal,
      postgresql_where=text("body is not null"))  # fmt: skip
Index("uamp_taken_old", uamp_taken.c.taken_at, postgresql_where=text("body is null"))

uamp_responses = Table(
    "uamp_responses", metadata,
    _text("tenant_id"), _text("id"), _text("session_id"), _text("uamp_session"),
    Column("asked", LargeBinary(), nullable=False), _text("request_sha256", null=True), _text("run_id", null=True),
    _time("made_at"), _time("begun_at", null=True), _time("ended_at", null=True), PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
Index("uamp_responses_of_chat", uamp_responses.c.tenant_id, uamp_responses.c.session_id, uamp_responses.c.made_at)
Index("uamp_responses_of_session", uamp_responses.c.tenant_id, uamp_responses.c.uamp_session)
Index("uamp_responses_unbegun", uamp_responses.c.made_at,
      postgresql_where=text("begun_at is null and ended_at is null"))  # fmt: skip

uamp_open_responses = Table(  # a view: those that have not ended, nor their runs
    "uamp_open_responses", MetaData(schema=SCHEMA),
    _text("tenant_id"), _text("id"), _text("session_id"), _text("uamp_session"),
    Column("asked", LargeBinary(), nullable=False), _text("request_sha256", null=True), _text("run_id", null=True),
    _time("made_at"), _time("begun_at", null=True), _time("ended_at", null=True),
)  # fmt: skip

uamp_mail = Table(
    "uamp_mail", metadata,
    _text("tenant_id"), _text("session_id"), _text("uamp_session"), _number("seq", BigInteger()), _text("event_id"),
    _text("type"), _json("body"), _text("note", null=True), _time("at"),
    PrimaryKeyConstraint("tenant_id", "uamp_session", "seq"),
)  # fmt: skip
Index("uamp_mail_by_note", uamp_mail.c.tenant_id, uamp_mail.c.uamp_session, uamp_mail.c.note, unique=True,
      postgresql_where=text("note is not null"))  # fmt: skip
Index("uamp_mail_of_chat", uamp_mail.c.tenant_id, uamp_mail.c.session_id)
Index("uamp_mail_old", uamp_mail.c.at)

uamp_seats = Table(
    "uamp_seats", metadata,
    _text("tenant_id"), _text("id"), _text("session_id"), _text("uamp_session"), _text("user_id"), _time("expires_at"),
    PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
Index("uamp_seats_of_chat", uamp_seats.c.tenant_id, uamp_seats.c.session_id, uamp_seats.c.user_id)
Index("uamp_seats_due", uamp_seats.c.expires_at)
