"""With keys set nothing that envelopes and frames say can be read in the database."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from perdure.errors import DamagedSession, KeyMissing
from perdure.protocols.uamp_envelope.lifecycle import Step
from perdure.store.database import Database
from perdure.store.envelopes.exchanges import find_exchange, opening_envelope
from perdure.store.envelopes.frames import take_frames
from perdure.store.envelopes.rows import ExchangeRow
from perdure.store.envelopes.settling import settle
from perdure.store.keyring import new_key, parse_keys
from perdure.store.rotating import count_sealed, reseal
from perdure.store.sealed_columns import SEALED_COLUMNS, SEALED_FOR
from tests.integration.access_stage import own_database
from tests.integration.envelope_story import EnvelopeStory
from tests.integration.sealed_place import forms
from tests.integration.stack import Stack
from tests.integration.test_store_stage_sealed import raw

PLACES = {f"{table}.{column}" for table in SEALED_FOR for column in SEALED_COLUMNS[table]}


@pytest.fixture
def url(stack: Stack) -> Iterator[str]:
    """A database that nobody else uses: one sealed row closes it to all who have no key."""
    with own_database(stack) as made:
        yield made


async def told(database: Database, word: str) -> tuple[EnvelopeStory, ExchangeRow]:
    """An exchange in which the word is said wherever something can be; no session is known of it."""
    envelopes = EnvelopeStory(database)
    new = envelopes.new("propose", word)
    row = (await envelopes.keep(replace(new, proposal={"type": "text/plain", "text": word}))).exchange
    assert row is not None
    await envelopes.framed(row, "chunk", "error", text=word)
    error = {"code": "5.00", "message": word, "retryable": False}
    ended = await settle(database, row.tenant, row.id, Step.ERROR, now=envelopes.now, error={**error})
    assert ended is not None
    return envelopes, ended


async def seen(database: Database, row: ExchangeRow) -> str:
    """All that can be read of it."""
    now = await find_exchange(database, row.tenant, row.id)
    found = await take_frames(database, row.tenant, row.id, after=-1, window=9, limit=9)
    assert now is not None
    assert found is not None
    said = str(await opening_envelope(database, row))
    return json.dumps([now.error, now.proposal, said, *(frame.to_json() for frame in found[1])])


async def test_nothing_that_was_said_can_be_read(url: str) -> None:
    """Neither in envelopes, proposals, errors nor frames; without the key reading them is an error."""
    word = f"marker{uuid.uuid4().hex}"
    database = Database(url, pool_size=2, keyring=parse_keys(new_key("key-0")))
    _, row = await told(database, word)
    assert (await seen(database, row)).count(word) == 5
    stored = await raw(url)
    assert not [form for form in forms(word) if form in stored]
    assert {name for name in await count_sealed(database, "key-0") if name in PLACES} == PLACES
    await database.close()
    blind = Database(url, pool_size=1)
    for read in (find_exchange(blind, row.tenant, row.id), opening_envelope(blind, row), seen(blind, row)):
        with pytest.raises(KeyMissing):
            await read
    await blind.close()


async def test_what_was_written_without_a_key_is_sealed_by_a_rotation(url: str) -> None:
    """Everything reads the same before and after it, also where no session is known."""
    word = f"marker{uuid.uuid4().hex}"
    clear = Database(url, pool_size=2)
    _, row = await told(clear, word)
    before = await seen(clear, row)
    await clear.close()
    assert word in await raw(url)
    database = Database(url, pool_size=2, keyring=parse_keys(new_key("key-0")))
    assert set(await reseal(database)) >= PLACES
    stored = await raw(url)
    assert not [form for form in forms(word) if form in stored]
    assert await seen(database, row) == before
    await database.close()


async def test_a_frame_of_another_exchange_is_not_used(url: str) -> None:
    """A sealed value that was moved is an error, whoever moved it."""
    database = Database(url, pool_size=2, keyring=parse_keys(new_key("key-0")))
    envelopes, first = await told(database, "one")
    second = await envelopes.opened()
    await envelopes.framed(second, "chunk")
    async with database.driver() as connection:
        await connection.execute(
            "update perdure.envelope_frames t set frame = o.frame from perdure.envelope_frames o "
            "where t.exchange = $1 and t.seq = 0 and o.exchange = $2",
            first.id, second.id,
        )  # fmt: skip
    with pytest.raises(DamagedSession):
        await seen(database, first)
    await database.close()
