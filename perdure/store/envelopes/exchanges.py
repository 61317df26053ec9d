"""Finding exchanges, and the envelopes that opened them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, cast

from sqlalchemy import exists, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.store.database import Database
from perdure.store.envelopes.rows import ExchangeRow, exchange_id, exchange_row
from perdure.store.envelopes.settling import own_exchange
from perdure.store.tables import envelope_exchanges, envelopes, inputs, runs
from perdure.uap.session_key import SessionKey

_COLUMNS: Any = envelope_exchanges.c
_OPEN = _COLUMNS.ended_at.is_(None)


async def find_exchange(database: Database, tenant: str, exchange_id: str) -> ExchangeRow | None:
    """An exchange by its id; None if it is not there, or not any more."""
    async with database.reading(tenant) as connection:
        return await exchange_in(connection, tenant, exchange_id)


async def exchange_in(connection: AsyncConnection, tenant: str, exchange_id: str) -> ExchangeRow | None:
    """The same within a transaction; its row is not held."""
    return await _first(connection, *own_exchange(tenant, exchange_id))


async def find_stream(database: Database, tenant: str, stream_id: str, *, peer: str) -> ExchangeRow | None:
    """The exchange of a stream; None if its opener has none of that id, or not any more.

    Args:
        database: the store.
        tenant: whose.
        stream_id: as its opener knows it.
        peer: who asks: the DID of its opener.
    """
    own = (_COLUMNS.tenant_id == tenant, _COLUMNS.sender == peer, _COLUMNS.stream_id == stream_id)
    async with database.reading(tenant) as connection:
        return await _first(connection, *own)


async def named_stream(database: Database, tenant: str, stream_id: str, *, peer: str) -> ExchangeRow:
    """The same, for whoever must have it.

    Raises:
        UAMPError: 4.10 if it was there; 4.04 if it was not, or is another's.
    """
    found = await find_stream(database, tenant, stream_id, peer=peer)
    if found is not None:
        return found
    if await _was_stream(database, tenant, stream_id, peer=peer):
        raise UAMPError(Code.EXPIRED, "this stream has ended and is kept no more")
    raise UAMPError(Code.UNKNOWN_STREAM, "no such stream")


async def find_by_envelope(
    database: Database, tenant: str, own: str, sender: str, envelope_id: str
) -> ExchangeRow | None:
    """The exchange that an envelope opened.

    Args:
        database: the store.
        tenant: whose.
        own: the DID of ours that the envelope was for.
        sender: its `from`.
        envelope_id: its id as a UUID in lower case.
    """
    return await find_exchange(database, tenant, exchange_id(own, sender, envelope_id))


async def opening_envelope(database: Database, row: ExchangeRow) -> bytes | None:
    """The envelope that opened an exchange, as it was received; None if its session has been deleted."""
    envelope = str(row.exchange.id)
    own = (
        envelopes.c.tenant_id == row.tenant, envelopes.c.own == row.own, envelopes.c.sender == row.sender,
        envelopes.c.id == envelope,
    )  # fmt: skip
    async with database.reading(SessionKey(row.tenant, envelope)) as connection:
        return cast("bytes | None", await connection.scalar(select(envelopes.c.raw).where(*own)))


async def unbegun_exchanges(
    database: Database, tenant: str, *, before: datetime, limit: int, intents: Collection[Intent] = (Intent.ASK,)
) -> list[ExchangeRow]:
    """Exchanges in progress of which no session is known yet, oldest first: who was to begin them may have died.

    Args:
        database: the store.
        tenant: whose.
        before: only those that were opened before this time.
        limit: how many at most.
        intents: only those that an envelope of such an intent opened.
    """
    query = select(envelope_exchanges).where(
        _COLUMNS.tenant_id == tenant, _OPEN, _COLUMNS.session_id.is_(None), _COLUMNS.opened_at < before,
        _COLUMNS.intent.in_([intent.value for intent in intents]),
    )  # fmt: skip
    async with database.reading(tenant) as connection:
        rows = await connection.execute(query.order_by(_COLUMNS.opened_at, _COLUMNS.id).limit(limit))
        return [exchange_row(row) for row in rows.all()]


async def exchanges_of_ended_runs(database: Database, tenant: str, *, limit: int) -> list[ExchangeRow]:
    """Exchanges in progress whose run is over, or was withdrawn before it began, oldest first.

    Args:
        database: the store.
        tenant: whose.
        limit: how many at most.
    """
    of_run = (
        runs.c.tenant_id == _COLUMNS.tenant_id,
        runs.c.session_id == _COLUMNS.session_id,
        runs.c.id == _COLUMNS.run_id,
    )
    of_input = (
        inputs.c.tenant_id == _COLUMNS.tenant_id, inputs.c.session_id == _COLUMNS.session_id,
        inputs.c.run_id == _COLUMNS.run_id,
    )  # fmt: skip
    # One look for each exchange: of those that are open there are few, and of runs that are over many.
    ended = select(runs.c.ended_at).where(*of_run).scalar_subquery().is_not(None)
    withdrawn = select(func.count()).where(*of_input, inputs.c.state == "withdrawn").scalar_subquery() > 0
    query = select(envelope_exchanges).where(
        _COLUMNS.tenant_id == tenant, _OPEN, _COLUMNS.run_id.is_not(None), ended | withdrawn
    )
    async with database.reading(tenant) as connection:
        rows = await connection.execute(query.order_by(_COLUMNS.opened_at, _COLUMNS.id).limit(limit))
        return [exchange_row(row) for row in rows.all()]


async def list_proposals(database: Database, tenant: str, *, after: str | None, limit: int) -> list[ExchangeRow]:
    """Proposals that wait for an answer, oldest first.

    Args:
        database: the store.
        tenant: whose.
        after: the id of the last one of the page before, answered or not; None for the first page.
        limit: how many at most.
    """
    query = select(envelope_exchanges).where(
        _COLUMNS.tenant_id == tenant, _OPEN, _COLUMNS.intent == Intent.PROPOSE.value
    )
    if after is not None:
        last = select(_COLUMNS.opened_at, _COLUMNS.id).where(*own_exchange(tenant, after)).subquery()
        query = query.where(
            tuple_(_COLUMNS.opened_at, _COLUMNS.id) > select(last.c.opened_at, last.c.id).scalar_subquery()
        )
    async with database.reading(tenant) as connection:
        rows = await connection.execute(query.order_by(_COLUMNS.opened_at, _COLUMNS.id).limit(limit))
        return [exchange_row(row) for row in rows.all()]


async def _first(connection: AsyncConnection, *own: Any) -> ExchangeRow | None:
    row = (await connection.execute(select(envelope_exchanges).where(*own))).first()
    return None if row is None else exchange_row(row)


async def _was_stream(database: Database, tenant: str, stream_id: str, *, peer: str) -> bool:
    """Whether an envelope of this opener is remembered that opened a stream of that id, which may be gone."""
    own = (envelopes.c.tenant_id == tenant, envelopes.c.stream_id == stream_id, envelopes.c.sender == peer)
    async with database.reading(tenant) as connection:
        return bool(await connection.scalar(select(exists().where(*own))))
