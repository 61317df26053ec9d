"""Changing what a session's owner says of it: title, metadata and limits, under the lock of the head row, also during a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import null, update

from perdure.errors import SessionGone
from perdure.store.database import Database
from perdure.store.opening import lock_head
from perdure.store.session_labels import label_sealed
from perdure.store.sessions import SessionRow, session_of
from perdure.store.tables import sessions
from perdure.uap.session_key import SessionKey, unknown_session
from perdure.uap.session_limits import SessionLimits
from perdure.upp.json_value import JSONObject, JSONValue


@dataclass(frozen=True, slots=True)
class Patch:
    """What changes.

    Attributes:
        retitled: the title does, to `title`; None takes it away.
        title: for lists.
        metadata: keys to set; the others stay.
        removed: keys to remove.
        limited: its limits change to `limits`; None takes them away.
        limits: what its runs may use together, from the next one on.
    """

    retitled: bool = False
    title: str | None = None
    metadata: Mapping[str, JSONValue] | None = None
    removed: Collection[str] = ()
    limited: bool = False
    limits: SessionLimits | None = None


async def patch_session(database: Database, key: SessionKey, patch: Patch) -> SessionRow:
    """Change a session's title, metadata and limits in one transaction; what others wrote beside them stays.

    Raises:
        UnknownSession: there is no such session.
        SessionGone: it is being deleted.
    """
    async with database.transaction(key) as connection:
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
        if patch.limited:
            values["limits"] = null() if patch.limits is None else patch.limits.to_json() or null()
        if values:
            here = (sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
            sealed = database.seal(key).row(sessions, values)
            await connection.execute(update(sessions).where(*here).values(**sealed, updated_at=datetime.now(UTC)))
        if "metadata" in values:
            await label_sealed(connection, key, values["metadata"])
        return await session_of(connection, key)
