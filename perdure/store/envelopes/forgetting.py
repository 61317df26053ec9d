"""Forgetting what is old: exchanges that have ended, and envelopes that cannot come again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import case, delete, exists, select, text, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.lifecycle import State
from perdure.store.database import Database
from perdure.store.envelope_tables import UNNEEDED
from perdure.store.envelopes.limits import RATE_WINDOW
from perdure.store.tables import envelope_exchanges, envelope_frames, envelopes
from perdure.uap.session_key import SessionKey

_KEPT: Any = envelopes.c
_ROWS: Any = envelope_exchanges.c
_FRAMES: Any = envelope_frames.c


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many were deleted."""

    exchanges: int
    envelopes: int


async def forget_old(
    database: Database, tenant: str, *, now: datetime, retention: timedelta, replay_memory: timedelta, limit: int = 200
) -> Forgotten:
    """Delete exchanges that ended long ago, with their frames, and envelopes that came long ago.

    An envelope stays while its exchange or its session does, unless it only answered: a later one may name it, and go on
    there.

    Args:
        database: the store.
        tenant: whose.
        now: the time.
        retention: how long an exchange that has ended is kept.
        replay_memory: how long an envelope is remembered at least; it is also for as long as an ended exchange, and for an hour.
        limit: of each how many at most; the next call goes on.
    """
    async with database.transaction(tenant) as connection:
        own = (_ROWS.tenant_id == tenant, _ROWS.ended_at < now - retention)
        ended = select(_ROWS.id).where(*own).order_by(_ROWS.ended_at).limit(limit).with_for_update(skip_locked=True)
        ids = list((await connection.scalars(ended)).all())
        if ids:
            await connection.execute(
                delete(envelope_frames).where(_FRAMES.tenant_id == tenant, _FRAMES.exchange.in_(ids))
            )
            await connection.execute(delete(envelope_exchanges).where(_ROWS.tenant_id == tenant, _ROWS.id.in_(ids)))
    async with database.transaction(tenant) as connection:
        before = now - max(retention, replay_memory, RATE_WINDOW)
        key = (_KEPT.own, _KEPT.sender, _KEPT.id)
        live = exists().where(_ROWS.tenant_id == tenant, _ROWS.id == _KEPT.exchange)
        is_answer = _KEPT.intent.in_([intent.value for intent in Intent if intent.answers])
        old = (
            select(*key)
            .where(_KEPT.tenant_id == tenant, _KEPT.at < before, text(f"({UNNEEDED})"), is_answer | ~live)
            .order_by(_KEPT.at)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        gone = await connection.execute(delete(envelopes).where(_KEPT.tenant_id == tenant, tuple_(*key).in_(old)))
    return Forgotten(len(ids), gone.rowcount)


async def blank_envelopes(connection: AsyncConnection, key: SessionKey) -> None:
    """Forget what the envelopes of a session say, and whose they are: that they came is remembered, so that none counts again.

    Args:
        connection: of a transaction in which the session's exchanges have been deleted.
        key: the session.
    """
    open_ = _KEPT.state.in_([state.value for state in State if not state.is_terminal])
    blank = {"raw": None, "session_id": None, "state": case((open_, State.CANCELLED.value), else_=_KEPT.state)}
    own = (_KEPT.tenant_id == key.tenant, _KEPT.session_id == key.session)
    await connection.execute(update(envelopes).where(*own).values(blank))
