"""The tables of signed envelopes. They are among `perdure.store.tables`, whose rules hold for them too."""

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
    false,
    text,
)

from perdure.store.columns import json_column as _json
from perdure.store.columns import metadata
from perdure.store.columns import number_column as _number
from perdure.store.columns import text_column as _text
from perdure.store.columns import time_column as _time

UNNEEDED = "session_id is null or intent = any (array['progress', 'cancel', 'confirm', 'deny', 'error'])"
"""Of an envelope: whether nothing that comes later can go on from it. The queries say these just so, as the indexes do."""

UNTAKEN = "intent = any (array['inform', 'notify']) and not joined and joined_by is null"
"""Of an envelope: whether it informs of something that nobody has taken into its session yet."""

JOINING = "joined_by = id and not joined"
"""Of an envelope: whether somebody has taken it to join a run, and has not said that it did."""

UNTOLD = "state = 'cancelled' and not is_over"
"""Of an exchange: whether it was cancelled, and its stream does not say so."""

envelopes = Table(
    "envelopes", metadata,
    _text("tenant_id"), _text("own"), _text("sender"), _text("id"), _text("intent"), _text("sha256"),
    Column("raw", LargeBinary()), _text("exchange", null=True), _text("stream_id", null=True),
    _text("session_id", null=True), _text("state"), _text("joined_by", null=True),
    Column("joined", Boolean(), nullable=False, server_default=false()), _time("at"),
    PrimaryKeyConstraint("tenant_id", "own", "sender", "id"),
)  # fmt: skip
Index("envelopes_by_sender", envelopes.c.tenant_id, envelopes.c.sender, envelopes.c.at)
Index("envelopes_by_id", envelopes.c.tenant_id, envelopes.c.id)
Index("envelopes_of_session", envelopes.c.tenant_id, envelopes.c.session_id)
Index("envelopes_of_exchange", envelopes.c.tenant_id, envelopes.c.exchange,
      postgresql_where=text("exchange is not null"))  # fmt: skip
Index("envelopes_streams", envelopes.c.tenant_id, envelopes.c.stream_id, envelopes.c.sender,
      postgresql_where=text("stream_id is not null"))  # fmt: skip
Index("envelopes_untaken", envelopes.c.tenant_id, envelopes.c.session_id,
      postgresql_where=text(UNTAKEN))  # fmt: skip
Index("envelopes_joining", envelopes.c.tenant_id, envelopes.c.at, envelopes.c.id,
      postgresql_where=text(JOINING))  # fmt: skip
Index("envelopes_before", envelopes.c.tenant_id, envelopes.c.joined_by,
      postgresql_where=text("joined_by is not null"))  # fmt: skip
Index("envelopes_old", envelopes.c.tenant_id, envelopes.c.at, postgresql_where=text(UNNEEDED))

envelope_exchanges = Table(
    "envelope_exchanges", metadata,
    _text("tenant_id"), _text("id"), _text("own"), _text("sender"), _text("worker"), _text("envelope"),
    _text("intent"), _text("stream_id"), _text("principal"), _text("session_id", null=True), _text("run_id", null=True),
    _text("state"), _number("delta_window"), _number("next_seq", BigInteger(), default=0),
    _number("sent", BigInteger(), default=-1), _number("acked", BigInteger(), default=-1),
    _number("log_seq", BigInteger(), default=0),
    _json("log_place", null=True),
    Column("is_over", Boolean(), nullable=False, server_default=false()), _json("error", null=True),
    _json("proposal", null=True), _time("opened_at"), _time("read_at"), _time("ended_at", null=True),
    PrimaryKeyConstraint("tenant_id", "id"), UniqueConstraint("tenant_id", "sender", "stream_id"),
)  # fmt: skip
Index("envelope_exchanges_of_session", envelope_exchanges.c.tenant_id, envelope_exchanges.c.session_id)
Index("envelope_exchanges_open", envelope_exchanges.c.tenant_id, envelope_exchanges.c.opened_at, envelope_exchanges.c.id,
      postgresql_where=text("ended_at is null"))  # fmt: skip
Index("envelope_exchanges_unbegun", envelope_exchanges.c.tenant_id, envelope_exchanges.c.opened_at,
      postgresql_where=text("ended_at is null and session_id is null"))  # fmt: skip
Index("envelope_exchanges_untold", envelope_exchanges.c.tenant_id, envelope_exchanges.c.opened_at,
      envelope_exchanges.c.id, postgresql_where=text(UNTOLD))  # fmt: skip
Index("envelope_exchanges_ended", envelope_exchanges.c.tenant_id, envelope_exchanges.c.ended_at,
      postgresql_where=text("ended_at is not null"))  # fmt: skip

envelope_frames = Table(
    "envelope_frames", metadata,
    _text("tenant_id"), _text("exchange"), _text("session_id", null=True), _number("seq", BigInteger()), _text("type"),
    Column("frame", LargeBinary(), nullable=False), _time("at"), PrimaryKeyConstraint("tenant_id", "exchange", "seq"),
)  # fmt: skip
Index("envelope_frames_of_session", envelope_frames.c.tenant_id, envelope_frames.c.session_id)
