"""The keys that sign responses, as the database keeps them: of the deployment, for all replicas, sealed if there are keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import delete, desc, func, select, text
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.store.sealing import seal_in
from perdure.store.tables import signing_keys
from perdure.uap.session_key import SessionKey

EVERYBODY = "*"
_ONE_AT_A_TIME = text("select pg_advisory_xact_lock(hashtext('perdure.signing_keys'))")
_COLUMNS = (signing_keys.c.id, signing_keys.c.private_key, signing_keys.c.made_at)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A private key.

    Attributes:
        id: the thumbprint of its public part.
        private_key: PKCS #8, DER.
    """

    id: str
    private_key: bytes = field(repr=False)
    made_at: datetime


async def read_signing_keys(database: Database) -> list[StoredKey]:
    """All keys, newest first."""
    async with database.transaction(EVERYBODY) as connection:
        return await _read(connection)


async def add_signing_key(database: Database, ident: str, private_key: bytes, *, only_first: bool) -> list[StoredKey]:
    """Keep a key.

    Args:
        database: the store.
        ident: the thumbprint of its public part.
        private_key: PKCS #8, DER.
        only_first: keep it only if there is none.

    Returns:
        All keys there are now, newest first.
    """
    key = SessionKey(EVERYBODY, ident)
    values = {"tenant_id": EVERYBODY, "id": ident, "private_key": private_key}
    async with database.transaction(EVERYBODY) as connection:
        await connection.execute(_ONE_AT_A_TIME)
        if not only_first or not await _read(connection):
            row = {**seal_in(connection, key).row(signing_keys, values), "made_at": func.clock_timestamp()}
            await connection.execute(upsert(signing_keys).values(row).on_conflict_do_nothing())
        return await _read(connection)


async def delete_signing_key(database: Database, ident: str) -> bool:
    """Delete a key; whether there was one of this id."""
    own = (signing_keys.c.tenant_id == EVERYBODY, signing_keys.c.id == ident)
    async with database.transaction(EVERYBODY) as connection:
        return bool((await connection.execute(delete(signing_keys).where(*own))).rowcount)


async def _read(connection: AsyncConnection) -> list[StoredKey]:
    query = select(*_COLUMNS).where(signing_keys.c.tenant_id == EVERYBODY).order_by(desc(signing_keys.c.made_at))
    return [StoredKey(*row) for row in (await connection.execute(query)).all()]
