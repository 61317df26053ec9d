"""The keys of our own agents, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from perdure.errors import DamagedSession, KeyMissing
from perdure.runtime.envelopes.own_keys import PUBLISHED_BEFORE, OwnKeys
from perdure.store.database import Database
from perdure.store.envelope_keys import delete_envelope_key, read_envelope_keys, retire_envelope_key
from perdure.store.keyring import KEY_BYTES, Keyring
from tests.conformance.envelope_clock import AdjustableClock
from tests.integration import access_stage
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEYS = Keyring([("mine", os.urandom(KEY_BYTES))])
DID = "did:web:agents.example"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def url(stack: Stack) -> AsyncGenerator[str]:
    """The URL of a database that nobody else uses."""
    context = access_stage.own_database(stack)
    yield await asyncio.to_thread(context.__enter__)
    await asyncio.to_thread(context.__exit__, None, None, None)


@pytest_asyncio.fixture(loop_scope="module")
async def database(url: str) -> AsyncGenerator[Database]:
    made = Database(url, pool_size=2)
    yield made
    await made.close()


async def test_all_replicas_sign_with_one_key(url: str) -> None:
    """Ten need the first one at once; one is made. Each agent has its own, and so has each tenant."""
    databases = [Database(url, pool_size=1) for _ in range(10)]
    replicas = [OwnKeys(database, "one-key", clock=AdjustableClock()) for database in databases]
    signing = await asyncio.gather(*(keys.signing(DID) for keys in replicas))
    assert len({key.kid for key in signing}) == 1
    (public,) = await replicas[0].public(DID)
    assert [key.public() for key in signing] == [public] * 10
    assert public.kid.startswith(f"{DID}#")
    assert len(public.kid) == len(DID) + 9
    assert (await replicas[0].signing(f"{DID}:agents:coder")).kid.startswith(f"{DID}:agents:coder#")
    assert (await OwnKeys(databases[0], "another", clock=AdjustableClock()).signing(DID)).public() != public
    assert [row.did for row in await read_envelope_keys(databases[0], "one-key")] == [DID, f"{DID}:agents:coder"]
    for database in databases:
        await database.close()


async def test_a_key_that_follows_is_published_at_once_and_signs_later(database: Database) -> None:
    clock = AdjustableClock()
    keys = OwnKeys(database, "rotating", clock=clock)
    old = (await keys.signing(DID)).kid
    new = (await keys.rotate(DID))[0].kid
    assert [key.kid for key in await keys.public(DID)] == [old, new]
    assert (await keys.signing(DID)).kid == old
    clock.advance(PUBLISHED_BEFORE)
    assert (await keys.signing(DID)).kid == new
    assert [key.kid for key in await keys.public(DID)] == [new, old]


async def test_a_retired_key_is_still_published_and_a_forgotten_one_not(database: Database) -> None:
    """If the last one is retired, another is made: an agent always has one that signs."""
    keys, now = OwnKeys(database, "retiring", clock=AdjustableClock()), datetime.now(UTC)
    old = (await keys.signing(DID)).kid
    ident = old.partition("#")[2]
    assert await retire_envelope_key(database, "retiring", DID, ident, now=now)
    assert not await retire_envelope_key(database, "retiring", DID, ident, now=now)
    assert not await retire_envelope_key(database, "rotating", DID, ident, now=now)
    new = (await keys.signing(DID)).kid
    assert new != old
    assert [key.kid for key in await keys.public(DID)] == [new, old]
    assert await delete_envelope_key(database, "retiring", DID, ident)
    assert not await delete_envelope_key(database, "retiring", DID, ident)
    assert [key.kid for key in await keys.public(DID)] == [new]


async def test_a_private_key_is_stored_sealed(url: str, database: Database) -> None:
    """Where the deployment has keys of encryption, nobody reads it without them."""
    sealing = Database(url, pool_size=1, keyring=KEYS)
    keys = OwnKeys(sealing, "sealed", clock=AdjustableClock())
    secret = str((await keys.signing(DID)).private_jwk()["d"])
    raw = "select encode(private_key, 'base64') from perdure.envelope_keys where tenant_id = 'sealed'"
    async with database.driver() as connection:
        stored = base64.b64decode(await connection.fetchval(raw))
    assert secret.encode() not in stored
    assert b"mine" in stored
    with pytest.raises((KeyMissing, DamagedSession)):
        await OwnKeys(database, "sealed", clock=AdjustableClock()).signing(DID)
    await sealing.close()
