"""Reaching the servers from a command: those of the settings, else those of the folder."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.config import Settings, load_settings
from perdure.errors import ServerUnavailable
from perdure.migrations.schema import check_schema
from perdure.runtime.addresses import ServerAddresses, find_addresses
from perdure.store.database import Database, is_away
from perdure.store.encryption_keys import check_keys
from perdure.store.keyring import NO_KEYS, Keyring, parse_keys
from perdure.uap.session_key import SessionKey, known_session_id

if TYPE_CHECKING:  # Temporal's client takes long to import, and what only reads does without
    from perdure.runtime.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Store:
    """What a reading command needs.

    Attributes:
        database: of this version's schema.
        settings: of this process.
        addresses: where the servers are; of Temporal it is only known, not that it answers.
    """

    database: Database
    settings: Settings
    addresses: ServerAddresses

    @property
    def tenant(self) -> str:
        """Whose rows are read."""
        return self.settings.tenant

    def key(self, session: str) -> SessionKey:
        """The key of a session that the user named.

        Raises:
            InvalidInput: the id cannot be one.
        """
        return SessionKey(self.tenant, known_session_id(session))


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
        keyring=known_keyring(settings),
    )


def known_keyring(settings: Settings) -> Keyring:
    """The keys of what is sealed.

    Raises:
        InvalidInput: they cannot be used.
    """
    return parse_keys("" if settings.encryption_keys is None else settings.encryption_keys.get_secret_value())


@asynccontextmanager
async def open_database(url: str, keyring: Keyring = NO_KEYS) -> AsyncGenerator[Database]:
    """The database, of whatever schema.

    Raises:
        ServerUnavailable: inside the block, it was away.
    """
    database = Database(url, keyring=keyring)
    try:
        yield database
    except Exception as error:
        if not is_away(error):
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ServerUnavailable(f"PostgreSQL at {database.address} does not answer: {reason}") from error
    finally:
        await database.close()


@asynccontextmanager
async def open_store() -> AsyncGenerator[Store]:
    """What reading needs: PostgreSQL. Temporal may be away.

    Raises:
        ServerUnavailable: it is unknown or does not answer.
        SchemaOutdated: it needs `perdure migrate`.
    """
    settings = load_settings()
    addresses = known_addresses(settings)
    async with open_database(addresses.database_url, addresses.keyring) as database:
        await check_schema(database)
        await check_keys(database)
        yield Store(database, settings, addresses)


@asynccontextmanager
async def open_sessions(tenant: str | None = None) -> AsyncGenerator[Sessions]:
    """What submitting and controlling needs: both servers.

    Args:
        tenant: whose sessions; by default the configured tenant's.

    Raises:
        ServerUnavailable: one of them is unknown or does not answer.
        SchemaOutdated: the database needs `perdure migrate`.
    """
    from perdure.runtime.connect import connect

    settings = load_settings(tenant=tenant)
    addresses = known_addresses(settings)
    async with connect(
        temporal_address=addresses.temporal,
        database_url=addresses.database_url,
        namespace=settings.temporal_namespace,
        tenant=settings.tenant,
        keyring=addresses.keyring,
    ) as sessions:
        yield sessions
