"""The tables and functions of the first slice."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the schema's tables and functions."""
    run_file("0001_tables.sql")
    run_file("0001_functions.sql")
