"""Conversations of other protocols: their sessions, chats and payments."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

FILES: tuple[str, ...] = ("uamp", "payments", "signing")


def upgrade() -> None:
    """Add each part's tables and functions."""
    for name in FILES:
        run_file(f"0008_{name}.sql")
