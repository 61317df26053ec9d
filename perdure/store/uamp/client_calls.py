"""Which tool calls the clients of a chat were asked to run."""

from __future__ import annotations

from sqlalchemy import select

from perdure.store.database import Database
from perdure.store.tables import waits
from perdure.uap.session_key import SessionKey

_CLIENT_TOOL = "client_tool"


async def was_asked_for(database: Database, key: SessionKey, call_id: str) -> bool:
    """Whether a client of the chat was ever asked to run a call of this id.

    Args:
        database: the store.
        key: the session that the chat is.
        call_id: as the client was told it; of a vendor that uses ids again, with a number behind `~`.
    """
    query = select(waits.c.asked).where(
        waits.c.tenant_id == key.tenant, waits.c.session_id == key.session, waits.c.kind == _CLIENT_TOOL
    )
    known = {call_id, call_id.partition("~")[0]}
    async with database.reading(key) as connection:
        asked = (await connection.scalars(query)).all()
    return any(item.get("call") in known for item in asked)
