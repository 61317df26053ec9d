"""The keys that sign for the agents that are served here, as the database keeps them: for all replicas, sealed if there are keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import ColumnElement, delete, desc, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.store.sealing import seal_in
from perdure.store.tables import envelope_keys
from perdure.uap.session_key import SessionKey

_ONE_AT_A_TIME = text("select pg_advisory_xact_lock(hashtext('perdure.envelope_keys'))")
_COLUMNS = (
    envelope_keys.c.did,
    envelope_keys.c.id,
    envelope_keys.c.private_key,
    envelope_keys.c.made_at,
    envelope_keys.c.retired_at,
)


@dataclass(frozen=True, slots=True)
class EnvelopeKeyRow:
    """A private key of an agent.

    Attributes:
        did: whose it is.
        id: the fragment of its DID URL.
        private_key: a private JWK, as JSON.
        made_at: since when it is published.
        retired_at: since when it signs no more; None if it may.
    """

    did: str
    id: str
    private_key: bytes = field(repr=False)
    made_at: datetime
    retired_at: datetime | None = None

    @property
    def kid(self) -> str:
        """The DID URL that names it."""
        return f"{self.did}#{self.id}"


async def read_envelope_keys(database: Database, tenant: str, did: str | None = None) -> list[EnvelopeKeyRow]:
    """The keys of an agent, newest first; of all agents, by their names, if none is named."""
    async with database.transaction(tenant) as connection:
        return await _read(connection, tenant, did)


async def add_envelope_key(
    database: Database, tenant: str, key: EnvelopeKeyRow, *, only_first: bool
) -> list[EnvelopeKeyRow]:
    """Keep a key.

    Args:
        database: the store.
        tenant: whose agent it is.
        key: is new.
        only_first: keep it only if the agent has none that may sign.

    Returns:
        All keys that the agent has now, newest first.
    """
    values = {"tenant_id": tenant, "did": key.did, "id": key.id, "private_key": key.private_key}
    async with database.transaction(tenant) as connection:
        await connection.execute(_ONE_AT_A_TIME)
        there = await _read(connection, tenant, key.did) if only_first else []
        if all(row.retired_at is not None for row in there):
            sealed = seal_in(connection, SessionKey(tenant, key.id)).row(envelope_keys, values)
            row = {**sealed, "made_at": key.made_at, "retired_at": key.retired_at}
            await connection.execute(upsert(envelope_keys).values(row).on_conflict_do_nothing())
        return await _read(connection, tenant, key.did)


async def retire_envelope_key(database: Database, tenant: str, did: str, ident: str, *, now: datetime) -> bool:
    """Have a key sign no more; whether there was one of this id that did not do so already."""
    wanted = (*_one(tenant, did, ident), envelope_keys.c.retired_at.is_(None))
    async with database.transaction(tenant) as connection:
        return bool((await connection.execute(update(envelope_keys).where(*wanted).values(retired_at=now))).rowcount)


async def delete_envelope_key(database: Database, tenant: str, did: str, ident: str) -> bool:
    """Delete a key; whether there was one of this id."""
    async with database.transaction(tenant) as connection:
        statement = delete(envelope_keys).where(*_one(tenant, did, ident))
        return bool((await connection.execute(statement)).rowcount)


def _one(tenant: str, did: str, ident: str) -> tuple[ColumnElement[bool], ...]:
    return (envelope_keys.c.tenant_id == tenant, envelope_keys.c.did == did, envelope_keys.c.id == ident)


async def _read(connection: AsyncConnection, tenant: str, did: str | None) -> list[EnvelopeKeyRow]:
    query = select(*_COLUMNS).where(envelope_keys.c.tenant_id == tenant)
    if did is not None:
        query = query.where(envelope_keys.c.did == did)
    query = query.order_by(envelope_keys.c.did, desc(envelope_keys.c.made_at), envelope_keys.c.id)
    return [EnvelopeKeyRow(*row) for row in (await connection.execute(query)).all()]
