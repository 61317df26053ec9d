"""A session's own metadata, which clients write: by key, under the lock of the session's head row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from typing import cast

from sqlalchemy import select, update

from perdure.errors import SessionGone, UnknownSession
from perdure.store.database import Database
from perdure.store.session_labels import label_sealed
from perdure.store.tables import session_heads, sessions
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue


async def write_metadata(
    database: Database, key: SessionKey, changed: Mapping[str, JSONValue], removed: Collection[str] = ()
) -> JSONObject:
    """Set some keys of a session's metadata and remove others, in one transaction; what others wrote beside them stays.

    Returns:
        All of the metadata as it is now.

    Raises:
        UnknownSession: there is no such session.
        SessionGone: it is being deleted.
    """

    def write(metadata: JSONObject) -> None:
        metadata.update(changed)
        for name in removed:
            metadata.pop(name, None)

    return await change_metadata(database, key, write)


async def change_metadata(database: Database, key: SessionKey, change: Callable[[JSONObject], None]) -> JSONObject:
    """Change a session's metadata as it stands, in one transaction.

    Args:
        database: the store.
        key: the session.
        change: changes the object that it is given.

    Returns:
        All of the metadata as it is now.

    Raises:
        UnknownSession: there is no such session.
        SessionGone: it is being deleted.
    """
    head = (session_heads.c.tenant_id == key.tenant) & (session_heads.c.session_id == key.session)
    head &= ~session_heads.c.stage
    here = (sessions.c.tenant_id == key.tenant) & (sessions.c.id == key.session)
    async with database.transaction(key) as connection:
        deleting = await connection.scalar(select(session_heads.c.deleting).where(head).with_for_update())
        if deleting is None:
            raise UnknownSession(f"no session {key.session}; `perdure sessions list` shows those there are")
        if deleting:
            raise SessionGone(f"session {key.session} is being deleted; its metadata stays what it is")
        known = cast(JSONObject, await connection.scalar(select(sessions.c.metadata).where(here)))
        changed = deepcopy(known)
        change(changed)
        if changed != known:
            await connection.execute(update(sessions).where(here).values(metadata=database.seal(key).value(changed)))
            await label_sealed(connection, key, changed)
    return changed
