"""The keys that sign responses, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from perdure.errors import DamagedSession, KeyMissing
from perdure.protocols.uamp_events.content_items import TextItem
from perdure.runtime.response_signer import ResponseSigner
from perdure.runtime.signing_keys import keep_new_key, keys_from, stored_keys
from perdure.store.database import Database
from perdure.store.keyring import KEY_BYTES, Keyring
from perdure.store.signing_keys import delete_signing_key, read_signing_keys
from tests.integration import access_stage
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEYS = Keyring([("mine", os.urandom(KEY_BYTES))])


@pytest_asyncio.fixture(loop_scope="module")
async def own(stack: Stack) -> AsyncGenerator[str]:
    """The URL of a database that nobody else uses: keys are of a deployment."""
    context = access_stage.own_database(stack)
    url = await asyncio.to_thread(context.__enter__)
    yield url
    await asyncio.to_thread(context.__exit__, None, None, None)


def signer_of(database: Database) -> ResponseSigner:
    return ResponseSigner(keys_from("stored", database))


async def token_of(signer: ResponseSigner) -> str | None:
    return await signer.sign(
        [TextItem(text="22")], response_id="r", request="00", issuer="a", audience=None, issued_at=100
    )


async def test_84_all_processes_sign_with_one_key(own: str) -> None:
    """Ten need the first one at once; one is made, and all ten make the same signature."""
    databases = [Database(own, pool_size=1) for _ in range(10)]
    signers = [signer_of(database) for database in databases]
    tokens = await asyncio.gather(*(token_of(signer) for signer in signers))
    assert len(set(tokens)) == 1
    assert len(await read_signing_keys(databases[0])) == 1
    assert [await signer.key_set() for signer in signers] == [await signers[0].key_set()] * 10
    for database in databases:
        await database.close()


async def test_a_key_that_follows_is_published_at_once_and_signs_later(own: str) -> None:
    database = Database(own, pool_size=1)
    before = await token_of(signer_of(database))
    rows = await keep_new_key(database, only_first=False)
    assert len(rows) == 2
    assert [key.kid for key in await stored_keys(database)] == [rows[1].id, rows[0].id]
    assert await token_of(signer_of(database)) == before
    assert await delete_signing_key(database, rows[1].id)
    assert not await delete_signing_key(database, rows[1].id)
    assert [key.kid for key in await stored_keys(database)] == [rows[0].id]
    await database.close()


async def test_a_private_key_is_stored_sealed(own: str) -> None:
    """Where the deployment has keys of encryption, nobody reads it without them."""
    sealing, blind = Database(own, pool_size=1, keyring=KEYS), Database(own, pool_size=1)
    (kept,) = await stored_keys(sealing)
    async with blind.driver() as connection:
        raw = base64.b64decode(
            await connection.fetchval("select encode(private_key, 'base64') from perdure.signing_keys")
        )
    assert kept.to_der() not in raw
    assert b"mine" in raw
    with pytest.raises((KeyMissing, DamagedSession)):
        await stored_keys(blind)
    for database in (sealing, blind):
        await database.close()
