"""Which keys a database needs: each key that seals is noted, with a proof that tells another key of the same id."""

from __future__ import annotations

import base64
from collections.abc import Collection
from datetime import UTC, datetime

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert as upsert

from perdure.errors import DamagedSession, KeyMissing
from perdure.store.database import Database
from perdure.store.keyring import VARIABLE
from perdure.store.tables import encryption_keys

_EVERYBODY = "*"
_WORD = b"perdure"
_PURPOSE = b"proof"


async def check_keys(database: Database) -> None:
    """See that this process has every key that the database needs, and note the one that it seals with.

    A process that lacks one must not start: it would fail what others can read.

    Raises:
        KeyMissing: one is not among its keys, or another key has that id; the message names the id and the setting.
    """
    keyring = database.keyring
    noted = await noted_keys(database)
    for name, proof in noted.items():
        if name not in keyring.ids:
            what = "does not have it" if keyring else "is not set"
            raise KeyMissing(
                f"this database holds what is sealed under key {name!r}, and {VARIABLE} {what}; add the key, or have "
                "everything sealed under another one first: `perdure encryption rotate`"
            )
        try:
            keyring.open(proof, purpose=_PURPOSE)
        except DamagedSession:
            raise KeyMissing(f"{VARIABLE} has another key {name!r} than this database was sealed with") from None
    if keyring.first is not None and keyring.first not in noted:
        await _note(database, keyring.first, keyring.seal(_WORD, purpose=_PURPOSE))


async def noted_keys(database: Database) -> dict[str, bytes]:
    """The proofs of the keys under which something may be sealed, by id, oldest first."""
    columns = (encryption_keys.c.id, func.encode(encryption_keys.c.proof, "base64").label("proof"))
    query = select(*columns).where(encryption_keys.c.tenant_id == _EVERYBODY).order_by(encryption_keys.c.made_at)
    async with database.reading() as connection:
        return {row.id: base64.b64decode(row.proof) for row in (await connection.execute(query)).all()}


async def forget_keys(database: Database, names: Collection[str]) -> None:
    """Note that nothing is sealed under these keys any more."""
    own = (encryption_keys.c.tenant_id == _EVERYBODY, encryption_keys.c.id.in_(names))
    async with database.transaction() as connection:
        await connection.execute(delete(encryption_keys).where(*own))


async def _note(database: Database, name: str, proof: bytes) -> None:
    row = {"tenant_id": _EVERYBODY, "id": name, "proof": proof, "made_at": datetime.now(UTC)}
    async with database.transaction() as connection:
        await connection.execute(upsert(encryption_keys).values(row).on_conflict_do_nothing())
