"""How far the consumer of an exchange's stream has read it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, update

from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.store.database import Database
from perdure.store.envelopes.exchanges import exchange_in
from perdure.store.envelopes.rows import ExchangeRow, exchange_row
from perdure.store.envelopes.settling import own_exchange
from perdure.store.tables import envelope_exchanges

_COLUMNS: Any = envelope_exchanges.c


async def acknowledge(database: Database, tenant: str, exchange_id: str, seq: int) -> ExchangeRow:
    """A consumer has read all frames up to `seq`; an ACK that is old or repeated changes nothing.

    Returns:
        The exchange as it is then.

    Raises:
        UAMPError: 4.00 if no consumer was given that frame; 4.04 if the exchange is not there.
    """
    statement = update(envelope_exchanges).where(*own_exchange(tenant, exchange_id), _COLUMNS.sent >= seq)
    values = {"acked": func.greatest(_COLUMNS.acked, seq)}
    async with database.transaction(tenant) as connection:
        fresh = (await connection.execute(statement.values(values).returning(envelope_exchanges))).first()
        if fresh is not None:
            return exchange_row(fresh)
        row = await exchange_in(connection, tenant, exchange_id)
    if row is None:
        raise UAMPError(Code.UNKNOWN_STREAM, "no such stream")
    raise malformed(f"delta_seq {seq} has not been sent; the last one is {row.sent}")
