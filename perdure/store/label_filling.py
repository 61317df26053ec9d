"""Upkeep of labels, by the sweep of any process: of the sessions that were there before a key, and after a key was removed.

A batch is one transaction and notes how far it came, so that whoever is cut off is gone on after by the next. It holds the
rows of its sessions, so that what is written to them meanwhile is not written over.
"""

from __future__ import annotations

import logging
from typing import Any, cast

from sqlalchemy import Row, delete, select, text, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import DamagedSession
from perdure.store.database import Database
from perdure.store.filterable_keys import COMPLETE, FILLING
from perdure.store.session_labels import label_keys, put_labels
from perdure.store.tables import filterable_keys, sessions, unlabelled_sessions
from perdure.uap.session_key import SessionKey

logger = logging.getLogger(__name__)

BATCH = 500
_BATCHES = 10
"""Of a round, so that it holds up nothing else for long."""
_DELETED = 5000

_IS_DUE = text("""
select exists (select 1 from perdure.filterable_keys where state <> 'complete')
    or exists (select 1 from perdure.unlabelled_sessions)
""")
_NOW = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_SETTLED = f"(pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= horizon or horizon > {_NOW})"
"""All that began before the horizon has ended. A horizon that is yet to come is of a server that this was copied from."""

_MARK = text(f"""
update perdure.filterable_keys set horizon = {_NOW} where state in ('added', 'removed') and horizon is null
""")  # noqa: S608 -- a constant
_BEGIN = text(f"update perdure.filterable_keys set state = 'filling' where state = 'added' and {_SETTLED}")  # noqa: S608
_CLEAR = text(f"""
delete from perdure.session_labels where ctid = any (array(
    select l.ctid from perdure.session_labels l
     where l.key = any (array(select key from perdure.filterable_keys where state = 'removed' and {_SETTLED}))
     limit :limit))
""")  # noqa: S608 -- a constant
_FORGET = text(f"""
delete from perdure.filterable_keys k where state = 'removed' and {_SETTLED}
   and not exists (select 1 from perdure.session_labels l where l.key = k.key)
""")  # noqa: S608 -- a constant


async def keep_labels(database: Database, *, batch: int = BATCH) -> int:
    """One round; returns how many sessions were gone through. It does little if no key was added or removed.

    Args:
        database: the store.
        batch: how many sessions a transaction takes.

    Raises:
        KeyMissing: something is sealed under a key that this process lacks.
    """
    async with database.reading() as connection:
        if not await connection.scalar(_IS_DUE):
            return 0
    for statement in (_MARK, _BEGIN):
        async with database.transaction() as connection:
            await connection.execute(statement)
    gone_through = await _label_noted(database, batch)
    for _ in range(_BATCHES):
        filled = await _fill(database, batch)
        if not filled:
            break
        gone_through += filled
    await _clear(database)
    return gone_through


async def _fill(database: Database, batch: int) -> int:
    """The next sessions of the keys that are filled; how many."""
    try:
        return await _fill_next(database, batch)
    except DamagedSession:
        if batch > 1:
            return await _fill(database, 1)
    return await _fill_next(database, 1, damaged=True)


async def _fill_next(database: Database, batch: int, *, damaged: bool = False) -> int:
    """Likewise; a damaged session has no labels, as it has no place in any list."""
    async with database.transaction() as connection:
        keys = await _least_filled(connection)
        if not keys:
            return 0
        names = await label_keys(connection)
        rows = await _after(connection, _place_of(keys[0]), batch, damaged=damaged)
        if damaged:
            logger.warning("labels.damaged_session tenant=%s session=%s", *rows[0])
        else:
            found = {SessionKey(row.tenant_id, row.id): cast("dict[str, Any]", row.metadata) for row in rows}
            await put_labels(connection, found, names)
        place = {"after_tenant": rows[-1].tenant_id, "after_session": rows[-1].id} if rows else {"state": COMPLETE}
        filled = filterable_keys.c.key.in_([row.key for row in keys])
        await connection.execute(update(filterable_keys).where(filled).values(place))
    return len(rows)


async def _least_filled(connection: AsyncConnection) -> list[Row[Any]]:
    """The keys that are filled no further than any other, held; none if another process fills."""
    place = (filterable_keys.c.after_tenant, filterable_keys.c.after_session)
    query = select(filterable_keys).where(filterable_keys.c.state == FILLING).order_by(*place)
    rows = (await connection.execute(query.with_for_update(skip_locked=True))).all()
    return [row for row in rows if _place_of(row) == _place_of(rows[0])]


def _place_of(row: Row[Any]) -> SessionKey:
    return SessionKey(row.after_tenant, row.after_session)


async def _after(connection: AsyncConnection, place: SessionKey, limit: int, *, damaged: bool) -> list[Row[Any]]:
    """The next sessions, held; of damaged ones no metadata is read."""
    own = (sessions.c.tenant_id, sessions.c.id)
    query = select(*own) if damaged else select(*own, sessions.c.metadata)
    query = query.where(tuple_(*own) > place).order_by(*own).limit(limit)
    return list((await connection.execute(query.with_for_update(key_share=True))).all())


async def _label_noted(database: Database, batch: int) -> int:
    """Write the labels that the writers of sealed metadata have left out."""
    query = select(unlabelled_sessions).limit(batch)
    async with database.reading() as connection:
        noted = [SessionKey(row.tenant_id, row.session_id) for row in (await connection.execute(query)).all()]
    for key in noted:
        try:
            await _label(database, key)
        except DamagedSession as error:
            logger.warning("labels.damaged_session tenant=%s session=%s: %s", *key, error)
            async with database.transaction() as connection:
                await _unnote(connection, key)
    return len(noted)


async def _label(database: Database, key: SessionKey) -> None:
    async with database.transaction(key) as connection:
        own = (sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
        query = select(sessions.c.metadata).where(*own).with_for_update(key_share=True)
        metadata = cast("dict[str, Any] | None", await connection.scalar(query))
        if metadata is not None:
            await put_labels(connection, {key: metadata}, await label_keys(connection))
        await _unnote(connection, key)


async def _unnote(connection: AsyncConnection, key: SessionKey) -> None:
    own = (unlabelled_sessions.c.tenant_id == key.tenant, unlabelled_sessions.c.session_id == key.session)
    await connection.execute(delete(unlabelled_sessions).where(*own))


async def _clear(database: Database) -> None:
    """Delete the rows of removed keys, and then the keys."""
    for _ in range(_BATCHES):
        async with database.transaction() as connection:
            if not (await connection.execute(_CLEAR, {"limit": _DELETED})).rowcount:
                await connection.execute(_FORGET)
                return
