"""Changing what a session's owner says of it: title and metadata, under the lock of the head row, also during a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import update

from perdure.errors import SessionGone
from perdure.store.database import Database
from perdure.store.opening import lock_head
from perdure.store.sessions import SessionRow, session_of
from perdure.store.tables import sessions
from perdure.uap.session_key import SessionKey, unknown_session
from perdure.upp.json_value import JSONObject, JSONValue


@dataclass(frozen=True, slots=True)
class Patch:
    """What changes.

    Attributes:
        retitled: the title does, to `title`; None takes it away.
        title: for lists.
        metadata: keys to set; the others stay.
        removed: keys to remove.
    """

    retitled: bool = False
    title: str | None = None
    metadata: Mapping[str, JSONValue] | None = None
    removed: Collection[str] = ()


async def patch_session(database: Database, key: SessionKey, patch: Patch) -> SessionRow:
    """Change a session's title and metadata in one transaction; what others wrote beside them stays.

    Raises:
        UnknownSession: there is no such session.
        SessionGone: it is being deleted.
    """
    async with database.transaction() as connection:
        head = await lock_head(connection, key)
        if head is None:
            raise unknown_session(key.session)
        if head.deleting:
            raise SessionGone(f"session {key.session} is being deleted; it stays what it is")
        values: dict[str, Any] = {"title": patch.title} if patch.retitled else {}
        if patch.metadata or patch.removed:
            known = (await session_of(connection, key)).metadata
            merged: JSONObject = {**known, **(patch.metadata or {})}
            values["metadata"] = {name: value for name, value in merged.items() if name not in patch.removed}
        if values:
            here = (sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
            await connection.execute(update(sessions).where(*here).values(**values, updated_at=datetime.now(UTC)))
        return await session_of(connection, key)
