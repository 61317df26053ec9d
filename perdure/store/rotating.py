"""Sealing again what is stored, under the first key; and counting what is sealed under which.

The rows themselves say how far it is: whoever is cut off begins again, and passes over what is done. It works on raw rows,
with a connection of its own, and writes a value only if it is still the one that was read.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import asyncpg
from sqlalchemy import Column, LargeBinary, Table

from perdure.errors import DamagedSession
from perdure.store.database import Database
from perdure.store.json_text import escaped_json, read_json
from perdure.store.keyring import MAGIC, Keyring, header_of, is_sealed
from perdure.store.sealed_columns import SEALED_COLUMNS, SEALED_FOR
from perdure.store.sealing import BODIES, PARTS, Seal, from_token, to_token
from perdure.store.tables import metadata
from perdure.uap.session_key import SessionKey

BATCH = 200
PAYLOAD = b"\n"
"""How a payload of Temporal begins, as no other body does. The codec sealed it, and a claim in a history names it as it is."""

_STORED = re.compile(r'(?<="\\ufdd0sealed":")([^"]+)(?=")')
_MARK = r'"\\ufdd0sealed":"'


@dataclass(frozen=True, slots=True)
class Place:
    """A column that is sealed."""

    table: Table
    column: Column[Any]

    @property
    def name(self) -> str:
        """As people write it."""
        return f"{self.table.name}.{self.column.name}"

    @property
    def is_body(self) -> bool:
        """Whether it holds bytes, not JSON."""
        return isinstance(self.column.type, LargeBinary)

    @property
    def raw(self) -> str:
        """The value as it is stored, in SQL."""
        return f'"{self.column.name}"' if self.is_body else f'"{self.column.name}"::text'

    @property
    def owner(self) -> str:
        """The column that names the session, or whatever else the value is sealed for."""
        if self.table.name in SEALED_FOR:
            return SEALED_FOR[self.table.name]
        return "session_id" if "session_id" in self.table.c else "id"

    @property
    def identity(self) -> list[str]:
        """The columns of the primary key."""
        return [column.name for column in self.table.primary_key]


def places() -> list[Place]:
    """All sealed columns."""
    tables = {table.name: table for table in metadata.tables.values()}
    return [
        Place(tables[name], tables[name].c[column]) for name, columns in SEALED_COLUMNS.items() for column in columns
    ]


async def count_sealed(database: Database, key: str) -> dict[str, int]:
    """How many values are sealed under a key, by column; those with none are left out."""
    found: dict[str, int] = {}
    async with _raw(database) as connection:
        for place in places():
            sql = f"select count(*) from perdure.{place.table.name} where {_touches(place, key)}"  # noqa: S608  # names of ours
            count = cast(int, await connection.fetchval(sql, *_given(place, key)))
            if count:
                found[place.name] = count
    return found


async def reseal(
    database: Database, *, batch: int = BATCH, told: Callable[[str, int], None] = lambda _place, _count: None
) -> dict[str, int]:
    """Seal all that is not sealed under the first key under it; also what was written before there were keys.

    Args:
        database: the store; its keyring has keys.
        batch: rows read at once.
        told: called after each batch with the column and how many values of it were sealed so far.

    Returns:
        How many values were sealed, by column.

    Raises:
        KeyMissing: something is sealed under a key that is not there.
        DamagedSession: something does not open; what came before it is done.
    """
    done: dict[str, int] = {}
    async with _raw(database) as connection:
        for place in places():
            async for count in _column(connection, database.keyring, place, batch):
                done[place.name] = done.get(place.name, 0) + count
                told(place.name, done[place.name])
    return {name: count for name, count in done.items() if count}


async def _column(
    connection: asyncpg.Connection[asyncpg.Record], keyring: Keyring, place: Place, batch: int
) -> AsyncGenerator[int]:
    """Reseal a column, a batch after the other; how many values each had to be changed."""
    names = ", ".join(f'"{name}"' for name in place.identity)
    marks = ", ".join(f"${n}" for n in range(3, 3 + len(place.identity)))
    wrong = f"{place.raw} is not null and not ({_under(place, keyring.first or '')})"
    sql = f"select {names}, {place.owner} as owner, {place.raw} as value from perdure.{place.table.name} where {wrong}"  # noqa: S608
    order = f" order by {names} limit $2"
    rows = await connection.fetch(sql + order, *_given(place, keyring.first or ""), batch)
    while rows:
        changed = 0
        for row in rows:
            changed += await _row(connection, keyring, place, row)
        yield changed
        last = [rows[-1][name] for name in place.identity]
        rows = await connection.fetch(
            f"{sql} and ({names}) > ({marks}){order}", *_given(place, keyring.first or ""), batch, *last
        )


async def _row(
    connection: asyncpg.Connection[asyncpg.Record], keyring: Keyring, place: Place, row: asyncpg.Record
) -> int:
    fresh = _fresh(keyring, place, row)
    if fresh == row["value"]:
        return 0
    own = " and ".join(f'"{name}" = ${n}' for n, name in enumerate(place.identity, 3))
    kind = "bytea" if place.is_body else "text"
    answer = await connection.execute(
        f'update perdure.{place.table.name} set "{place.column.name}" = $2::{kind}'  # noqa: S608
        f"{'' if place.is_body else '::json'} where {own} and {place.raw} = $1::{kind}",
        row["value"], fresh, *(row[name] for name in place.identity),
    )  # fmt: skip
    return int(answer.rpartition(" ")[2])


def _fresh(keyring: Keyring, place: Place, row: asyncpg.Record) -> bytes | str:
    """The value, sealed under the first key."""
    value: Any = row["value"]
    if place.is_body and value.startswith(PAYLOAD):
        return value
    try:
        if place.is_body and is_sealed(value):
            return _resealed(keyring, value, BODIES)
        if not place.is_body and _STORED.search(value):
            return _STORED.sub(lambda found: to_token(_resealed(keyring, from_token(found[1]), PARTS)), value)
    except DamagedSession as error:
        which = ", ".join(f"{name} {row[name]}" for name in place.identity)
        raise DamagedSession(f"{place.name} of {which}: {error}") from error
    owner = SessionKey(row["tenant_id"], row["owner"])
    plain: Any = value if place.is_body else read_json(value)
    if plain is None:
        return value
    sealed = Seal(keyring, owner).row(place.table, {place.column.name: plain})[place.column.name]
    return sealed if place.is_body else escaped_json(sealed) if sealed != plain else value


def _resealed(keyring: Keyring, sealed: bytes, purpose: bytes) -> bytes:
    name, scope, _ = header_of(sealed)
    if name == keyring.first:
        return sealed
    return keyring.seal(keyring.open(sealed, purpose=purpose), scope=scope, purpose=purpose)


def _under(place: Place, key: str) -> str:
    """Whether a value is sealed under the key, all of it, in SQL; `$1` is what `_given` says."""
    if place.is_body:
        return f"substring({place.raw} from 1 for {len(MAGIC) + 1 + len(key)}) = $1::bytea"
    return f"{place.raw} ~ ('{_MARK}' || $1::text || ':') and {place.raw} !~ ('{_MARK}(?!' || $1::text || ':)')"


def _touches(place: Place, key: str) -> str:
    """Whether any part of a value is sealed under the key; likewise."""
    return _under(place, key) if place.is_body else f"{place.raw} ~ ('{_MARK}' || $1::text || ':')"


def _given(place: Place, key: str) -> tuple[Any]:
    if place.is_body:
        return (MAGIC + bytes([len(key)]) + key.encode(),)
    return (key.replace(".", r"\."),)


@asynccontextmanager
async def _raw(database: Database) -> AsyncGenerator[asyncpg.Connection[asyncpg.Record]]:
    """A connection that opens nothing."""
    connection = await database.connect_alone()
    try:
        yield connection
    finally:
        await connection.close()
