"""Where the keys come from that sign responses: a file of the operator's, the database, or nowhere."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from perdure.errors import InvalidInput
from perdure.protocols.uamp_events.signing_key import SigningKey, key_of_der, keys_of_pem, new_key
from perdure.store.database import Database
from perdure.store.signing_keys import StoredKey, add_signing_key, read_signing_keys

STORED = "stored"
NONE = "none"
PUBLISHED_BEFORE = timedelta(minutes=2)
"""For so long a new key is only published, if there is another: by then every process, and every cache of the key set, has it."""


class ReadsKeys(Protocol):
    """Reads the keys of a deployment."""

    async def __call__(self) -> list[SigningKey]:
        """All keys that are published; the first signs. None at all: nothing is signed."""
        ...


def keys_from(setting: str, database: Database) -> ReadsKeys:
    """What reads the keys.

    Args:
        setting: `stored`, `none`, or a PEM file.
        database: keeps them, if they are stored.

    Raises:
        InvalidInput: the file has no key that can sign.
    """
    if setting == STORED:
        return lambda: stored_keys(database)
    if setting == NONE:
        return _no_keys
    file = Path(setting).expanduser().absolute()
    _keys_in(file)  # refuses now, not at the first response
    return lambda: asyncio.to_thread(_keys_in, file)


async def stored_keys(database: Database) -> list[SigningKey]:
    """The keys of the database, the one that signs first; made if there is none."""
    rows = await read_signing_keys(database)
    if not rows:
        rows = await keep_new_key(database, only_first=True)
    return [key_of_der(row.private_key) for row in signing_first(rows, datetime.now(UTC))]


async def keep_new_key(database: Database, *, only_first: bool) -> list[StoredKey]:
    """Make a key and keep it.

    Args:
        database: the store.
        only_first: only if there is none.

    Returns:
        All keys there are now, newest first.
    """
    made = await asyncio.to_thread(new_key)
    return await add_signing_key(database, made.kid, made.to_der(), only_first=only_first)


def signing_first(rows: list[StoredKey], now: datetime) -> list[StoredKey]:
    """Keys with the one first that signs: the newest that has been published for long enough, else the oldest.

    Args:
        rows: newest first.
        now: the time.
    """
    signs = next((row for row in rows if row.made_at <= now - PUBLISHED_BEFORE), rows[-1])
    return [signs, *(row for row in rows if row is not signs)]


def _keys_in(file: Path) -> list[SigningKey]:
    try:
        document = file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{file} (PERDURE_SIGNING_KEY) cannot be read: {error.strerror or error}") from error
    return keys_of_pem(document, f"{file} (PERDURE_SIGNING_KEY)")


async def _no_keys() -> list[SigningKey]:
    return []
