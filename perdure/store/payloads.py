"""The claim check: bodies too large for their row, and tool results, by sha256 within a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import asyncpg

from perdure.errors import DamagedSession
from perdure.store.database import Database
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import sha256_hex


async def read_payloads(database: Database, key: SessionKey, hashes: Iterable[str]) -> dict[str, bytes]:
    """Bodies by sha256, each checked against it.

    Raises:
        DamagedSession: one is missing or has another hash.
    """
    wanted = sorted(set(hashes))
    if not wanted:
        return {}
    async with database.driver(key) as connection:
        return await payloads_in(connection, key, wanted)


async def payloads_in(
    connection: asyncpg.Connection[asyncpg.Record], key: SessionKey, wanted: Sequence[str]
) -> dict[str, bytes]:
    """As `read_payloads`, by a connection that is in use."""
    sql = "select sha256, bytes from perdure.payloads where tenant_id = $1 and session_id = $2 and sha256 = any($3)"
    rows = await connection.fetch(sql, key.tenant, key.session, wanted)
    found = {row["sha256"]: checked(row["sha256"], row["bytes"], "payload") for row in rows}
    missing = [name for name in wanted if name not in found]
    if missing:
        raise DamagedSession(f"session {key.session} lacks payload {missing[0]}; restore it from a backup")
    return found


def checked(sha256: str, body: bytes | None, what: str) -> bytes:
    """`body`, if it is there and has this hash.

    Raises:
        DamagedSession: otherwise.
    """
    if body is None or sha256_hex(body) != sha256:
        raise DamagedSession(f"a stored {what} does not have the hash {sha256} that its row names; it is not used")
    return body
