"""With keys set nothing that a UAMP client said, nor what it was sent, can be read in its sessions' rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from perdure.errors import DamagedSession, KeyMissing
from perdure.runtime.uamp.chats import presence
from perdure.store.database import Database
from perdure.store.keyring import new_key, parse_keys
from perdure.store.rotating import count_sealed, reseal
from perdure.store.sealed_columns import SEALED_COLUMNS
from perdure.store.uamp.opening import find_session
from perdure.store.uamp.responses import find_response, response_inputs
from perdure.store.uamp.rows import Seat, UampSessionRow
from perdure.store.uamp.seats import take_seat
from perdure.uap.ids import new_id
from tests.integration.access_stage import own_database
from tests.integration.sealed_place import forms
from tests.integration.stack import Stack
from tests.integration.test_store_stage_sealed import raw
from tests.integration.uamp_story import Chat

OF_UAMP = [
    f"{table}.{column}" for table, columns in SEALED_COLUMNS.items() if table.startswith("uamp_") for column in columns
]


@pytest.fixture
def url(stack: Stack) -> Iterator[str]:
    """A database that nobody else uses: one sealed row closes it to all who have no key."""
    with own_database(stack) as made:
        yield made


async def talked(database: Database, word: str) -> tuple[Chat, UampSessionRow, str]:
    """A chat in which the word is said wherever something can be, one of its sessions and a response of that."""
    chat = await Chat(database, name=f"room {word}").begin()
    values = {"username": word, "state": {"instructions": word}, "payment": {"source": word}}
    ann, bob, eve = [await chat.join(user, **values) for user in ("ann", "bob", "eve")]
    response = f"resp_{new_id()}"
    async with AsyncExitStack() as stack:
        held = await chat.hold(stack, ann)
        await held.add_input("input", {"text": word})
        await held.ask_response(response, "create", {"options": {"instructions": word}})
        await held.add_input("later", {"text": word})
        await held.post([{"type": "response.error", "error": {"code": "x", "message": word}}])
    async with AsyncExitStack() as stack:
        await (await chat.hold(stack, eve)).end(word)
    await chat.chats.read(bob, word)
    await take_seat(database, Seat(new_id(), bob), presence("bob", word, word, online=True))
    await chat.announcer.close()
    return chat, ann, response


async def seen(chat: Chat, row: UampSessionRow, response: str) -> str:
    """All that can be read of them."""
    asked = await find_response(chat.database, row.tenant, response)
    assert asked is not None
    inputs = await response_inputs(chat.database, asked)
    async with AsyncExitStack() as stack:
        more = await (await chat.hold(stack, row)).inputs()
    now = await chat.row(row)
    return json.dumps([str(now), now.state, asked.asked, inputs, more, await chat.mail(row)])


async def test_nothing_that_was_said_can_be_read(url: str) -> None:
    """Neither in inputs, what responses are begun with, mail, names nor state; every column that is to be sealed is."""
    word = f"marker{uuid.uuid4().hex}"
    database = Database(url, pool_size=2, keyring=parse_keys(new_key("key-0")))
    chat, row, response = await talked(database, word)
    assert (await seen(chat, row, response)).count(word) >= 9
    stored = await raw(url)
    assert not [form for form in forms(word) if form in stored]
    assert {name for name in await count_sealed(database, "key-0") if name.startswith("uamp_")} == set(OF_UAMP)
    await database.close()
    blind = Database(url, pool_size=1)
    with pytest.raises(KeyMissing):
        await find_session(blind, row.tenant, row.id)
    await blind.close()


async def test_what_was_written_without_a_key_is_sealed_by_a_rotation(url: str) -> None:
    """Everything reads the same before and after it."""
    word = f"marker{uuid.uuid4().hex}"
    clear = Database(url, pool_size=2)
    chat, row, response = await talked(clear, word)
    before = await seen(chat, row, response)
    await clear.close()
    assert word in await raw(url)
    database = Database(url, pool_size=2, keyring=parse_keys(new_key("key-0")))
    assert set(OF_UAMP) <= set(await reseal(database))
    stored = await raw(url)
    assert not [form for form in forms(word) if form in stored]
    assert await seen(Chat(database, chat.key), row, response) == before
    await database.close()


async def test_a_value_of_another_tenant_is_not_used(url: str) -> None:
    """A sealed value that was moved is an error, whoever moved it."""
    database = Database(url, pool_size=2, keyring=parse_keys(new_key("key-0")))
    (_, first, _), (_, second, _) = await talked(database, "one"), await talked(database, "two")
    async with database.driver() as connection:
        await connection.execute(
            "update perdure.uamp_sessions t set state = o.state from perdure.uamp_sessions o "
            "where t.id = $1 and o.id = $2",
            first.id, second.id,
        )  # fmt: skip
    with pytest.raises(DamagedSession):
        await find_session(database, first.tenant, first.id)
    assert await find_session(database, second.tenant, second.id) is not None
    await database.close()
