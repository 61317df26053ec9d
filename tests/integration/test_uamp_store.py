"""UAMP's sessions as rows: any process takes the next event, nothing is applied twice, mail is numbered without gaps."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import pytest_asyncio

from perdure.errors import InvalidInput, KeyConflict, SessionGone, UnknownSession
from perdure.store.database import Database
from perdure.store.deleting import delete_content, forget, mark_deleting
from perdure.store.uamp.held import held_session
from perdure.store.uamp.mail import post, set_told
from perdure.store.uamp.opening import find_session, open_session
from perdure.store.uamp.responses import (
    end_response,
    find_response,
    find_unbegun,
    open_responses,
    response_inputs,
    set_begun,
)
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from tests.integration.store_story import ALL_ROWS, Story
from tests.integration.uamp_story import Chat, at_once

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOW = timedelta(0)


@pytest_asyncio.fixture(loop_scope="module")
async def chat(database: Database) -> Chat:
    """A chat without sessions."""
    return await Chat(database).begin()


async def test_a_session_is_opened_once_and_found_by_its_owner_alone(chat: Chat) -> None:
    """The second time it is as it was; another principal, agent or chat is refused, and is told nothing of it."""
    until = datetime(2040, 1, 1, tzinfo=UTC)
    new = chat.new("ann", token_expires_at=until, payment={"source": "account"}, told_log=4)
    row, made = await open_session(chat.database, new)
    assert made
    assert (row.chat, row.user, row.username, row.state) == ("room", "ann", "Ann", new.state)
    assert (row.token_expires_at, row.payment, row.told_log, row.version) == (until, {"source": "account"}, 4, 0)
    again, made = await open_session(chat.database, chat.new("ann", id=row.id, state={"other": 1}))
    assert not made
    assert again == row
    assert await find_session(chat.database, row.tenant, row.id) == row
    assert await find_session(chat.database, "another", row.id) is None
    assert await find_session(chat.database, row.tenant, "no id") is None
    other = await Chat(chat.database, SessionKey(row.tenant, new_id())).begin()
    for stranger in (chat.new("bob", id=row.id), other.new("ann", id=row.id), chat.new("ann", id=row.id, agent="x")):
        with pytest.raises(KeyConflict, match="not yours"):
            await open_session(chat.database, stranger)


async def test_a_session_needs_its_chat(chat: Chat) -> None:
    """An id that is none, a chat that is not there, one that is being deleted, and one that ended are refused."""
    with pytest.raises(InvalidInput, match="UUIDv4"):
        await chat.join("ann", id="mine")
    with pytest.raises(UnknownSession):
        await chat.join("ann", session=new_id())
    row = await chat.join("ann")
    assert await chat.chats.end(row.id, "timeout")
    assert not await chat.chats.end(row.id, "timeout"), "once"
    with pytest.raises(SessionGone, match="ended"):
        await open_session(chat.database, chat.new("ann", id=row.id))
    await mark_deleting(chat.database, chat.key, force=True)
    with pytest.raises(SessionGone, match="deleted"):
        await chat.join("ann")


async def test_deleting_the_chat_deletes_all_of_its_sessions(chat: Chat) -> None:
    """Inputs, responses, mail and seats too; nobody can post to them then."""
    row = await chat.join("ann")
    await chat.ask(row, f"resp_{new_id()}", "one")
    await post(chat.database, row.tenant, row.id, [{"type": "rate_limit"}])
    async with chat.database.driver() as connection:
        assert {row[0] for row in await connection.fetch(ALL_ROWS, *chat.key)} >= {
            "uamp_sessions", "uamp_taken", "uamp_responses", "uamp_mail",
        }  # fmt: skip
    keys = await mark_deleting(chat.database, chat.key, force=True)
    await delete_content(chat.database, keys)
    assert not await post(chat.database, row.tenant, row.id, [{"type": "rate_limit"}])
    await forget(chat.database, keys)
    async with chat.database.driver() as connection:
        assert not await connection.fetch(ALL_ROWS, *chat.key)


async def test_each_event_is_applied_once_whoever_takes_it(chat: Chat) -> None:
    """Two processes that take the same events one after the other apply each once, and lose no change."""
    row = await chat.join("ann")
    pools = [chat.database, Database(chat.database.dsn(), pool_size=4)]

    async def take(database: Database, event: str) -> int:
        async with held_session(database, row.tenant, row.id) as held:
            assert held is not None
            if await held.saw(event):
                return 0
            await held.note(event)
            await held.change(state={"count": cast(int, held.row.state.get("count", 0)) + 1})
            return 1

    applied = await at_once(take(pools[n % 2], f"event {n // 2}") for n in range(40))
    await pools[1].close()
    assert sum(applied) == 20
    now = await chat.row(row)
    assert now.state == {"count": 20}
    assert now.version == 20
    assert now.last_seen_at > row.last_seen_at


async def test_inputs_wait_in_order_for_the_response_that_takes_them(chat: Chat) -> None:
    """What comes after it was asked for is the next one's; its own are kept until it has begun."""
    row, first, second = await chat.join("ann"), f"resp_{new_id()}", f"resp_{new_id()}"
    await chat.ask(row, first, "one", "two")
    async with AsyncExitStack() as stack:
        held = await chat.hold(stack, row)
        assert await held.inputs() == []
        await held.add_input("later", {"text": "three"})
        assert await held.inputs() == [{"text": "three"}]
        assert await held.saw("input one")
        assert await held.saw(f"create {first}")
        assert not await held.saw("input three")
    asked = await find_response(chat.database, row.tenant, first)
    assert asked is not None
    assert (asked.asked, asked.request_sha256, asked.run, asked.begun_at) == ({"agent": "teller"}, "hash", None, None)
    assert await response_inputs(chat.database, asked) == [{"text": "one"}, {"text": "two"}]
    await set_begun(chat.database, asked, run := new_id())
    begun = await find_response(chat.database, row.tenant, first)
    assert begun is not None
    assert begun.run == run
    assert begun.begun_at is not None
    await set_begun(chat.database, asked, run)
    assert await find_response(chat.database, row.tenant, first) == begun, "begun once"
    assert await response_inputs(chat.database, begun) == []
    await chat.ask(row, second)
    later = await find_response(chat.database, row.tenant, second)
    assert later is not None
    assert await response_inputs(chat.database, later) == [{"text": "three"}]
    assert [one.id for one in await open_responses(chat.database, chat.key)] == [first, second]
    assert [await end_response(chat.database, row.tenant, second) for _ in range(2)] == [True, False]
    assert await response_inputs(chat.database, later) == []
    assert [one.id for one in await open_responses(chat.database, chat.key)] == [first]


async def test_nothing_of_an_event_is_stored_if_applying_it_fails(chat: Chat) -> None:
    """So its client's second try is a first one."""
    row = await chat.join("ann")

    async def fail() -> None:
        async with AsyncExitStack() as stack:
            held = await chat.hold(stack, row)
            await held.add_input("event", {"text": "lost"})
            await held.change(state={"half": "done"}, payment={"source": "x"})
            await held.post([{"type": "session.updated"}])
            await held.ask_response(f"resp_{new_id()}", "create", {})
            await held.end("error")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await chat.row(row) == row
    async with held_session(chat.database, row.tenant, row.id) as held:
        assert held is not None
        assert not await held.saw("event")
        assert await held.inputs() == []
    assert await chat.mail(row) == []
    async with held_session(chat.database, row.tenant, new_id()) as none:
        assert none is None


async def test_values_change_one_by_one(chat: Chat) -> None:
    """What is not given stays; what is None is taken away."""
    until = datetime(2040, 1, 1, tzinfo=UTC)
    row = await chat.join("ann", payment={"source": "account"})
    changes: list[dict[str, Any]] = [{"token_expires_at": until}, {"state": {"n": 1}}, {"payment": None}]
    for change in changes:
        async with held_session(chat.database, row.tenant, row.id) as held:
            assert held is not None
            await held.change(**change)
            kept = held.row
        now = await chat.row(row)
        assert (now.state, now.payment, now.token_expires_at, now.version) == (
            kept.state, kept.payment, kept.token_expires_at, kept.version,
        )  # fmt: skip
    now = await chat.row(row)
    assert (now.token_expires_at, now.state, now.payment, now.version) == (until, {"n": 1}, None, 3)


async def test_a_response_whose_process_died_is_found_until_it_has_begun(chat: Chat) -> None:
    """Or until it has ended without."""
    row, ids = await chat.join("ann"), [f"resp_{new_id()}" for _ in range(3)]
    for response in ids:
        await chat.ask(row, response)

    async def unbegun() -> list[str]:
        found = await find_unbegun(chat.database, older_than=NOW, limit=10_000)
        return sorted(one.id for one in found if one.tenant == row.tenant)

    assert await unbegun() == sorted(ids)
    assert not [one for one in await find_unbegun(chat.database, older_than=timedelta(days=1)) if one.id in ids]
    asked = await find_response(chat.database, row.tenant, ids[0])
    assert asked is not None
    await set_begun(chat.database, asked, new_id())
    await end_response(chat.database, row.tenant, ids[1])
    assert await unbegun() == ids[2:]


async def test_a_response_ends_with_its_run(story: Story) -> None:
    """Also if nobody was there to be told: the next one may be asked for."""
    run = await story.run()
    chat = Chat(story.database, story.key)
    row, response = await chat.join("ann", agent=story.agent), f"resp_{new_id()}"
    await chat.ask(row, response)
    asked = await find_response(chat.database, row.tenant, response)
    assert asked is not None
    await set_begun(chat.database, asked, run)
    assert [one.run for one in await open_responses(chat.database, chat.key)] == [run]
    await story.save(run)
    await story.end(run)
    assert await open_responses(chat.database, chat.key) == []


async def test_mail_has_no_gaps_and_a_note_posts_once(chat: Chat) -> None:
    """Whoever posts at once; what was told is never taken back."""
    row = await chat.join("ann")
    events: list[JSONObject] = [{"type": "rate_limit", "n": n} for n in range(10)]
    notes = [None, "same"] * 5
    posted = await at_once(
        post(chat.database, row.tenant, row.id, [event], notes=[note])
        for event, note in zip(events, notes, strict=True)
    )
    assert posted == [True] * 10
    mail = await chat.mail(row)
    assert sorted(cast(int, event["n"]) % 2 for event in mail) == [0] * 5 + [1]
    assert await chat.mail(row, after=4) == mail[4:]
    ident = new_id()
    await post(chat.database, row.tenant, row.id, [{"type": "pong", "event_id": ident, "timestamp": 5}])
    assert await chat.mail(row, after=6) == [{"type": "pong", "event_id": ident, "timestamp": 5, "session_id": row.id}]
    for told in ((3, 4), (2, 9), (1, 1)):
        await set_told(chat.database, row.tenant, row.id, log=told[0], mail=told[1])
    now = await chat.row(row)
    assert (now.told_log, now.told_mail, now.last_mail, now.version) == (3, 7, 7, 0)
