"""Envelopes that come at once, through the connections of two processes: each counts once, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta

import pytest
import pytest_asyncio

from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.lifecycle import State, Step
from perdure.store.database import Database
from perdure.store.deleting import delete_content, forget, mark_deleting
from perdure.store.envelopes.beginning import begin_exchange
from perdure.store.envelopes.forgetting import forget_old
from perdure.store.envelopes.frames import take_frames
from perdure.store.envelopes.informs import take_informs
from perdure.store.envelopes.rows import Kept
from perdure.store.envelopes.settling import settle
from perdure.uap.session_key import SessionKey
from tests.integration.envelope_story import EnvelopeStory, an_id
from tests.integration.stack import Stack
from tests.integration.store_story import ALL_ROWS
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
OTHER = "did:web:other.example"


@pytest.fixture
def envelopes(database: Database) -> EnvelopeStory:
    """A tenant without envelopes."""
    return EnvelopeStory(database)


@pytest_asyncio.fixture(loop_scope="module")
async def elsewhere(stack: Stack, envelopes: EnvelopeStory) -> AsyncGenerator[EnvelopeStory]:
    """The same tenant, through another process's connections."""
    other = Database(stack.addresses.database_url, pool_size=5)
    yield EnvelopeStory(other, envelopes.tenant)
    await other.close()


async def test_two_equal_envelopes_at_once_are_one(envelopes: EnvelopeStory, elsewhere: EnvelopeStory) -> None:
    """One of many connections makes the exchange; all of them are answered the same."""
    for intent in ("ask", "inform") * 5:
        new = envelopes.new(intent)
        kept = await asyncio.gather(*(place.keep(new) for place in (envelopes, elsewhere) * 4))
        assert sorted(one.repeated for one in kept) == [False] + [True] * 7
        assert len({str(one.answer) for one in kept}) == 1
        assert len({one.exchange.id for one in kept if one.exchange is not None}) == (intent == "ask")
    assert await envelopes.count("envelope_exchanges") == 5


async def test_two_envelopes_of_one_id_at_once_are_a_conflict(
    envelopes: EnvelopeStory, elsewhere: EnvelopeStory
) -> None:
    """One counts, the others are refused; it is the same with the id of a stream."""
    for round_ in range(5):
        ident, stream = an_id(), f"stream {round_}"
        for members in ({"id": ident}, {"stream_id": stream}):
            news = [envelopes.new("ask", f"words {n}", **members) for n in range(6)]
            works = [place.keep(new) for place, new in zip((envelopes, elsewhere) * 3, news, strict=True)]
            kept = await asyncio.gather(*works, return_exceptions=True)
            assert [type(one) for one in kept].count(Kept) == 1
            assert {one.code for one in kept if isinstance(one, UAMPError)} == {"4.22"}
    assert await envelopes.count("envelopes") == await envelopes.count("envelope_exchanges") == 10


async def test_an_ask_and_its_cancel_at_once(envelopes: EnvelopeStory, elsewhere: EnvelopeStory) -> None:
    """The cancel comes too early and is unknown, or it cancels; sent again it cancels in any case, and once."""
    for _ in range(10):
        ask = envelopes.new("ask")
        cancel = envelopes.new("cancel", reply_to=ask.envelope.id_text)
        asked, cancelled = await asyncio.gather(envelopes.keep(ask), elsewhere.keep(cancel), return_exceptions=True)
        assert isinstance(asked, Kept)
        assert asked.exchange is not None
        if isinstance(cancelled, BaseException):
            assert isinstance(cancelled, UAMPError)
            assert cancelled.code == "4.04"
        again = await envelopes.keep(cancel)
        assert again.repeated is isinstance(cancelled, Kept)
        row = await envelopes.row(asked.exchange)
        assert (row.state, row.ended_at) == (State.CANCELLED, envelopes.now)


async def test_a_cancel_and_the_end_at_once(envelopes: EnvelopeStory, elsewhere: EnvelopeStory) -> None:
    """Whichever is first stands, and the other one changes nothing."""
    for _ in range(10):
        row = await envelopes.opened()
        cancel = envelopes.new("cancel", stream_id=row.stream_id)
        done = settle(elsewhere.database, row.tenant, row.id, Step.DONE, now=envelopes.now)
        kept, settled = await asyncio.gather(envelopes.keep(cancel), done)
        assert kept.exchange is not None
        assert settled is not None
        last = await envelopes.row(row)
        assert last.state is kept.exchange.state is settled.state
        assert last.state in (State.CANCELLED, State.COMPLETED)
        again = await envelopes.later(SECOND).keep(envelopes.new("cancel", stream_id=row.stream_id))
        assert again.exchange == last, "late"


async def test_too_many_exchanges_are_told_to_wait(envelopes: EnvelopeStory, elsewhere: EnvelopeStory) -> None:
    """Not one more than may be are in progress, also if many come at once; one that ends makes room."""
    news = [envelopes.new("ask") for _ in range(16)]
    works = [place.keep(new, max_open=5) for place, new in zip((envelopes, elsewhere) * 8, news, strict=True)]
    kept = await asyncio.gather(*works, return_exceptions=True)
    rows = [one.exchange for one in kept if isinstance(one, Kept)]
    errors = [one for one in kept if isinstance(one, UAMPError)]
    assert len(rows) == 5
    assert {(error.code, error.retryable) for error in errors} == {("5.04", True)}
    assert all(error.retry_after for error in errors)
    assert await envelopes.count("envelopes") == 5
    assert rows[0] is not None
    await settle(envelopes.database, envelopes.tenant, rows[0].id, Step.DONE, now=envelopes.now)
    late = next(new for new, one in zip(news, kept, strict=True) if not isinstance(one, Kept))
    assert not (await envelopes.keep(late, max_open=5)).repeated
    assert not (await envelopes.keep(envelopes.new("inform"), max_open=5)).repeated, "it opens nothing"


async def test_a_sender_may_send_so_many_in_an_hour(envelopes: EnvelopeStory, elsewhere: EnvelopeStory) -> None:
    """Not one more, also at once; it is told when the next one may come, and others are not in its way."""
    news = [envelopes.new("inform") for _ in range(12)]
    works = [place.keep(new, rate=4) for place, new in zip((envelopes, elsewhere) * 6, news, strict=True)]
    kept = await asyncio.gather(*works, return_exceptions=True)
    assert len([one for one in kept if isinstance(one, Kept)]) == 4
    errors = [one for one in kept if isinstance(one, UAMPError)]
    assert {(error.code, error.retry_after) for error in errors} == {("4.29", HOUR)}
    await envelopes.keep(envelopes.new("inform", sender=OTHER), rate=4)
    later = envelopes.later(HOUR - SECOND)
    with pytest.raises(UAMPError) as refused:
        await later.keep(envelopes.new("inform"), rate=4)
    assert refused.value.retry_after == SECOND
    await envelopes.later(HOUR).keep(envelopes.new("inform"), rate=4)


async def test_an_inform_and_the_beginning_of_its_ask_at_once(
    envelopes: EnvelopeStory, elsewhere: EnvelopeStory
) -> None:
    """Before, after or meanwhile: it is the session's."""
    session = await envelopes.session()
    for n in range(10):
        row = await envelopes.opened()
        begun = begin_exchange(elsewhere.database, row.tenant, row.id, session, "run 1")
        await asyncio.gather(begun, envelopes.keep(envelopes.new("inform", reply_to=row.envelope)))
        assert len(await envelopes.pending(session)) == n + 1


async def test_an_inform_is_taken_once(envelopes: EnvelopeStory, elsewhere: EnvelopeStory) -> None:
    """Of several asks that are about to begin, one has it."""
    session = await envelopes.session()
    first = await envelopes.opened()
    await begin_exchange(envelopes.database, first.tenant, first.id, session, "run 1")
    for n in range(10):
        await envelopes.keep(envelopes.new("inform", f"word {n}", reply_to=first.envelope))
    asks = [await envelopes.opened() for _ in range(8)]
    places = (envelopes, elsewhere) * 4
    works = [
        take_informs(place.database, envelopes.tenant, session, exchange=ask.id)
        for place, ask in zip(places, asks, strict=True)
    ]
    taken = [item.id for rows in await asyncio.gather(*works) for item in rows]
    assert len(taken) == len(set(taken)) == 10


async def test_an_inform_and_the_deletion_of_its_session_at_once(
    envelopes: EnvelopeStory, elsewhere: EnvelopeStory
) -> None:
    """Nothing is left that belongs to a session which is gone."""
    for _ in range(5):
        row = await envelopes.opened()
        session = await envelopes.session()
        await begin_exchange(envelopes.database, row.tenant, row.id, session, "run 1")
        key = SessionKey(envelopes.tenant, session)
        news = [envelopes.new(intent, reply_to=row.envelope) for intent in ("inform", "progress", "notify", "cancel")]
        works = [envelopes.keep(new) for new in news]
        kept = await asyncio.gather(deleted(elsewhere.database, key), *works, return_exceptions=True)
        assert {one.code for one in kept if isinstance(one, UAMPError)} <= {"4.04"}
        assert {type(one) for one in kept[1:]} <= {Kept, UAMPError}
        async with envelopes.database.driver(key) as connection:
            assert await connection.fetch(ALL_ROWS, *key) == []


async def deleted(database: Database, key: SessionKey) -> None:
    """Delete a session."""
    keys = await mark_deleting(database, key, force=True)
    await delete_content(database, keys)
    await forget(database, keys)


@pytest.mark.parametrize("seed", range(scaled(40)))
async def test_nobody_waits_for_ever(envelopes: EnvelopeStory, elsewhere: EnvelopeStory, seed: int) -> None:
    """All that is done with exchanges, at once and in any order: no two wait for each other."""
    chance = random.Random(seed)
    sessions = [await envelopes.session() for _ in range(2)]
    rows = [await envelopes.opened() for _ in range(2)]

    def work() -> Callable[[], Awaitable[object]]:
        place, row, session = chance.choice([envelopes, elsewhere]), chance.choice(rows), chance.choice(sessions)
        database, tenant = place.database, place.tenant
        names = {"reply_to": row.envelope}
        return chance.choice([
            lambda: place.keep(place.new("inform", **names), rate=1000), lambda: place.keep(place.new("cancel", **names)),
            lambda: place.keep(place.new("progress", stream_id=row.stream_id), rate=1000),
            lambda: place.keep(place.new("ask", **names), rate=1000, max_open=8),
            lambda: begin_exchange(database, tenant, row.id, session, "run 1"), lambda: place.framed(row, "chunk"),
            lambda: settle(database, tenant, row.id, Step.DONE, now=place.now),
            lambda: take_frames(database, tenant, row.id, after=-1, window=9, limit=9),
            lambda: take_informs(database, tenant, session, exchange=row.id), lambda: deleted(database, SessionKey(tenant, session)),
            lambda: forget_old(database, tenant, now=place.now + HOUR, retention=SECOND, replay_memory=HOUR),
        ])  # fmt: skip

    left = iter([work() for _ in range(80)])

    async def one_by_one() -> None:
        for call in left:
            try:
                await call()
            except (UAMPError, AssertionError):  # refused, or the exchange is gone
                continue

    await asyncio.gather(*(one_by_one() for _ in range(10)))
