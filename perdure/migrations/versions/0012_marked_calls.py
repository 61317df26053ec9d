"""Tool calls that are made with their answer are marked by the transaction that stores it."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace the function that stores an answer."""
    run_file("0012_marked_calls.sql")
