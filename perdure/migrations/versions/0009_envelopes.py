"""Signed messages between agents: envelopes, their exchanges and streams, the keys that sign, and what is asked of others."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

FILES: tuple[str, ...] = ("envelopes", "envelope_keys", "remote_asks")


def upgrade() -> None:
    """Add each part's tables and functions."""
    for name in FILES:
        run_file(f"0009_{name}.sql")
