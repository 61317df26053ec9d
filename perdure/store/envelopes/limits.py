"""What one sender, and all of them together, may have."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.store.envelopes.rows import NewEnvelope
from perdure.store.tables import envelope_exchanges, envelopes

RATE_WINDOW = timedelta(hours=1)
"""Over which a sender's envelopes are counted: for so long each one is remembered at least."""

_BUSY_AFTER = timedelta(seconds=2)
_NEAR = 64
"""So near to the bound exchanges are opened one after the other, so that it holds; further away nobody waits."""

_LOCK = text("select pg_advisory_xact_lock(hashtextextended(:name, 0))")


async def check_rate(connection: AsyncConnection, new: NewEnvelope, *, per_hour: int, now: datetime) -> None:
    """Checks that a sender may send the one whose row is inserted already; its others wait until this one is committed.

    Raises:
        UAMPError: 4.29, with the time after which it may.
    """
    sender = new.envelope.sender
    await connection.execute(_LOCK, {"name": f"envelope rate/{new.tenant}/{sender}"})
    columns: Any = envelopes.c
    query = (
        select(columns.at)
        .where(columns.tenant_id == new.tenant, columns.sender == sender, columns.at > now - RATE_WINDOW)
        .order_by(columns.at.desc())
        .offset(per_hour)
        .limit(1)
    )
    counted: datetime | None = await connection.scalar(query)
    if counted is not None:
        raise UAMPError(
            Code.RATE_LIMITED,
            f"{sender} may send {per_hour} envelopes in an hour",
            retry_after=max(counted + RATE_WINDOW - now, timedelta(seconds=1)),
            ref=new.envelope.id_text,
        )


async def check_room(
    connection: AsyncConnection, new: NewEnvelope, *, max_open: int, max_open_of_sender: int | None
) -> None:
    """Checks that the exchange may be in progress whose row is inserted already.

    That one sender may not have all is checked without waiting for its others, so a few more than it may have can slip in.

    Raises:
        UAMPError: 5.04.
    """
    if max_open_of_sender is not None:
        of_sender = await _open(connection, new.tenant, max_open_of_sender + 1, sender=new.envelope.sender)
        if of_sender > max_open_of_sender:
            raise _busy(new, f"too many exchanges of {new.envelope.sender[:80]} are in progress here")
    count = await _open(connection, new.tenant, max_open + 1)
    if count > max_open - _NEAR:
        await connection.execute(_LOCK, {"name": f"envelope room/{new.tenant}"})
        count = await _open(connection, new.tenant, max_open + 1)
    if count > max_open:
        raise _busy(new, "too many exchanges are in progress here; come again later")


async def _open(connection: AsyncConnection, tenant: str, upto: int, *, sender: str | None = None) -> int:
    columns: Any = envelope_exchanges.c
    some = select(columns.id).where(columns.tenant_id == tenant, columns.ended_at.is_(None)).limit(upto)
    if sender is not None:
        some = some.where(columns.sender == sender)
    return (await connection.execute(select(func.count()).select_from(some.subquery()))).scalar_one()


def _busy(new: NewEnvelope, why: str) -> UAMPError:
    return UAMPError(Code.BUSY, why, retry_after=_BUSY_AFTER, ref=new.envelope.id_text)
