"""Sub-agents, middleware, thread trees that change, and sessions from elsewhere."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, the table and the functions."""
    for name in ("columns", "children", "middleware", "strategies"):
        run_file(f"0003_{name}.sql")
