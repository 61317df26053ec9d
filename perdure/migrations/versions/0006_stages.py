"""Stage workflows: their definitions, sessions, values, actions and waits."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

FILES = ("stages",)


def upgrade() -> None:
    """Add each part's columns, tables and functions."""
    for name in FILES:
        run_file(f"0006_{name}.sql")
