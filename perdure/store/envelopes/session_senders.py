"""Who has to do with a session by envelopes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import exists, select

from perdure.store.database import Database
from perdure.store.tables import envelopes

_KEPT: Any = envelopes.c


async def has_session(database: Database, tenant: str, own: str, sender: str, session: str) -> bool:
    """Whether a session has come from what a sender asked an agent of ours.

    Args:
        database: the store.
        tenant: whose.
        own: the DID of ours.
        sender: the DID of the other.
        session: as the sender names it.
    """
    found = exists().where(
        _KEPT.tenant_id == tenant, _KEPT.own == own, _KEPT.sender == sender, _KEPT.session_id == session
    )
    async with database.reading(tenant) as connection:
        return bool(await connection.scalar(select(found)))
