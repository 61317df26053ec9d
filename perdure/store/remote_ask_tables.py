"""The tables of what was asked of agents elsewhere. They are among `perdure.store.tables`, whose rules hold for them too."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, LargeBinary, PrimaryKeyConstraint, Table, false, text

from perdure.store.columns import json_column as _json
from perdure.store.columns import metadata
from perdure.store.columns import number_column as _number
from perdure.store.columns import text_column as _text
from perdure.store.columns import time_column as _time

remote_asks = Table(
    "remote_asks", metadata,
    _text("tenant_id"), _text("id"), _text("session_id"), _text("run_id"), _text("message_id"), _number("index"),
    _text("wait_id"), _text("agent"), _text("tool"), _text("url"), _text("binding"),
    Column("signed", Boolean(), nullable=False), _text("peer", null=True), _text("own", null=True),
    Column("asked", LargeBinary(), nullable=False), Column("envelope", LargeBinary()), _text("stream_id"),
    Column("accepted", Boolean(), nullable=False, server_default=false()), _number("next_seq", default=0),
    _number("failures", default=0), _json("problem", null=True), _time("due_at"), _text("lease_by", null=True),
    _time("lease_until", null=True), _text("outcome", null=True), _time("made_at"), _time("ended_at", null=True),
    PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
Index("remote_asks_of_session", remote_asks.c.tenant_id, remote_asks.c.session_id)
Index("remote_asks_due", remote_asks.c.tenant_id, remote_asks.c.due_at, postgresql_where=text("ended_at is null"))

remote_ask_frames = Table(
    "remote_ask_frames", metadata,
    _text("tenant_id"), _text("session_id"), _text("ask"), _number("seq"),
    Column("frame", LargeBinary(), nullable=False), PrimaryKeyConstraint("tenant_id", "ask", "seq"),
)  # fmt: skip
Index("remote_ask_frames_of_session", remote_ask_frames.c.tenant_id, remote_ask_frames.c.session_id)
