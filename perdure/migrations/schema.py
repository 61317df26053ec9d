"""Which schema this version needs, and whether a database has it: without loading the migration tool."""

from __future__ import annotations

from sqlalchemy import text

from perdure.errors import SchemaOutdated, ServerUnavailable
from perdure.store.database import Database, is_away

HEAD_REVISION = "0012"


async def check_schema(database: Database) -> None:
    """See that the server answers and the schema is this version's.

    Raises:
        ServerUnavailable: it does not answer.
        SchemaOutdated: the schema is missing, older or newer.
    """
    try:
        found = await _revision(database)
    except Exception as error:
        if not is_away(error):
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ServerUnavailable(
            f"PostgreSQL at {database.address} does not answer: {reason}; "
            "is it running? `perdure dev MODULE:APP` starts one"
        ) from error
    if found is not None and found > HEAD_REVISION:
        raise SchemaOutdated(
            f"the schema at {database.address} is at revision {found}, newer than {HEAD_REVISION} which this version "
            "knows; upgrade perdure"
        )
    if found != HEAD_REVISION:
        raise SchemaOutdated(
            f"the schema at {database.address} is at revision {found or 'none'}, this version needs "
            f"{HEAD_REVISION}; run `perdure migrate`"
        )


async def _revision(database: Database) -> str | None:
    async with database.transaction() as connection:
        exists = await connection.scalar(text("select to_regclass('perdure.alembic_version') is not null"))
        if not exists:
            return None
        return await connection.scalar(text("select version_num from perdure.alembic_version"))
