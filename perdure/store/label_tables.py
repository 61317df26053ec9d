"""The tables by which sessions are listed by metadata. They are among `perdure.store.tables`, whose rules hold for them too."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, PrimaryKeyConstraint, Table, desc

from perdure.store.columns import metadata
from perdure.store.columns import number_column as _number
from perdure.store.columns import text_column as _text
from perdure.store.columns import time_column as _time

filterable_keys = Table(
    "filterable_keys", metadata,
    _text("tenant_id"), _text("key"), _text("state"), _number("horizon", BigInteger(), null=True),
    _text("after_tenant"), _text("after_session"), PrimaryKeyConstraint("tenant_id", "key"),
)  # fmt: skip

session_labels = Table(
    "session_labels", metadata,
    _text("tenant_id"), _text("session_id"), _text("key"), _text("value"), _text("status"), _time("created_at"),
    PrimaryKeyConstraint("tenant_id", "session_id", "key"),
)  # fmt: skip
Index("session_labels_by_value", session_labels.c.key, session_labels.c.tenant_id, session_labels.c.value,
      desc(session_labels.c.created_at), desc(session_labels.c.session_id))  # fmt: skip
Index("session_labels_by_status", session_labels.c.key, session_labels.c.tenant_id, session_labels.c.value,
      session_labels.c.status, desc(session_labels.c.created_at), desc(session_labels.c.session_id))  # fmt: skip

unlabelled_sessions = Table(
    "unlabelled_sessions", metadata,
    _text("tenant_id"), _text("session_id"), PrimaryKeyConstraint("tenant_id", "session_id"),
)  # fmt: skip
