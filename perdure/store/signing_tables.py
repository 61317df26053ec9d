"""The table of the keys that sign responses. It is among `perdure.store.tables`, whose rules hold for it too."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, PrimaryKeyConstraint, Table

from perdure.store.columns import metadata
from perdure.store.columns import text_column as _text
from perdure.store.columns import time_column as _time

signing_keys = Table(
    "signing_keys", metadata,
    _text("tenant_id"), _text("id"), Column("private_key", LargeBinary(), nullable=False), _time("made_at"),
    PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
