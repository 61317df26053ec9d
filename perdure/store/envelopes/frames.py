"""The frames of an exchange's stream: numbered once, under the exchange's row, and given out while the window lets them.

Whoever streams an exchange may make its next frames; all who do give out the same ones. `take_frames` reads and notes what
it gives out while the row is held, so that what a consumer may have seen is never dropped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.protocols.uamp_envelope.delta import Delta, DeltaType
from perdure.protocols.uamp_envelope.timestamp import read_time
from perdure.store.database import Database
from perdure.store.envelopes.rows import ExchangeRow, exchange_row
from perdure.store.envelopes.settling import hold_exchange, own_exchange
from perdure.store.sealing import seal_in
from perdure.store.tables import envelope_exchanges, envelope_frames
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

_FRAMES: Any = envelope_frames.c
_TERMINAL = [kind.value for kind in DeltaType if kind.is_terminal]


async def save_frames(
    connection: AsyncConnection,
    row: ExchangeRow,
    frames: Sequence[Delta],
    *,
    log_seq: int | None = None,
    log_place: JSONObject | None = None,
) -> ExchangeRow:
    """Add the next frames of an exchange whose row is held.

    Args:
        connection: of the transaction that holds it.
        row: the exchange as it is now.
        frames: numbered from `row.next_seq` on; only the last one may be terminal.
        log_seq: up to which event of the session's log frames are made now; and
        log_place: how much of what comes next in it; each None if that is as it was.

    Returns:
        The exchange as it is then.

    Raises:
        ValueError: they are not the next ones.
    """
    _check_next(row, frames)
    if frames:
        seal = seal_in(connection, row.key)
        values = [
            {
                "tenant_id": row.tenant, "exchange": row.id, "session_id": row.session, "seq": frame.seq,
                "type": frame.type.value, "frame": seal.body(frame.to_bytes()), "at": frame.sent_at,
            }
            for frame in frames
        ]  # fmt: skip
        await connection.execute(insert(envelope_frames).values(values))
    changed: dict[str, Any] = {
        "next_seq": row.next_seq + len(frames),
        "is_over": row.is_over or bool(frames and frames[-1].type.is_terminal),
        "log_seq": row.log_seq if log_seq is None else log_seq,
        "log_place": row.log_place if log_place is None else log_place,
    }
    return await _changed(connection, row, changed)


async def drop_unsent(connection: AsyncConnection, row: ExchangeRow) -> ExchangeRow:
    """Drop the frames that no consumer was given, of an exchange whose row is held; the next one has their first number.

    A terminal frame among them is dropped, too.

    Returns:
        The exchange as it is then.
    """
    if row.next_seq == row.sent + 1:
        return row
    own = (_FRAMES.tenant_id == row.tenant, _FRAMES.exchange == row.id, _FRAMES.seq > row.sent)
    await connection.execute(delete(envelope_frames).where(*own))
    return await _changed(connection, row, {"next_seq": row.sent + 1, "is_over": False})


async def take_frames(
    database: Database, tenant: str, exchange_id: str, *, after: int, window: int, limit: int
) -> tuple[ExchangeRow, list[Delta]] | None:
    """The next frames that a consumer may have, noted as given out before this returns.

    Args:
        database: the store.
        tenant: whose.
        exchange_id: the exchange.
        after: the number of the last frame that this consumer was given; -1 at the beginning.
        window: how many frames may be out without an ACK; a terminal frame always may, behind them.
        limit: how many at most, 1 or more.

    Returns:
        The exchange as it is then, and the frames in order, perhaps none; None if it is not there any more.
    """
    async with database.transaction(SessionKey(tenant, exchange_id)) as connection:
        row = await hold_exchange(connection, tenant, exchange_id)
        if row is None:
            return None
        allowed = or_(_FRAMES.seq <= row.acked + window, _FRAMES.type.in_(_TERMINAL))
        read = await _read(connection, tenant, exchange_id, after, limit, allowed)
        frames = [frame for n, frame in enumerate(read, after + 1) if frame.seq == n]
        if frames and frames[-1].seq > row.sent:
            row = await _changed(connection, row, {"sent": frames[-1].seq})
        return row, frames


async def frames_in(
    connection: AsyncConnection, tenant: str, exchange_id: str, *, after: int, upto: int, limit: int
) -> list[Delta]:
    """Frames whose number is above `after`, and at most `upto`, in order; read within a transaction, and nothing is noted.

    Args:
        connection: of the transaction.
        tenant: whose.
        exchange_id: the exchange.
        after: a number; -1 for the beginning.
        upto: a number.
        limit: how many at most.
    """
    return await _read(connection, tenant, exchange_id, after, limit, _FRAMES.seq <= upto)


def _check_next(row: ExchangeRow, frames: Sequence[Delta]) -> None:
    numbers = [frame.seq for frame in frames]
    if numbers != list(range(row.next_seq, row.next_seq + len(frames))):
        raise ValueError(f"frames {numbers} are not the next ones of exchange {row.id}, from {row.next_seq} on")
    if (row.is_over and frames) or any(frame.type.is_terminal for frame in frames[:-1]):
        raise ValueError(f"exchange {row.id} has a terminal frame, and nothing follows it")


async def _changed(connection: AsyncConnection, row: ExchangeRow, values: dict[str, Any]) -> ExchangeRow:
    statement = update(envelope_exchanges).where(*own_exchange(row.tenant, row.id)).values(values)
    return exchange_row((await connection.execute(statement.returning(envelope_exchanges))).one())


async def _read(
    connection: AsyncConnection, tenant: str, exchange_id: str, after: int, limit: int, allowed: Any
) -> list[Delta]:
    query = select(_FRAMES.frame).where(
        _FRAMES.tenant_id == tenant, _FRAMES.exchange == exchange_id, _FRAMES.seq > after, allowed
    )
    frames = (await connection.scalars(query.order_by(_FRAMES.seq).limit(limit))).all()
    return [_delta(cast(bytes, frame)) for frame in frames]


def _delta(frame: bytes) -> Delta:
    """A frame of ours; it was checked when it was made."""
    value = cast("dict[str, Any]", json.loads(frame))
    return Delta(
        seq=value["delta_seq"],
        stream_id=value["stream_id"],
        sent_at=read_time(value["ts"]),
        type=DeltaType(value["type"]),
        payload=cast(JSONObject, value["payload"]),
    )
