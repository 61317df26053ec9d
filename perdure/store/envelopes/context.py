"""What is known of the envelopes that another one names: their hashes, and the session that they belong to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import select

from perdure.store.database import Database
from perdure.store.tables import envelopes

_KEPT: Any = envelopes.c


async def known_hashes(database: Database, tenant: str, ids: Collection[UUID], *, sender: str) -> dict[UUID, str]:
    """The `context_hash` of envelopes that are remembered here, by id; one that is not known is left out.

    Of several that have the same id the sender's own counts; if it is none of theirs, and they differ, it counts as unknown.

    Args:
        database: the store.
        tenant: whose.
        ids: of envelopes.
        sender: whose envelope it is that names them.
    """
    if not ids:
        return {}
    query = select(_KEPT.id, _KEPT.sender, _KEPT.sha256).where(
        _KEPT.tenant_id == tenant, _KEPT.id.in_([str(ident) for ident in ids])
    )
    async with database.reading(tenant) as connection:
        rows = (await connection.execute(query)).all()
    known: dict[UUID, str] = {}
    for ident in ids:
        same = [row for row in rows if row.id == str(ident)]
        hashes = {row.sha256 for row in [row for row in same if row.sender == sender] or same}
        if len(hashes) == 1:
            known[ident] = f"sha256:{hashes.pop()}"
    return known


async def find_session(database: Database, tenant: str, own: str, sender: str, ids: Sequence[UUID]) -> str | None:
    """The session of the first of these envelopes that has one, also after its exchange is forgotten.

    Args:
        database: the store.
        tenant: whose.
        own: the DID of ours that they were for.
        sender: who sent them; those of others are not looked at.
        ids: of envelopes, the most important first.
    """
    if not ids:
        return None
    names = [str(ident) for ident in ids]
    query = select(_KEPT.id, _KEPT.session_id).where(
        _KEPT.tenant_id == tenant, _KEPT.own == own, _KEPT.sender == sender, _KEPT.id.in_(names),
        _KEPT.session_id.is_not(None),
    )  # fmt: skip
    async with database.reading(tenant) as connection:
        rows = (await connection.execute(query)).all()
    best = min(rows, key=lambda row: names.index(row.id), default=None)
    return None if best is None else best.session_id
