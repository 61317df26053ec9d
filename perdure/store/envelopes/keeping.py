"""Keeping an envelope: remembered, so that it counts once, and with it what it opens or changes, in one transaction.

What decides between two at once are the tables' keys: an insert waits for another of the same key to be committed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.protocols.uamp_envelope.admission import is_resend
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.exchange import open_exchange
from perdure.protocols.uamp_envelope.identifier import stream_location
from perdure.protocols.uamp_envelope.lifecycle import State, Step
from perdure.store.database import Database
from perdure.store.envelopes.about import hold_about, share_about
from perdure.store.envelopes.exchanges import exchange_in
from perdure.store.envelopes.limits import check_rate, check_room
from perdure.store.envelopes.rows import ExchangeRow, Kept, NewEnvelope, exchange_row
from perdure.store.envelopes.settling import advance
from perdure.store.sealing import seal_in
from perdure.store.tables import envelope_exchanges, envelopes
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject


async def keep_envelope(
    database: Database,
    new: NewEnvelope,
    *,
    now: datetime,
    max_open: int,
    rate_per_hour: int | None,
    max_open_of_sender: int | None = None,
) -> Kept:
    """Keep an envelope, and with it what it opens or changes; whatever is refused leaves no trace.

    One that opens an exchange makes its row, in progress. One that answers takes its step; too late it changes nothing. The
    others are complete; they belong to the session of what they name by `reply_to`, `stream_id` or `context`, if that is of
    the same sender.

    Args:
        database: the store.
        new: the envelope.
        now: the time.
        max_open: how many exchanges of the tenant may be in progress.
        rate_per_hour: how many envelopes its sender may send in an hour; None for no limit.
        max_open_of_sender: how many exchanges of its sender's may be in progress, about; None for as many as there may be.

    Raises:
        UAMPError: 4.22 if its id, or the id of the stream that it opens, is another's; 4.29 if its sender sends too many;
            5.04 if too many exchanges are in progress; 4.04 and 4.03 if it answers an exchange that is not there, or is not
            its sender's to answer so.
    """
    intent = new.envelope.intent
    async with database.transaction(new.tenant) as connection:
        row, session = await _about(connection, new)
        exchange = new.exchange_id if intent.opens else None if row is None else row.id
        if not await _remember(connection, new, exchange, session, now):
            return await _as_before(connection, new)
        if rate_per_hour is not None:
            await check_rate(connection, new, per_hour=rate_per_hour, now=now)
        if intent.opens:
            row = await _open(connection, new, now)
            await check_room(connection, new, max_open=max_open, max_open_of_sender=max_open_of_sender)
        elif intent.answers:
            row = await _step(connection, new, row, now)
        return Kept(
            repeated=False, exchange=row, session=session, answer=_answer(new.stream_id if intent.opens else None)
        )


async def _about(connection: AsyncConnection, new: NewEnvelope) -> tuple[ExchangeRow | None, str | None]:
    """The exchange and the session that it has to do with that are there already; what follows goes with them."""
    if new.envelope.intent.opens:
        return None, None
    if new.envelope.intent.stands_alone:
        return await share_about(connection, new)
    held = await hold_about(connection, new)
    return held, None if held is None else held.session


async def _remember(
    connection: AsyncConnection, new: NewEnvelope, exchange: str | None, session: str | None, now: datetime
) -> bool:
    """Insert the envelope's row; whether it is new."""
    state = State.IN_PROGRESS if new.envelope.intent.opens else State.COMPLETED
    values = {
        "tenant_id": new.tenant, "own": new.own, "sender": new.envelope.sender, "id": new.id,
        "intent": new.envelope.intent.value, "sha256": new.envelope.sha256, "raw": new.raw,
        "exchange": exchange, "stream_id": new.stream_id if new.envelope.intent.opens else None,
        "session_id": session, "state": state.value, "at": now,
    }  # fmt: skip
    sealed = seal_in(connection, SessionKey(new.tenant, new.id)).row(envelopes, values)
    statement = upsert(envelopes).values(sealed).on_conflict_do_nothing().returning(envelopes.c.id)
    return await connection.scalar(statement) is not None


async def _as_before(connection: AsyncConnection, new: NewEnvelope) -> Kept:
    """What an envelope of the same id was answered."""
    own = (
        envelopes.c.tenant_id == new.tenant, envelopes.c.own == new.own, envelopes.c.sender == new.envelope.sender,
        envelopes.c.id == new.id,
    )  # fmt: skip
    columns = (envelopes.c.sha256, envelopes.c.stream_id, envelopes.c.exchange, envelopes.c.session_id)
    row = (await connection.execute(select(*columns).where(*own))).one()
    is_resend(new.envelope, row.sha256)
    exchange = None if row.exchange is None else await exchange_in(connection, new.tenant, row.exchange)
    return Kept(repeated=True, exchange=exchange, session=row.session_id, answer=_answer(row.stream_id))


async def _open(connection: AsyncConnection, new: NewEnvelope, now: datetime) -> ExchangeRow:
    """Insert the row of the exchange that an envelope opens."""
    opened = open_exchange(new.envelope, new.own, new.stream_id)
    values: dict[str, Any] = {
        "tenant_id": new.tenant, "id": new.exchange_id, "own": new.own, "sender": opened.sender,
        "worker": opened.worker, "envelope": new.envelope.id_text, "intent": opened.intent.value,
        "stream_id": opened.stream_id, "principal": new.principal, "state": opened.state.value,
        "delta_window": new.envelope.window, "opened_at": now, "read_at": now,
    }  # fmt: skip
    if new.proposal is not None:
        values["proposal"] = new.proposal
    sealed = seal_in(connection, SessionKey(new.tenant, new.exchange_id)).row(envelope_exchanges, values)
    statement = upsert(envelope_exchanges).values(sealed).on_conflict_do_nothing().returning(envelope_exchanges)
    row = (await connection.execute(statement)).first()
    if row is None:
        raise UAMPError(Code.CONFLICT, "its sender uses this stream_id for another exchange", ref=new.envelope.id_text)
    return exchange_row(row)


async def _step(connection: AsyncConnection, new: NewEnvelope, held: ExchangeRow | None, now: datetime) -> ExchangeRow:
    """Take the step of an answering envelope; the exchange is held."""
    if held is None:
        raise UAMPError(Code.UNKNOWN_STREAM, "no such exchange", ref=new.envelope.id_text)
    held.exchange.received(new.envelope)
    return await advance(connection, held, Step(new.envelope.intent.value), now=now, error=new.error)


def _answer(stream_id: str | None) -> JSONObject:
    return {} if stream_id is None else {"stream_id": stream_id, "location": stream_location(stream_id)}
