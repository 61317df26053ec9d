"""Alembic's entry: runs the revisions on the connection that `perdure.migrations.migrate` hands in."""

from __future__ import annotations

from alembic import context

from perdure.store.tables import SCHEMA

context.configure(
    connection=context.config.attributes["connection"],
    version_table_schema=SCHEMA,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
