"""The responses that clients of UAMP asked for, and their runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from sqlalchemy import func, select, update

from perdure.store.database import Database
from perdure.store.tables import uamp_open_responses, uamp_responses, uamp_taken
from perdure.store.uamp.rows import ResponseRow, response_row
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, loads


async def find_response(database: Database, tenant: str, response: str) -> ResponseRow | None:
    """A response by its id."""
    query = select(uamp_responses).where(uamp_responses.c.tenant_id == tenant, uamp_responses.c.id == response)
    async with database.reading(tenant) as connection:
        row = (await connection.execute(query)).first()
    return None if row is None else response_row(row)


async def open_responses(database: Database, key: SessionKey) -> list[ResponseRow]:
    """Those of a chat that have not ended, nor their runs, oldest first."""
    query = select(uamp_open_responses).where(
        uamp_open_responses.c.tenant_id == key.tenant, uamp_open_responses.c.session_id == key.session
    )
    async with database.reading(key) as connection:
        rows = await connection.execute(query.order_by(uamp_open_responses.c.made_at, uamp_open_responses.c.id))
        return [response_row(row) for row in rows.all()]


async def response_inputs(database: Database, row: ResponseRow) -> list[JSONObject]:
    """The inputs that a response was asked for with, in order; none once it has begun."""
    query = select(uamp_taken.c.body).where(
        uamp_taken.c.tenant_id == row.tenant,
        uamp_taken.c.uamp_session == row.uamp_session,
        uamp_taken.c.response == row.id,
        uamp_taken.c.body.is_not(None),
    )
    async with database.reading(SessionKey(row.tenant, row.session)) as connection:
        bodies = await connection.scalars(query.order_by(uamp_taken.c.ordinal))
        return [cast(JSONObject, loads(cast(bytes, body))) for body in bodies.all()]


async def set_begun(database: Database, row: ResponseRow, run: str) -> None:
    """A response's run is in the inbox: its inputs are kept no more. Harmless if it has been done."""
    own = (uamp_responses.c.tenant_id == row.tenant, uamp_responses.c.id == row.id)
    begun = {"run_id": run, "begun_at": func.coalesce(uamp_responses.c.begun_at, func.clock_timestamp())}
    async with database.transaction() as connection:
        await connection.execute(update(uamp_responses).where(*own).values(**begun))
        await _drop_inputs(connection, row)


async def end_response(database: Database, tenant: str, response: str) -> bool:
    """A response's end is told; whether it was open."""
    open_ = (
        uamp_responses.c.tenant_id == tenant, uamp_responses.c.id == response, uamp_responses.c.ended_at.is_(None)
    )  # fmt: skip
    statement = update(uamp_responses).where(*open_).values(ended_at=func.clock_timestamp())
    async with database.transaction(tenant) as connection:
        ended = (await connection.execute(statement.returning(uamp_responses))).first()
        if ended is not None:
            await _drop_inputs(connection, response_row(ended))
    return ended is not None


async def find_unbegun(database: Database, *, older_than: timedelta, limit: int = 100) -> list[ResponseRow]:
    """Responses whose run nobody has begun for so long: the process that was to do it may have died.

    Args:
        database: the store.
        older_than: since they were asked for.
        limit: of many, any so many.
    """
    query = select(uamp_responses).where(
        uamp_responses.c.begun_at.is_(None),
        uamp_responses.c.ended_at.is_(None),
        uamp_responses.c.made_at < func.clock_timestamp() - older_than,
    )
    async with database.reading() as connection:
        rows = await connection.execute(query.order_by(func.random()).limit(limit))
        return [response_row(row) for row in rows.all()]


async def _drop_inputs(connection: Any, row: ResponseRow) -> None:
    own = (
        uamp_taken.c.tenant_id == row.tenant, uamp_taken.c.uamp_session == row.uamp_session,
        uamp_taken.c.response == row.id, uamp_taken.c.body.is_not(None),
    )  # fmt: skip
    await connection.execute(update(uamp_taken).where(*own).values(body=None))
