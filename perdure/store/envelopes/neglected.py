"""What a process that died, or a consumer that stays away, leaves undone: found, so that the sweep can do it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import select, text, update

from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.lifecycle import State
from perdure.store.database import Database
from perdure.store.envelope_tables import UNTOLD
from perdure.store.envelopes.rows import EnvelopeRow, ExchangeRow, exchange_row
from perdure.store.envelopes.settling import own_exchange
from perdure.store.tables import envelope_exchanges, envelopes, inputs, runs

_COLUMNS: Any = envelope_exchanges.c
_KEPT: Any = envelopes.c


async def note_ended(database: Database, tenant: str, exchange_id: str, *, now: datetime) -> None:
    """What an exchange asked for has ended, whether its end was read or not: from now on it is kept for a time only."""
    own = (*own_exchange(tenant, exchange_id), _COLUMNS.ended_at.is_(None))
    async with database.transaction(tenant) as connection:
        await connection.execute(update(envelope_exchanges).where(*own).values(ended_at=now))


async def note_read(database: Database, tenant: str, exchange_id: str, *, now: datetime) -> None:
    """A consumer of an exchange's stream is connected."""
    own = own_exchange(tenant, exchange_id)
    async with database.transaction(tenant) as connection:
        await connection.execute(update(envelope_exchanges).where(*own).values(read_at=now))


async def unread_subscriptions(database: Database, tenant: str, *, before: datetime, limit: int) -> list[ExchangeRow]:
    """Subscriptions whose consumer was last connected before a time: nothing else would ever end them."""
    query = select(envelope_exchanges).where(
        _COLUMNS.tenant_id == tenant, _COLUMNS.ended_at.is_(None), _COLUMNS.intent == Intent.SUBSCRIBE.value,
        _COLUMNS.read_at < before,
    )  # fmt: skip
    return await _found(database, tenant, query, limit)


async def untold_cancels(database: Database, tenant: str, *, limit: int) -> list[ExchangeRow]:
    """Exchanges that were cancelled and whose stream does not say so yet."""
    query = select(envelope_exchanges).where(_COLUMNS.tenant_id == tenant, text(UNTOLD))
    return await _found(database, tenant, query, limit)


async def cancelled_with_open_runs(database: Database, tenant: str, *, limit: int) -> list[ExchangeRow]:
    """Exchanges that were cancelled and whose run goes on, or waits for its turn.

    They are looked for from the runs and inputs that are open: of those there are few, and of cancelled exchanges many.
    """
    running = select(runs.c.session_id, runs.c.id.label("run_id")).where(
        runs.c.tenant_id == tenant, runs.c.ended_at.is_(None)
    )
    queued = select(inputs.c.session_id, inputs.c.run_id).where(
        inputs.c.tenant_id == tenant, inputs.c.state == "queued"
    )
    goes_on: Any = running.union(queued).subquery().c
    query = select(envelope_exchanges).where(
        _COLUMNS.tenant_id == tenant, _COLUMNS.state == State.CANCELLED.value,
        _COLUMNS.session_id == goes_on.session_id, _COLUMNS.run_id == goes_on.run_id,
    )  # fmt: skip
    return await _found(database, tenant, query, limit)


async def free_inform(database: Database, row: EnvelopeRow) -> None:
    """An inform that was taken to join a run came too late for it: the session's next ask may take it."""
    own = (
        _KEPT.tenant_id == row.tenant, _KEPT.own == row.own, _KEPT.sender == row.sender, _KEPT.id == row.id,
        _KEPT.joined_by == row.id, _KEPT.joined.is_(False),
    )  # fmt: skip
    async with database.transaction(row.tenant) as connection:
        await connection.execute(update(envelopes).where(*own).values(joined_by=None))


async def _found(database: Database, tenant: str, query: Any, limit: int) -> list[ExchangeRow]:
    async with database.reading(tenant) as connection:
        rows = await connection.execute(query.order_by(_COLUMNS.opened_at, _COLUMNS.id).limit(limit))
        return [exchange_row(row) for row in rows.all()]
