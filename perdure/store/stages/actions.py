"""Reading the actions of stage sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput
from perdure.store.database import Database
from perdure.store.sessions import MAX_PAGE
from perdure.store.stages.rows import ActionRow, ActionWait, action_row, wait_of
from perdure.store.tables import stage_actions, stage_waits
from perdure.uaip.keys import is_unprintable
from perdure.uap.ids import is_uuid4
from perdure.uap.session_key import SessionKey


async def find_action(database: Database, key: SessionKey, id: str) -> ActionRow | None:
    """An action of a session by its id, or None."""
    if not is_uuid4(key.session) or not is_uuid4(id):
        return None
    async with database.transaction(key) as connection:
        return await one_action(connection, key, stage_actions.c.id == id)


async def find_by_key(database: Database, key: SessionKey, idempotency_key: str) -> ActionRow | None:
    """The action of a session that came under an idempotency key, or None."""
    if not is_uuid4(key.session) or is_unprintable(idempotency_key):
        return None
    async with database.transaction(key) as connection:
        return await one_action(connection, key, stage_actions.c.idempotency_key == idempotency_key)


async def action_page(database: Database, key: SessionKey, *, after: int = 0, limit: int) -> list[ActionRow]:
    """A page of a session's actions, in their order.

    Args:
        database: the store.
        key: the session.
        after: ordinal of the last action of the page before; 0 for the first page.
        limit: at most so many, 1 to `MAX_PAGE`.

    Raises:
        InvalidInput: a limit out of range.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit is {limit}; it must be 1 to {MAX_PAGE}")
    if not is_uuid4(key.session):
        return []
    query = _of(key).where(stage_actions.c.ordinal > after).order_by(stage_actions.c.ordinal).limit(limit)
    async with database.transaction(key) as connection:
        rows = (await connection.execute(query)).all()
        waits = await _waits(connection, key, rows)
    return [action_row(row, waits) for row in rows]


async def one_action(connection: AsyncConnection, key: SessionKey, which: ColumnElement[bool]) -> ActionRow | None:
    """The action of a session of which a condition holds, or None."""
    row = (await connection.execute(_of(key).where(which))).first()
    if row is None:
        return None
    return action_row(row, await _waits(connection, key, [row]))


def _of(key: SessionKey) -> Any:
    return select(stage_actions).where(
        stage_actions.c.tenant_id == key.tenant, stage_actions.c.session_id == key.session
    )


async def _waits(
    connection: AsyncConnection, key: SessionKey, rows: Sequence[Row[Any]]
) -> dict[tuple[str, int], ActionWait]:
    """The last wait of each of these actions that had one."""
    ordinals = [row.ordinal for row in rows if row.started_at is not None]
    if not ordinals:
        return {}
    query = select(stage_waits).where(
        stage_waits.c.tenant_id == key.tenant,
        stage_waits.c.session_id == key.session,
        stage_waits.c.ordinal.in_(ordinals),
    )
    found = (await connection.execute(query.order_by(stage_waits.c.ordinal, stage_waits.c.attempt))).all()
    return {(row.session_id, row.ordinal): wait_of(row) for row in found}
