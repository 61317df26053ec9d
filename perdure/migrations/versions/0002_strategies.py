"""What strategies need besides the conversation: messages of their own, and turns that a hook made."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and the functions."""
    run_file("0002_strategies.sql")
