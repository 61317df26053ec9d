"""Reaching the servers from a command: by the settings, else those of the folder."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from perdure.config import Settings
from perdure.errors import ServerUnavailable
from perdure.runtime.addresses import ServerAddresses, find_addresses
from perdure.store.database import Database, is_away


def known_addresses(settings: Settings) -> ServerAddresses:
    """Where the servers are.

    Raises:
        ServerUnavailable: nobody said, and none have run in this folder or one above.
    """
    url = settings.database_url
    return find_addresses(
        temporal_address=settings.temporal_address,
        database_url=None if url is None else url.get_secret_value(),
        folder=settings.data_folder.parent,
    )


@asynccontextmanager
async def open_database(url: str) -> AsyncGenerator[Database]:
    """The database, of whatever schema; one that is away is said to be so."""
    database = Database(url)
    try:
        yield database
    except Exception as error:
        if not is_away(error):
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ServerUnavailable(f"PostgreSQL at {database.address} does not answer: {reason}") from error
    finally:
        await database.close()
