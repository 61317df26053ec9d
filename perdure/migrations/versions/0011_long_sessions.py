"""Long sessions: what PostgreSQL is to count on, and an index for the strategies' own messages."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index, and tell the planner."""
    run_file("0011_long_sessions.sql")
