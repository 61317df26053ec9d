"""Holding an exchange's row, and taking its steps. A terminal state stays, whatever comes late."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.protocols.uamp_envelope.lifecycle import Step
from perdure.store.database import Database
from perdure.store.envelopes.rows import ExchangeRow, exchange_row
from perdure.store.sealing import seal_in
from perdure.store.tables import envelope_exchanges, envelopes
from perdure.upp.json_value import JSONObject


async def hold_exchange(connection: AsyncConnection, tenant: str, exchange_id: str) -> ExchangeRow | None:
    """An exchange, its row locked until the transaction ends; None if it is not there, or not any more."""
    query = select(envelope_exchanges).where(*own_exchange(tenant, exchange_id)).with_for_update()
    row = (await connection.execute(query)).first()
    return None if row is None else exchange_row(row)


async def settle(
    database: Database, tenant: str, exchange_id: str, step: Step, *, now: datetime, error: JSONObject | None = None
) -> ExchangeRow | None:
    """Take a step of an exchange in a transaction of its own; see `advance`.

    Returns:
        The exchange as it is then; None if there is none.
    """
    async with database.transaction(tenant) as connection:
        row = await hold_exchange(connection, tenant, exchange_id)
        return None if row is None else await advance(connection, row, step, now=now, error=error)


async def advance(
    connection: AsyncConnection, row: ExchangeRow, step: Step, *, now: datetime, error: JSONObject | None = None
) -> ExchangeRow:
    """Take a step of an exchange whose row is held.

    Args:
        connection: of the transaction that holds it.
        row: the exchange.
        step: what happened.
        now: the time; when it ended, if it ends now.
        error: the error object, if an error ends it.

    Returns:
        The exchange as it is then: unchanged if it had ended.
    """
    state = row.exchange.stepped(step).state
    if state is row.state:
        return row
    changed: dict[str, Any] = {"state": state.value}
    if state.is_terminal:
        changed["ended_at"] = now
    if error is not None:
        changed["error"] = error
    sealed = seal_in(connection, row.key).row(envelope_exchanges, changed)
    statement = update(envelope_exchanges).where(*own_exchange(row.tenant, row.id)).values(sealed)
    fresh = (await connection.execute(statement.returning(envelope_exchanges))).one()
    await connection.execute(update(envelopes).where(*_opening(row)).values(state=state.value))
    return exchange_row(fresh)


def own_exchange(tenant: str, exchange_id: str) -> tuple[Any, Any]:
    """That a row of the table of exchanges is this one."""
    return envelope_exchanges.c.tenant_id == tenant, envelope_exchanges.c.id == exchange_id


def _opening(row: ExchangeRow) -> tuple[Any, ...]:
    return (
        envelopes.c.tenant_id == row.tenant,
        envelopes.c.own == row.own,
        envelopes.c.sender == row.sender,
        envelopes.c.id == str(row.exchange.id),
    )
