"""Control: input policies, approvals, limits, keys."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

FILES = ("inbox", "waits", "keys", "events")


def upgrade() -> None:
    """Add each part's columns, tables and functions."""
    for name in FILES:
        run_file(f"0004_{name}.sql")
