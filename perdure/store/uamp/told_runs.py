"""Which rows of a chat's log a UAMP session is told, and which of its runs are the session's responses."""

from __future__ import annotations

from typing import Any

from sqlalchemy import and_, or_, select

from perdure.store.database import Database
from perdure.store.tables import events, inputs, runs, uamp_responses
from perdure.store.uamp.rows import ResponseRow, UampSessionRow, response_row
from perdure.uap.session_key import SessionKey

_BEHIND = 200
"""Rows behind a run's end in which there may still be something of it, as what it cost."""


async def response_of_input(database: Database, key: SessionKey, run: str) -> ResponseRow | None:
    """The response that a run gives, known from the moment its input is there; None of a run that nobody asked for by UAMP.

    Args:
        database: the store.
        key: the session that the chat is.
        run: the run's id.
    """
    on = and_(uamp_responses.c.tenant_id == inputs.c.tenant_id, uamp_responses.c.id == inputs.c.key)
    query = (
        select(uamp_responses)
        .join_from(uamp_responses, inputs, on)
        .where(
            inputs.c.tenant_id == key.tenant,
            inputs.c.session_id == key.session,
            inputs.c.run_id == run,
            uamp_responses.c.session_id == key.session,
        )
    )
    return await _first(database, key, query)


async def responses_behind(database: Database, key: SessionKey, uamp_session: str, seq: int) -> list[ResponseRow]:
    """A session's responses that have begun and of which there may be rows from a number of the chat's log on, oldest first.

    Args:
        database: the store.
        key: the session that the chat is.
        uamp_session: whose responses.
        seq: the number.
    """
    on = and_(
        runs.c.tenant_id == uamp_responses.c.tenant_id,
        runs.c.session_id == uamp_responses.c.session_id,
        runs.c.id == uamp_responses.c.run_id,
    )
    is_open = and_(runs.c.last_seq.is_(None), uamp_responses.c.ended_at.is_(None))
    query = (
        select(uamp_responses)
        .join_from(uamp_responses, runs, on, isouter=True)
        .where(
            uamp_responses.c.tenant_id == key.tenant,
            uamp_responses.c.uamp_session == uamp_session,
            uamp_responses.c.run_id.is_not(None),
            or_(is_open, runs.c.last_seq >= seq - _BEHIND),
        )
        .order_by(uamp_responses.c.made_at)
    )
    async with database.reading(key) as connection:
        return [response_row(row) for row in (await connection.execute(query)).all()]


async def seq_at_opening(database: Database, session: UampSessionRow) -> int:
    """The number of the last row that its chat's log had when a session was opened: what came before is not told to it.

    Args:
        database: the store.
        session: the session.
    """
    query = (
        select(events.c.seq)
        .where(
            events.c.tenant_id == session.tenant,
            events.c.session_id == session.session,
            events.c.at <= session.created_at,
        )
        .order_by(events.c.seq.desc())
        .limit(1)
    )
    async with database.reading(session.key) as connection:
        return await connection.scalar(query) or 0


async def _first(database: Database, key: SessionKey, query: Any) -> ResponseRow | None:
    async with database.reading(key) as connection:
        row = (await connection.execute(query)).first()
    return None if row is None else response_row(row)
