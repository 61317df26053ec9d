"""Media by id, and prepaid balances that runs are paid from."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

FILES: tuple[str, ...] = ("content", "payments")


def upgrade() -> None:
    """Add each part's tables and functions."""
    for name in FILES:
        run_file(f"0007_{name}.sql")
