"""Lists of sessions by metadata: the keys that a deployment allows, and each session's values of them."""

from __future__ import annotations

from perdure.migrations.sql import run_file

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables, and the triggers that keep them."""
    run_file("0010_labels.sql")
