"""Bring a database to this version's schema. Many processes may try at once: one does it, the others wait for it."""

from __future__ import annotations

from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from perdure.errors import SchemaOutdated
from perdure.migrations.schema import HEAD_REVISION
from perdure.store.database import Database

_LOCK = 7_237_461_001  # any constant: the advisory lock that migrating processes share


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("perdure.migrations")))
    return config


def current_revision(connection: Connection) -> str | None:
    """The revision a database is at, or None if it was never migrated."""
    context = MigrationContext.configure(connection, opts={"version_table_schema": "perdure"})
    return context.get_current_revision()


def _upgrade(connection: Connection) -> tuple[str | None, str]:
    connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    connection.execute(text("create schema if not exists perdure"))
    before = current_revision(connection)
    known = {revision.revision for revision in ScriptDirectory.from_config(_config()).walk_revisions()}
    if before is not None and before not in known:
        raise SchemaOutdated(f"the schema is at revision {before}, newer than this version knows; upgrade perdure")
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    return before, HEAD_REVISION


async def migrate(database: Database) -> tuple[str | None, str]:
    """Run every revision that is missing, in one transaction.

    Returns:
        The revision before (None for an empty database) and after.

    Raises:
        SchemaOutdated: the database belongs to a newer version.
    """
    async with database.transaction() as connection:
        return await connection.run_sync(_upgrade)
