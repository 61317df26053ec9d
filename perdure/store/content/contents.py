"""Media in rows of their own. Bytes never change: the same id with other bytes is refused."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert as upsert

from perdure.errors import InvalidInput, KeyConflict
from perdure.store.database import Database
from perdure.store.payloads import checked
from perdure.store.sealing import seal_in
from perdure.store.tables import contents
from perdure.uap.content_refs import is_content_id
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import sha256_hex
from perdure.upp.media_names import checked_filename, checked_media_type

_HEAD = [column for column in contents.c if column.name != "bytes"]


@dataclass(frozen=True, slots=True)
class ContentRow:
    """Media without its bytes.

    Attributes:
        id: UUID.
        media_type: as its sender says.
        filename: for people; None if it has none.
        size: in bytes.
        sha256: of the bytes.
        made_by: who stored it: a client as its authenticator names it, or a run's tool.
        expires_at: when it is deleted; None for never.
    """

    tenant: str
    id: str
    media_type: str
    filename: str | None
    size: int
    sha256: str
    made_by: str
    made_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewContent:
    """Media that is to be stored.

    Attributes:
        id: a UUID of the sender's, so that a second try stores nothing; None for a new one.
    """

    media_type: str
    body: bytes
    made_by: str
    id: str | None = None
    filename: str | None = None
    expires_at: datetime | None = None


async def keep_content(database: Database, tenant: str, new: NewContent) -> tuple[ContentRow, bool]:
    """Store media.

    Returns:
        Its row, and whether this call made it.

    Raises:
        InvalidInput: the id, the media type or the file name cannot be one.
        KeyConflict: the id has other bytes, or is another tenant's.
    """
    ident = new_id() if new.id is None else checked_content_id(new.id)
    sha256 = sha256_hex(new.body)
    values = {
        "tenant_id": tenant, "id": ident, "media_type": checked_media_type(new.media_type),
        "filename": checked_filename(new.filename), "size": len(new.body), "sha256": sha256, "bytes": new.body,
        "made_by": new.made_by, "expires_at": new.expires_at,
    }  # fmt: skip
    key = SessionKey(tenant, ident)
    async with database.transaction(key) as connection:
        sealed = {**seal_in(connection, key).row(contents, values), "made_at": func.clock_timestamp()}
        statement = upsert(contents).values(sealed).on_conflict_do_nothing().returning(contents.c.id)
        made = await connection.scalar(statement) is not None
        found = (await connection.execute(_heads().where(_is(tenant, ident)))).first()
    if found is None or found.sha256 != sha256:
        raise KeyConflict(f"content {ident} is there with other bytes; leave its id out to store these")
    return _row(found), made


async def find_content(database: Database, ident: str, tenant: str | None = None) -> ContentRow | None:
    """Media by its id; None if there is none, or its time is over.

    Args:
        database: the store.
        ident: whatever a client sent.
        tenant: whose it must be. None asks for whoever's it is: only for a URL that is signed.
    """
    if not is_content_id(ident):
        return None
    query = _heads().where(contents.c.id == ident.lower(), _is_alive())
    if tenant is not None:
        query = query.where(contents.c.tenant_id == tenant)
    async with database.reading() as connection:
        found = (await connection.execute(query)).first()
    return None if found is None else _row(found)


async def find_contents(database: Database, tenant: str, idents: Collection[str]) -> dict[str, ContentRow]:
    """A tenant's media by id; what is not there, or over, is left out."""
    query = _heads().where(contents.c.tenant_id == tenant, contents.c.id.in_(idents), _is_alive())
    async with database.reading(tenant) as connection:
        rows = (await connection.execute(query)).all()
    return {row.id: _row(row) for row in rows}


async def page_contents(
    database: Database, tenant: str, *, after: tuple[datetime, str] | None, limit: int
) -> list[ContentRow]:
    """A tenant's media, the newest first.

    Args:
        database: the store.
        tenant: whose.
        after: time and id of the last of the page before; None for the first page.
        limit: at most so many.
    """
    query = _heads().where(contents.c.tenant_id == tenant, _is_alive())
    if after is not None:
        query = query.where(tuple_(contents.c.made_at, contents.c.id) < after)
    query = query.order_by(contents.c.made_at.desc(), contents.c.id.desc()).limit(limit)
    async with database.reading(tenant) as connection:
        return [_row(row) for row in (await connection.execute(query)).all()]


async def read_content(database: Database, row: ContentRow) -> bytes:
    """The bytes of media.

    Raises:
        DamagedSession: they are not there any more, or not those that its row names.
    """
    key = SessionKey(row.tenant, row.id)
    async with database.reading(key) as connection:
        body = await connection.scalar(select(contents.c.bytes).where(_is(row.tenant, row.id)))
    return checked(row.sha256, body, "content")


async def delete_content(database: Database, tenant: str, ident: str) -> bool:
    """Delete media; whether there was any."""
    async with database.transaction(tenant) as connection:
        done = await connection.execute(delete(contents).where(_is(tenant, ident.lower())))
        return bool(done.rowcount)


async def delete_expired(database: Database, *, limit: int = 100) -> int:
    """Delete media whose time is over; how many."""
    over = (
        select(contents.c.tenant_id, contents.c.id)
        .where(contents.c.expires_at <= func.clock_timestamp())
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("over")
    )
    gone = delete(contents).where(contents.c.tenant_id == over.c.tenant_id, contents.c.id == over.c.id)
    async with database.transaction() as connection:
        return (await connection.execute(gone)).rowcount


def checked_content_id(ident: str) -> str:
    """An id that can be one, in lower case. Raises InvalidInput."""
    if not is_content_id(ident):
        raise InvalidInput(f"a content id must be a UUID, not {ident[:60]!r}")
    return ident.lower()


def _heads() -> Select[Any]:
    return select(*_HEAD)


def _is(tenant: str, ident: str) -> Any:
    return (contents.c.tenant_id == tenant) & (contents.c.id == ident)


def _is_alive() -> Any:
    return contents.c.expires_at.is_(None) | (contents.c.expires_at > func.clock_timestamp())


def _row(row: Row[Any]) -> ContentRow:
    return ContentRow(
        row.tenant_id, row.id, row.media_type, row.filename, row.size, row.sha256, row.made_by, row.made_at,
        row.expires_at,
    )  # fmt: skip
