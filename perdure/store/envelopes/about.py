"""Which exchange an envelope is about that opens none: one that answers, and one that stands alone but names others."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import and_, case, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.envelopes.rows import ExchangeRow, NewEnvelope, exchange_row
from perdure.store.tables import envelope_exchanges, envelopes, session_heads

_KEPT: Any = envelopes.c
_ROWS: Any = envelope_exchanges.c


class About(NamedTuple):
    """What an envelope that stands alone has to do with: ids, as far as they are known."""

    exchange: str | None
    session: str | None


NOTHING = About(None, None)


async def hold_about(connection: AsyncConnection, new: NewEnvelope) -> ExchangeRow | None:
    """The exchange that an answering envelope names, its row locked until the transaction ends; None if there is none.

    That of its own sender comes first: another one may have used the same ids.
    """
    opening = select(_KEPT.exchange).where(
        _KEPT.tenant_id == new.tenant, _KEPT.own == new.own, _KEPT.stream_id.is_not(None), _named(new)
    )
    query = (
        select(envelope_exchanges)
        .where(_ROWS.tenant_id == new.tenant, _ROWS.id.in_(opening))
        .order_by(case((_ROWS.sender == new.envelope.sender, 0), else_=1), _ROWS.opened_at, _ROWS.id)
        .limit(1)
        .with_for_update()
    )
    row = (await connection.execute(query)).first()
    return None if row is None else exchange_row(row)


async def share_about(connection: AsyncConnection, new: NewEnvelope) -> tuple[ExchangeRow | None, str | None]:
    """The exchange and the session that an envelope has to do with that stands alone, as far as there are any.

    Neither changes nor goes before the transaction ends, so that what is kept now goes with them.
    """
    about = await _find_about(connection, new)
    if about.exchange is not None:
        query = select(envelope_exchanges).where(_ROWS.tenant_id == new.tenant, _ROWS.id == about.exchange)
        row = (await connection.execute(query.with_for_update(read=True))).first()
        if row is not None:
            return exchange_row(row), row.session_id
    if about.session is None:
        return None, None
    heads: Any = session_heads.c
    own = (heads.tenant_id == new.tenant, heads.session_id == about.session, heads.deleting.is_(False))
    query = select(heads.session_id).where(*own).with_for_update(read=True, key_share=True)
    return None, await connection.scalar(query)


async def _find_about(connection: AsyncConnection, new: NewEnvelope) -> About:
    """What the envelopes belong to that an envelope names, in this order: `reply_to`, `stream_id`, `context`.

    Only those count that are of the same sender and for the same agent of ours.
    """
    envelope = new.envelope
    replied = [] if envelope.reply_to is None else [str(envelope.reply_to)]
    ids = [*replied, *(str(item.id) for item in envelope.context)]
    if not ids and envelope.stream_id is None:
        return NOTHING
    named = or_(_KEPT.id.in_(ids), and_(_KEPT.stream_id == envelope.stream_id, _KEPT.stream_id.is_not(None)))
    query = select(_KEPT.id, _KEPT.stream_id, _KEPT.exchange, _KEPT.session_id).where(
        _KEPT.tenant_id == new.tenant, _KEPT.own == new.own, _KEPT.sender == envelope.sender, named,
        or_(_KEPT.exchange.is_not(None), _KEPT.session_id.is_not(None)),
    )  # fmt: skip
    found = {row.id: row for row in (await connection.execute(query)).all()}
    streams = [
        row.id for row in found.values() if envelope.stream_id is not None and row.stream_id == envelope.stream_id
    ]
    for name in (*replied, *streams, *ids):
        if name in found:
            return About(found[name].exchange, found[name].session_id)
    return NOTHING


def _named(new: NewEnvelope) -> Any:
    if new.envelope.reply_to is not None:
        return _KEPT.id == str(new.envelope.reply_to)
    return _KEPT.stream_id == new.envelope.stream_id
