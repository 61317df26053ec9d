"""Limits over all workers, encryption of what is stored, and what operators need."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

FILES: tuple[str, ...] = ("pages", "limits", "sealed", "trace")


def upgrade() -> None:
    """Add each part's columns, tables and functions."""
    for name in FILES:
        run_file(f"0005_{name}.sql")
