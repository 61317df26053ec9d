"""The table of the keys that sign for agents. It is among `perdure.store.tables`, whose rules hold for it too."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, PrimaryKeyConstraint, Table

from perdure.store.columns import metadata
from perdure.store.columns import text_column as _text
from perdure.store.columns import time_column as _time

envelope_keys = Table(
    "envelope_keys", metadata,
    _text("tenant_id"), _text("did"), _text("id"), Column("private_key", LargeBinary(), nullable=False),
    _time("made_at"), _time("retired_at", null=True), PrimaryKeyConstraint("tenant_id", "did", "id"),
)  # fmt: skip
