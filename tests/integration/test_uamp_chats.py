"""What UAMP's sessions of one chat are told of each other: at once, in any process, and of whoever is gone for good."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest
import pytest_asyncio

from perdure.errors import SessionGone, UnknownSession
from perdure.runtime.uamp.mailbox import MailStream
from perdure.runtime.uamp.seats import Seats
from perdure.runtime.uamp.sweep import UampSweep, UampTimes
from perdure.store.database import Database
from perdure.store.uamp.mail import post
from perdure.store.uamp.opening import find_session
from perdure.store.uamp.responses import end_response
from perdure.store.uamp.rows import UampSessionRow
from perdure.store.uamp.seats import renew_seats
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from tests.integration.stack import eventually
from tests.integration.store_story import ALL_ROWS
from tests.integration.uamp_story import Chat, at_once

pytestmark = pytest.mark.asyncio(loop_scope="module")
NEVER = timedelta(days=1)
NOW = timedelta(0)


@pytest_asyncio.fixture(loop_scope="module")
async def chat(database: Database) -> AsyncGenerator[Chat]:
    """A chat without sessions."""
    made = await Chat(database).begin()
    yield made
    await made.announcer.close()


@pytest_asyncio.fixture(loop_scope="module")
async def seats(chat: Chat) -> AsyncGenerator[Seats]:
    """Those of a process."""
    held = Seats(chat.database, chat.announcer)
    yield held
    await held.close()


def sweep_of(chat: Chat, *, idle: timedelta = NEVER, retention: timedelta = NEVER) -> UampSweep:
    """A process's."""
    return UampSweep(chat.database, chat.announcer, UampTimes(idle, retention))


async def age(chat: Chat, row: UampSessionRow, column: str) -> None:
    """Have something of a session happened two days ago."""
    async with chat.database.driver() as connection:
        await connection.execute(
            f"update perdure.uamp_sessions set {column} = {column} - interval '2 days' where id = $1",
            row.id,
        )


async def forget_seats(chat: Chat) -> None:
    """A process has died some time ago."""
    async with chat.database.driver() as connection:
        await connection.execute(
            "update perdure.uamp_seats set expires_at = now() - interval '1 second' where session_id = $1",
            chat.key.session,
        )


async def test_typing_and_reading_reach_the_others_and_not_their_sender(chat: Chat) -> None:
    """Each event has the receiver's own session and id."""
    ann, bob, eve = [await chat.join(user) for user in ("ann", "bob", "eve")]
    await chat.chats.end(eve.id, "timeout")
    other = await Chat(chat.database, SessionKey(chat.key.tenant, new_id())).begin()
    stranger = await other.join("ann")
    await chat.chats.typing(ann, is_typing=True)
    await chat.chats.read(ann, "message-1")
    typing, read = await chat.mail(bob)
    assert typing.items() >= {"type": "presence.typing", "user_id": "ann", "username": "Ann", "is_typing": True}.items()
    assert read.items() >= {"type": "message.read", "user_id": "ann", "message_id": "message-1"}.items()
    assert [event["chat_id"] for event in (typing, read)] == ["room"] * 2
    assert all(isinstance(event["timestamp"], int) for event in (typing, read))
    assert await chat.types(eve) == ["session.end"]
    assert await chat.mail(ann) == await other.mail(stranger) == []


async def test_a_chat_without_a_name_is_called_by_its_session(database: Database) -> None:
    """So that a client can tell what the events are about."""
    chat = await Chat(database, name=None).begin()
    ann, bob = await chat.join("ann"), await chat.join("bob")
    await chat.chats.typing(ann, is_typing=False)
    (typing,) = await chat.mail(bob)
    assert typing["chat_id"] == chat.key.session


async def test_two_chats_that_write_to_each_others_sessions_do_not_block(chat: Chat) -> None:
    """Many sessions of a chat type at once; everyone hears everyone."""
    rows = [await chat.join(f"user{n}") for n in range(6)]
    await at_once(chat.chats.typing(row, is_typing=True) for row in rows for _ in range(5))
    for row in rows:
        heard = [str(event["user_id"]) for event in await chat.mail(row)]
        assert sorted(heard) == sorted([other.user for other in rows if other.id != row.id] * 5)


async def test_mail_wakes_whoever_follows_it_in_another_process(chat: Chat) -> None:
    """From any number on, each event once; a session that is not there, or no more, is an error."""
    ann, bob = await chat.join("ann"), await chat.join("bob")
    pool = Database(chat.database.dsn(), pool_size=2)
    stream = MailStream(pool)
    heard: list[int] = []
    key = SessionKey(bob.tenant, bob.id)

    async def follow() -> None:
        async with contextlib.aclosing(stream.follow(key)) as events:
            async for event in events:
                heard.append(event.seq)  # noqa: PERF401  # as they come

    async def have(count: int) -> bool:
        return len(heard) >= count

    following = asyncio.create_task(follow())
    for n in range(20):
        await chat.chats.typing(ann, is_typing=n % 2 == 0)
        await eventually(lambda n=n: have(n + 1), what="a typing that is told while the stream waits")
    async with contextlib.aclosing(stream.follow(key, after=17)) as events:
        assert [(await anext(events)).seq for _ in range(3)] == [18, 19, 20]
    assert heard == list(range(1, 21))
    with pytest.raises(UnknownSession):
        await anext(stream.follow(SessionKey(bob.tenant, new_id())))
    async with chat.database.driver() as connection:
        await connection.execute("delete from perdure.uamp_sessions where id = $1", bob.id)
    with pytest.raises(SessionGone):
        await following
    await stream.close()
    await pool.close()


async def test_a_user_comes_with_the_first_connection_and_goes_with_the_last(chat: Chat, seats: Seats) -> None:
    """The others are told, by other processes' connections too, and the user's own sessions are not."""
    elsewhere = Seats(chat.database, chat.announcer)
    ann, again, bob = await chat.join("ann"), await chat.join("ann"), await chat.join("bob")
    first, second = await seats.take(ann), await elsewhere.take(again)
    assert await chat.types(bob) == ["presence.online"]
    await seats.leave(first)
    assert await chat.types(bob) == ["presence.online"]
    await elsewhere.leave(second)
    await elsewhere.leave(second)
    assert await chat.types(bob) == ["presence.online", "presence.offline"]
    async with seats.seated(ann):
        assert await chat.types(bob) == ["presence.online", "presence.offline", "presence.online"]
    came = (await chat.mail(bob))[0]
    assert came.items() >= {"user_id": "ann", "username": "Ann", "chat_id": "room"}.items()
    assert await chat.mail(ann) == await chat.mail(again) == []
    await elsewhere.close()


async def test_who_is_there_is_told_in_turn_however_many_come_and_go_at_once(chat: Chat, seats: Seats) -> None:
    """Never online twice, never offline twice."""
    ann, bob = await chat.join("ann"), await chat.join("bob")

    async def visit() -> None:
        async with seats.seated(ann):
            await asyncio.sleep(0)

    await at_once(visit() for _ in range(20))
    told = await chat.types(bob)
    assert told == ["presence.online", "presence.offline"] * (len(told) // 2)
    assert told


async def test_a_user_whose_process_died_is_gone_after_a_while(chat: Chat, seats: Seats) -> None:
    """One who comes back before anybody noticed was never away; seats that are renewed stay."""
    ann, bob = await chat.join("ann"), await chat.join("bob")
    seat = await seats.take(ann)
    assert await renew_seats(chat.database, [seat]) == {seat.id}
    sweep = sweep_of(chat)
    await sweep.clear_seats()
    assert await chat.types(bob) == ["presence.online"]
    await forget_seats(chat)
    survivor = Seats(chat.database, chat.announcer)
    await survivor.take(ann)
    await sweep.clear_seats()
    assert await chat.types(bob) == ["presence.online"]
    assert await renew_seats(chat.database, [seat]) == set()
    await forget_seats(chat)
    await sweep.clear_seats()
    await sweep.clear_seats()
    assert await chat.types(bob) == ["presence.online", "presence.offline"]
    await survivor.close()


async def test_a_silent_session_ends_and_its_client_is_told_why(chat: Chat) -> None:
    """One with an open response does not, however long that takes; nor one whose client says something."""
    silent, waiting, lively = [await chat.join(user) for user in ("ann", "bob", "eve")]
    await chat.ask(waiting, response := f"resp_{new_id()}")
    for row in (silent, waiting):
        await age(chat, row, "last_seen_at")
    sweep = sweep_of(chat)

    async def all_ended() -> bool:
        await sweep.end_idle()
        return (await chat.row(silent)).ended_at is not None

    await eventually(all_ended, what="the silent session's end")
    (told,) = await chat.mail(silent)
    assert (told["type"], told["reason"]) == ("session.end", "timeout")
    assert (await chat.row(silent)).ended_reason == "timeout"
    assert (await chat.row(waiting)).ended_at is (await chat.row(lively)).ended_at is None
    await end_response(chat.database, waiting.tenant, response)

    async def waiting_ended() -> bool:
        await sweep.end_idle()
        return (await chat.row(waiting)).ended_at is not None

    await eventually(waiting_ended, what="the end of the one whose response is over")


async def test_what_has_ended_is_deleted_after_its_time(chat: Chat, seats: Seats) -> None:
    """With all that belongs to it, and nothing of its chat's others."""
    ann, bob = await chat.join("ann"), await chat.join("bob")
    for row in (ann, bob):
        await chat.ask(row, f"resp_{new_id()}", "one")
        await post(chat.database, row.tenant, row.id, [{"type": "rate_limit"}])
    await seats.take(ann)
    await chat.chats.end(ann.id, "timeout")
    sweep = sweep_of(chat)
    await sweep.delete_old()
    assert await find_session(chat.database, ann.tenant, ann.id) is not None
    await age(chat, ann, "ended_at")

    async def gone() -> bool:
        await sweep.delete_old()
        return await find_session(chat.database, ann.tenant, ann.id) is None

    await eventually(gone, what="the deletion of the ended session")
    async with chat.database.driver() as connection:
        rows = await connection.fetch(ALL_ROWS, *chat.key)
    assert not [row for row in rows if ann.id in row[1]]
    assert sum(bob.id in row[1] for row in rows) >= 5
