"""Databases whose sessions have labels: clear or sealed, with sessions, and what a list by metadata finds there."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from sqlalchemy import text

from perdure.store.database import Database
from perdure.store.filterable_keys import COMPLETE, list_filterable, set_filterable
from perdure.store.keyring import NO_KEYS, Keyring
from perdure.store.label_filling import keep_labels
from perdure.store.opening import Opening, open_session
from perdure.store.sessions import list_sessions
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONValue
from tests.integration.durable_sessions import make_database
from tests.integration.stack import Stack, eventually

TENANT = "labelled"


@asynccontextmanager
async def labelled(stack: Stack, *keys: str, keyring: Keyring = NO_KEYS) -> AsyncGenerator[Database]:
    """A database of its own, whose lists are filtered by these keys."""
    database = Database(await make_database(stack, f"labelled_{uuid.uuid4().hex}"), pool_size=5, keyring=keyring)
    await allow(database, *keys)
    yield database
    await database.close()


async def allow(database: Database, *keys: str) -> None:
    """Have lists be filtered by these keys, and all of them complete."""
    await set_filterable(database, keys)
    await filled(database)


async def filled(database: Database) -> None:
    """Keep labels until all keys are complete: writers elsewhere on the server may hold that up."""

    async def complete() -> bool:
        await keep_labels(database)
        return set((await list_filterable(database)).values()) <= {COMPLETE}

    await eventually(complete, what="all keys complete")


async def opened(database: Database, metadata: Mapping[str, JSONValue], *, tenant: str = TENANT) -> str:
    """A new session."""
    key = SessionKey(tenant, new_id())
    await open_session(database, key, Opening("talker", "a", metadata=metadata))
    return key.session


async def found(
    database: Database, metadata: Mapping[str, JSONValue], *, tenant: str = TENANT, **more: str
) -> list[str]:
    """The sessions that a list by metadata shows, newest first, by pages of two."""
    ids: list[str] = []
    before: tuple[datetime, str] | None = None
    while True:
        rows = await list_sessions(
            database, tenant, metadata=metadata, before=before, limit=2, status=more.get("status")
        )
        ids += [row.key.session for row in rows]
        if len(rows) < 2:
            return ids
        before = (rows[-1].created_at, rows[-1].key.session)


async def labels(database: Database, session: str | None = None) -> set[tuple[str, str]]:
    """Keys and values that are stored, of one session or of all."""
    query = (
        "select key, value from perdure.session_labels where session_id = coalesce(cast(:session as text), session_id)"
    )
    async with database.transaction() as connection:
        rows = (await connection.execute(text(query), {"session": session})).all()
    return {(row.key, row.value) for row in rows}


async def unlabelled(database: Database) -> list[str]:
    """The sessions whose labels somebody has left out."""
    async with database.transaction() as connection:
        return list(await connection.scalars(text("select session_id from perdure.unlabelled_sessions")))


LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
