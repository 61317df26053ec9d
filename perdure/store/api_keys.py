"""API keys: `pdk_<id>_<secret>`. The row holds the key's SHA-256, so that nobody who reads the table can use one.

A plain hash is enough, where a password would need a slow one: the secret is 32 random bytes, which nobody can guess.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, exists, func, select, update

from perdure.errors import InvalidInput
from perdure.store.database import Database
from perdure.store.tables import api_keys
from perdure.store.tenants import keep_tenant

PREFIX = "pdk_"
_FORM = re.compile(r"pdk_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_LAST_USED_GRAIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key without its secret.

    Attributes:
        id: the part of the key that is no secret.
        tenant: whose rows it opens.
        name: for people and for records of who did what.
        scopes: what it may do.
        sha256: of the whole key.
        last_used_at: to the minute, or None.
        revoked_at: since when it is worth nothing, or None.
    """

    id: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    sha256: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None

    def __repr__(self) -> str:
        return f"KeyRow(id={self.id!r}, tenant={self.tenant!r}, name={self.name!r})"

    def opens(self, key: str, now: datetime) -> bool:
        """Whether this is the key, and it is worth something still. Takes as long for a wrong key as for a right one."""
        is_same = hmac.compare_digest(_sha256(key), self.sha256)
        return is_same and self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def key_id(key: str) -> str | None:
    """The id in a key, or None if the text has not the form of one."""
    found = _FORM.fullmatch(key)
    return None if found is None else found[1]


async def create_key(
    database: Database, tenant: str, name: str, scopes: Iterable[str], *, expires_at: datetime | None = None
) -> tuple[KeyRow, str]:
    """Make a key, and its tenant if this is its first one.

    Returns:
        The row, and the key itself, which is nowhere else.
    """
    identity = secrets.token_hex(8)
    key = f"{PREFIX}{identity}_{secrets.token_urlsafe(32)}"
    row = KeyRow(identity, tenant, name, tuple(scopes), _sha256(key), datetime.now(UTC), expires_at, None, None)
    values = {"name": name, "scopes": [*row.scopes], "created_at": row.created_at, "expires_at": expires_at}
    async with database.transaction() as connection:
        await keep_tenant(connection, tenant)
        await connection.execute(api_keys.insert().values(tenant_id=tenant, id=identity, sha256=row.sha256, **values))
    return row, key


async def list_keys(database: Database, tenant: str) -> list[KeyRow]:
    """A tenant's keys, oldest first, revoked ones too."""
    query = select(api_keys).where(api_keys.c.tenant_id == tenant)
    async with database.reading() as connection:
        rows = (await connection.execute(query.order_by(api_keys.c.created_at, api_keys.c.id))).all()
    return [_key(row) for row in rows]


async def revoke_key(database: Database, tenant: str, identity: str) -> KeyRow:
    """Make a key worthless, for good; one that is revoked stays revoked since then.

    Raises:
        InvalidInput: the tenant has no such key.
    """
    change = (
        update(api_keys)
        .where(api_keys.c.tenant_id == tenant, api_keys.c.id == identity)
        .values(revoked_at=func.coalesce(api_keys.c.revoked_at, datetime.now(UTC)))
        .returning(api_keys)
    )
    async with database.transaction() as connection:
        row = (await connection.execute(change)).first()
    if row is None:
        raise InvalidInput(f"tenant {tenant!r} has no key {identity[:40]!r}; `perdure keys list` shows those it has")
    return _key(row)


async def find_key(database: Database, identity: str) -> KeyRow | None:
    """The key of that id, whoever's it is: only it tells the tenant, so no query of it can filter by one."""
    async with database.reading() as connection:
        row = (await connection.execute(select(api_keys).where(api_keys.c.id == identity))).first()
    return None if row is None else _key(row)


async def note_use(database: Database, row: KeyRow, now: datetime) -> None:
    """Keep when a key was last used, to the minute: most uses cost nothing."""
    if row.last_used_at is not None and now - row.last_used_at < _LAST_USED_GRAIN:
        return
    mine = (api_keys.c.tenant_id == row.tenant) & (api_keys.c.id == row.id)
    async with database.transaction() as connection:
        await connection.execute(update(api_keys).where(mine).values(last_used_at=now))


async def are_there_keys(database: Database) -> bool:
    """Whether any tenant was ever given a key. A revoked one counts: revoking the last must not open the server."""
    async with database.reading() as connection:
        return bool((await connection.execute(select(exists().select_from(api_keys)))).scalar())


def _sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _key(row: Row[Any]) -> KeyRow:
    return KeyRow(
        row.id, row.tenant_id, row.name, tuple(row.scopes), row.sha256, row.created_at, row.expires_at,
        row.last_used_at, row.revoked_at,
    )  # fmt: skip
