"""Media by id on a real PostgreSQL, and the URLs that show it."""

from __future__ import annotations

import asyncio
import os
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, update

from perdure.errors import DamagedSession, InvalidInput, KeyConflict
from perdure.store.content.contents import (
    NewContent,
    delete_content,
    delete_expired,
    find_content,
    keep_content,
    read_content,
)
from perdure.store.content.signed_urls import read_signer
from perdure.store.database import Database
from perdure.store.tables import contents

pytestmark = pytest.mark.asyncio(loop_scope="module")

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


def own_tenant() -> str:
    return f"content-{uuid.uuid4().hex}"


async def test_what_was_kept_comes_back(database: Database) -> None:
    """Byte for byte, also three megabytes of noise and nothing at all; another tenant has none of it."""
    tenant = own_tenant()
    for body in (PNG, b"", os.urandom(3 * 1024 * 1024)):
        row, made = await keep_content(database, tenant, NewContent("Image/PNG", body, "me", filename="päge 1.png"))
        assert made
        found = await find_content(database, row.id.upper(), tenant)
        assert found == row
        assert (row.media_type, row.filename, row.size) == ("image/png", "päge 1.png", len(body))
        assert await read_content(database, row) == body
        assert await find_content(database, row.id, own_tenant()) is None
        assert await find_content(database, row.id) == row


async def test_the_same_again_is_one_and_other_bytes_are_refused(database: Database) -> None:
    """Also when ten come at once; an id of another tenant's cannot be taken over, nor told from one with other bytes."""
    tenant, ident = own_tenant(), str(uuid.uuid4())
    new = NewContent("image/png", PNG, "me", id=ident)
    kept = await asyncio.gather(*(keep_content(database, tenant, new) for _ in range(10)))
    assert sum(made for _, made in kept) == 1
    assert {row.id for row, _ in kept} == {ident}
    with pytest.raises(KeyConflict, match="other bytes"):
        await keep_content(database, tenant, NewContent("image/png", b"other", "me", id=ident))
    with pytest.raises(KeyConflict, match="other bytes"):
        await keep_content(database, own_tenant(), new)
    assert await read_content(database, kept[0][0]) == PNG


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "../../etc/passwd"},
        {"id": ""},
        {"media_type": "png"},
        {"media_type": "image/png\r\nX: y"},
        {"media_type": "image/" + "x" * 300},
        {"filename": "a/b"},
        {"filename": "a\nb"},
        {"filename": ""},
    ],
    ids=lambda wrong: str(*wrong.items())[:40],
)
async def test_bad_input_is_refused_by_name(database: Database, wrong: dict[str, str]) -> None:
    media_type, ident = wrong.get("media_type", "a/b"), wrong.get("id")
    new = NewContent(media_type, b"", "me", id=ident, filename=wrong.get("filename"))
    with pytest.raises(InvalidInput, match="must be"):
        await keep_content(database, own_tenant(), new)
    assert await find_content(database, wrong.get("id", "no uuid")) is None


async def test_what_is_over_is_not_found_and_then_deleted(database: Database) -> None:
    tenant = own_tenant()
    past = datetime.now(UTC) - timedelta(seconds=1)
    over, _ = await keep_content(database, tenant, NewContent("a/b", b"over", "me", expires_at=past))
    lasting, _ = await keep_content(database, tenant, NewContent("a/b", b"lasting", "me"))
    assert await find_content(database, over.id, tenant) is None
    await delete_expired(database, limit=1_000)  # or a worker's sweep was there first
    async with database.transaction(tenant) as connection:
        count = select(func.count()).select_from(contents).where(contents.c.tenant_id == tenant)
        assert await connection.scalar(count) == 1
    with pytest.raises(DamagedSession):
        await read_content(database, over)
    assert await read_content(database, lasting) == b"lasting"
    assert not await delete_content(database, own_tenant(), lasting.id)
    assert await delete_content(database, tenant, lasting.id)
    assert await find_content(database, lasting.id, tenant) is None


async def test_changed_bytes_are_never_shown(database: Database) -> None:
    row, _ = await keep_content(database, own_tenant(), NewContent("a/b", b"mine", "me"))
    async with database.transaction() as connection:
        await connection.execute(update(contents).where(contents.c.id == row.id).values(bytes=b"theirs"))
    with pytest.raises(DamagedSession, match="hash"):
        await read_content(database, row)


async def test_all_replicas_sign_alike(database: Database) -> None:
    """Those that ask for the key at once have the same one."""
    signers = await asyncio.gather(*(read_signer(database) for _ in range(10)))
    assert len({signer.secret for signer in signers}) == 1
