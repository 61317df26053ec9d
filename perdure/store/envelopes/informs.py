"""What agents inform of, on its way into a session: each one goes in once.

It joins a run that is active, or stands before the next message of its session. Which of the two is decided here before it
is done, so that whoever does it again after a crash does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select, text, update

from perdure.store.database import Database
from perdure.store.envelope_tables import JOINING, UNTAKEN
from perdure.store.envelopes.rows import EnvelopeRow, envelope_row
from perdure.store.tables import envelopes

_KEPT: Any = envelopes.c


async def take_informs(database: Database, tenant: str, session: str, *, exchange: str) -> list[EnvelopeRow]:
    """Those that are to stand before the message of an exchange that is about to be submitted to a session.

    Called again for the same exchange it gives the same ones. `begin_exchange` says that they stand there.

    Args:
        database: the store.
        tenant: whose.
        session: the session.
        exchange: the exchange's id.

    Returns:
        Oldest first.
    """
    taken = (_KEPT.tenant_id == tenant, _KEPT.joined_by == exchange)
    pending = (_KEPT.tenant_id == tenant, _KEPT.session_id == session, text(UNTAKEN))
    async with database.transaction(tenant) as connection:
        rows = (await connection.execute(select(envelopes).where(*taken))).all()
        if not rows:
            statement = update(envelopes).where(*pending).values(joined_by=exchange)
            rows = (await connection.execute(statement.returning(envelopes))).all()
        return sorted((envelope_row(row) for row in rows), key=lambda row: (row.at, row.id))


async def take_inform(database: Database, row: EnvelopeRow) -> bool:
    """Take one to join a run that is active; whether it is the caller's to do so.

    Afterwards `note_joined` says that it has joined; until then `unjoined_informs` has it.
    """
    statement = update(envelopes).where(*_own(row), text(UNTAKEN)).values(joined_by=row.id)
    async with database.transaction(row.tenant) as connection:
        return await connection.scalar(statement.returning(_KEPT.id)) is not None


async def note_joined(database: Database, rows: Sequence[EnvelopeRow]) -> None:
    """These are in their sessions now. Harmless if it has been said."""
    for row in rows:
        async with database.transaction(row.tenant) as connection:
            await connection.execute(update(envelopes).where(*_own(row)).values(joined=True))


async def unjoined_informs(database: Database, tenant: str, *, before: datetime, limit: int) -> list[EnvelopeRow]:
    """Those that were taken to join a run and have not, oldest first: who was to do it may have died.

    Args:
        database: the store.
        tenant: whose.
        before: only those that came before this time.
        limit: how many at most.
    """
    query = select(envelopes).where(
        _KEPT.tenant_id == tenant, text(JOINING), _KEPT.session_id.is_not(None), _KEPT.at < before
    )
    async with database.reading(tenant) as connection:
        rows = (await connection.execute(query.order_by(_KEPT.at, _KEPT.id).limit(limit))).all()
        return [envelope_row(row) for row in rows]


def _own(row: EnvelopeRow) -> tuple[Any, ...]:
    return _KEPT.tenant_id == row.tenant, _KEPT.own == row.own, _KEPT.sender == row.sender, _KEPT.id == row.id
