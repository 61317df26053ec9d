"""With keys set nothing that a client, a task or a person said of a stage session can be read in its rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest

from perdure.errors import DamagedSession, KeyMissing
from perdure.store.database import Database
from perdure.store.events import read_events
from perdure.store.keyring import new_key, parse_keys
from perdure.store.rotating import count_sealed, reseal
from perdure.store.sealed_columns import SEALED_COLUMNS
from perdure.store.stages.running import ask_wait
from perdure.store.stages.sessions import find_session, read_state
from perdure.store.stages.waits import answer_wait
from perdure.upp.json_value import JSONObject
from tests.integration.access_stage import own_database
from tests.integration.sealed_place import forms
from tests.integration.stack import Stack
from tests.integration.stage_story import StageStory, call, provide

OF_STAGES = [
    f"{table}.{column}" for table, columns in SEALED_COLUMNS.items() if table.startswith("stage_") for column in columns
]


@pytest.fixture
def url(stack: Stack) -> Iterator[str]:
    """A database that nobody else uses: one sealed row closes it to all who have no key."""
    with own_database(stack) as made:
        yield made


async def lived(database: Database, word: str) -> StageStory:
    """A session in which the word is said wherever something can be."""
    story = StageStory(database, "sealed")
    await story.open(values={"cart.items": [word]})
    await story.do(provide(user_email=word))
    begun = await story.begin(await story.start(call("add", product=word)))
    await story.settle(begun, 1, cart_items=[word, word])
    await story.fail(await story.begin(await story.start(call("add", product=word))), word)
    await story.begin(await story.start(call("order")))
    await ask_wait(database, story.key, 4, "outcome")
    answer: JSONObject = {"outcome": "done", "result": word}
    await answer_wait(database, story.key, (await story.actions())[3].id, answer, by="ann", reason=word)
    await story.control("terminate", reason=word)
    return story


async def seen(story: StageStory) -> str:
    """All that can be read of a session."""
    events = [event.to_json() for event in await read_events(story.database, story.key, after=0)]
    return json.dumps([str(await story.row()), str(await story.actions()), await story.state(), events])


async def raw(url: str) -> str:
    database = Database(url, pool_size=1)
    text = ""
    async with database.driver() as connection:
        await connection.reset_type_codec("bytea", schema="pg_catalog")
        for (table,) in await connection.fetch("select tablename from pg_tables where schemaname = 'perdure'"):
            rows = await connection.fetch(f"select to_jsonb(t)::text from perdure.{table} t")
            text += "\n".join(row[0] for row in rows)
    await database.close()
    return text


async def test_nothing_that_was_said_can_be_read(url: str) -> None:
    """Neither in values, actions, replies, answers, reasons nor events; every column that is to be sealed is."""
    word = f"marker{uuid.uuid4().hex}"
    keyring = parse_keys(new_key("key-0"))
    database = Database(url, pool_size=2, keyring=keyring)
    story = await lived(database, word)
    assert word in await seen(story)
    assert (await story.row()).ended_reason == word
    stored = await raw(url)
    assert not [form for form in forms(word) if form in stored]
    assert {name for name in await count_sealed(database, "key-0") if name.startswith("stage_")} == set(OF_STAGES)
    await database.close()
    blind = Database(url, pool_size=1)
    with pytest.raises(KeyMissing):
        await find_session(blind, story.key)
    with pytest.raises(KeyMissing):
        await read_state(blind, story.key)
    await blind.close()


async def test_what_was_written_without_a_key_is_sealed_by_a_rotation(url: str) -> None:
    """Everything reads the same before and after it."""
    word = f"marker{uuid.uuid4().hex}"
    clear = Database(url, pool_size=2)
    before = await seen(await lived(clear, word))
    key = (await lived(clear, word)).key
    await clear.close()
    assert word in await raw(url)
    database = Database(url, pool_size=2, keyring=parse_keys(new_key("key-0")))
    done = await reseal(database)
    assert set(OF_STAGES) <= set(done)
    stored = await raw(url)
    assert not [form for form in forms(word) if form in stored]
    assert word in before
    assert (await read_state(database, key))["user.email"] == word
    await database.close()


async def test_a_value_of_another_session_is_not_used(url: str) -> None:
    """A sealed value that was moved is an error, whoever moved it."""
    database = Database(url, pool_size=2, keyring=parse_keys(new_key("key-0")))
    first, second = await lived(database, "one"), await lived(database, "two")
    async with database.driver() as connection:
        await connection.execute(
            "update perdure.stage_values t set value = o.value from perdure.stage_values o "
            "where t.session_id = $1 and o.session_id = $2 and t.key = o.key",
            first.key.session, second.key.session,
        )  # fmt: skip
    with pytest.raises(DamagedSession):
        await read_state(database, first.key)
    assert (await read_state(database, second.key))["user.email"] == "two"
    await database.close()
