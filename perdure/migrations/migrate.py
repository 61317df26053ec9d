"""Bring a database to this version's schema. Many processes may try at once: one does it, the others wait for it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from perdure.errors import SchemaOutdated, ServerUnavailable
from perdure.store.database import Database, is_away

_LOCK = 7_237_461_001  # any constant: the advisory lock that migrating processes share


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("perdure.migrations")))
    return config


@cache
def head_revision() -> str:
    """The revision that this version of the code needs."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None, "the package ships at least one revision"
    return head


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
    return before, head_revision()


async def migrate(database: Database) -> tuple[str | None, str]:
    """Run every revision that is missing, in one transaction.

    Returns:
        The revision before (None for an empty database) and after.

    Raises:
        SchemaOutdated: the database belongs to a newer version.
    """
    async with database.transaction() as connection:
        return await connection.run_sync(_upgrade)


async def check_schema(database: Database) -> None:
    """See that the server answers and the schema is this version's.

    Raises:
        ServerUnavailable: it does not answer.
        SchemaOutdated: the schema is missing, older or newer.
    """
    try:
        async with database.transaction() as connection:
            found = await connection.run_sync(current_revision)
    except Exception as error:
        if not is_away(error):
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ServerUnavailable(f"PostgreSQL at {database.address} does not answer: {reason}") from error
    if found != head_revision():
        raise SchemaOutdated(
            f"the schema at {database.address} is at revision {found or 'none'}, this version needs "
            f"{head_revision()}; run `perdure migrate`"
        )
