"""Beginning what an exchange was opened for: from then on it belongs to a session."""

from __future__ import annotations

from typing import Any

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.store.envelopes.rows import ExchangeRow, exchange_row
from perdure.store.envelopes.settling import hold_exchange, own_exchange
from perdure.store.opening import lock_head
from perdure.store.tables import envelope_exchanges, envelopes
from perdure.uap.session_key import SessionKey


async def begin_exchange(
    database: Database, tenant: str, exchange_id: str, session: str, run: str | None, *, log_seq: int = 0
) -> ExchangeRow | None:
    """Say of an exchange which session it runs in, or follows; its envelopes belong to that one then, too.

    Harmless if it has been done. The informs that were taken for its message (`take_informs`) stand before it now.

    Args:
        database: the store.
        tenant: whose.
        exchange_id: the exchange.
        session: the session.
        run: what answers it; None for a subscription.
        log_seq: frames are made of the session's log after this number.

    Returns:
        The exchange as it is then; None if it is not there, or if the session is gone: then it stays as it is.
    """
    async with database.transaction(tenant) as connection:
        head = await lock_head(connection, SessionKey(tenant, session))
        row = await hold_exchange(connection, tenant, exchange_id)
        if row is None or row.session is not None:
            return row
        if head is None or head.deleting:
            return None
        return await _begin(connection, row, {"session_id": session, "run_id": run, "log_seq": log_seq})


async def _begin(connection: AsyncConnection, row: ExchangeRow, begun: dict[str, Any]) -> ExchangeRow:
    statement = update(envelope_exchanges).where(*own_exchange(row.tenant, row.id)).values(begun)
    fresh = (await connection.execute(statement.returning(envelope_exchanges))).one()
    about = update(envelopes).where(envelopes.c.tenant_id == row.tenant, envelopes.c.exchange == row.id)
    await connection.execute(about.values(session_id=begun["session_id"]))
    stand = update(envelopes).where(envelopes.c.tenant_id == row.tenant, envelopes.c.joined_by == row.id)
    await connection.execute(stand.values(joined=True))
    return exchange_row(fresh)
