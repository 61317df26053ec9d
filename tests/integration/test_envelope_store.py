"""Envelopes as rows: each counts once, whoever else is at it; what is refused leaves no trace; nothing comes back to life."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.lifecycle import State, Step
from perdure.store.database import Database
from perdure.store.deleting import delete_content, forget, mark_deleting
from perdure.store.envelopes.beginning import begin_exchange
from perdure.store.envelopes.context import find_session, known_hashes
from perdure.store.envelopes.exchanges import (
    exchanges_of_ended_runs,
    find_by_envelope,
    find_exchange,
    find_stream,
    list_proposals,
    named_stream,
    opening_envelope,
    unbegun_exchanges,
)
from perdure.store.envelopes.forgetting import Forgotten, forget_old
from perdure.store.envelopes.informs import note_joined, take_inform, take_informs, unjoined_informs
from perdure.store.envelopes.rows import Kept
from perdure.store.envelopes.settling import settle
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from tests.integration.envelope_story import OWN, PEER, EnvelopeStory, an_id
from tests.integration.store_story import ALL_ROWS, Story

pytestmark = pytest.mark.asyncio(loop_scope="module")
DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
OTHER = "did:web:other.example"


@pytest.fixture
def envelopes(database: Database) -> EnvelopeStory:
    """A tenant without envelopes."""
    return EnvelopeStory(database)


async def test_an_ask_opens_an_exchange_and_is_found_again(envelopes: EnvelopeStory) -> None:
    """By its id, by its envelope and by its stream, by nobody but its sender and within its tenant."""
    new = envelopes.new("ask", stream_id="a/b c", delta_window=4)
    kept = await envelopes.keep(new)
    row = kept.exchange
    assert row is not None
    assert kept == Kept(False, row, None, {"stream_id": "a/b c", "location": "/v1/stream/a%2Fb%20c"})
    assert (row.own, row.sender, row.worker, row.envelope) == (OWN, PEER, OWN, new.envelope.id_text)
    assert (row.intent, row.state, row.window, row.next_seq, row.sent, row.acked) == (
        Intent.ASK, State.IN_PROGRESS, 4, 0, -1, -1,
    )  # fmt: skip
    assert (row.opened_at, row.ended_at, row.is_over) == (envelopes.now, None, False)
    assert await find_exchange(envelopes.database, envelopes.tenant, row.id) == row
    assert await find_by_envelope(envelopes.database, envelopes.tenant, OWN, PEER, new.id) == row
    assert await find_stream(envelopes.database, envelopes.tenant, "a/b c", peer=PEER) == row
    assert await opening_envelope(envelopes.database, row) == new.raw
    assert await find_stream(envelopes.database, envelopes.tenant, "a/b c", peer=OTHER) is None
    assert await find_exchange(envelopes.database, "another", row.id) is None


async def test_the_same_envelope_again_is_answered_as_it_was(envelopes: EnvelopeStory) -> None:
    """In either spelling of its id it is the same; what else has its id is refused, from its sender only."""
    new = envelopes.new("ask")
    first = await envelopes.keep(new)
    again = await envelopes.later(SECOND).keep(new, max_open=0, rate=1)
    assert again == Kept(True, first.exchange, None, first.answer), "a resend is no load"
    for changed in (envelopes.new("ask", "other", id=new.envelope.id_text), envelopes.new("inform", id=new.id)):
        with pytest.raises(UAMPError) as refused:
            await envelopes.keep(changed)
        assert (refused.value.code, refused.value.ref) == ("4.22", changed.envelope.id_text)
    another = await envelopes.keep(envelopes.new("ask", id=new.envelope.id_text, sender=OTHER))
    assert not another.repeated
    assert another.exchange != first.exchange
    assert await envelopes.count("envelopes") == 2


async def test_a_stream_id_is_its_senders_and_used_once(envelopes: EnvelopeStory) -> None:
    """Also towards another agent of ours; the refused envelope may be sent again under another one."""
    await envelopes.opened(stream_id="one")
    taken = envelopes.new("ask", stream_id="one", own="did:web:here.example:agents:b")
    with pytest.raises(UAMPError) as refused:
        await envelopes.keep(taken)
    assert refused.value.code == "4.22"
    assert await envelopes.count("envelopes") == 1
    await envelopes.opened(stream_id="one", sender=OTHER)


async def test_only_who_may_answer_an_exchange_does(envelopes: EnvelopeStory) -> None:
    """Another's cancel is refused by whatever name it is meant; what names nothing is unknown. Neither is remembered."""
    row = await envelopes.opened(stream_id="mine")
    for names in ({"reply_to": row.envelope}, {"stream_id": "mine"}):
        with pytest.raises(UAMPError) as refused:
            await envelopes.keep(envelopes.new("cancel", sender=OTHER, **names))
        assert refused.value.code == "4.03"
    for names in ({}, {"reply_to": an_id()}, {"stream_id": "another"}, {"reply_to": row.envelope, "stream_id": "x"}):
        with pytest.raises(UAMPError) as refused:
            await envelopes.keep(envelopes.new("cancel", **names))
        assert refused.value.code == "4.04"
    with pytest.raises(UAMPError) as refused:
        await envelopes.keep(envelopes.new("confirm", reply_to=row.envelope))
    assert refused.value.code == "4.03", "only who was asked confirms"
    assert await envelopes.count("envelopes") == 1
    theirs = await envelopes.opened(id=row.envelope, sender=OTHER)
    cancelled = await envelopes.keep(envelopes.new("cancel", sender=OTHER, reply_to=row.envelope))
    assert cancelled.exchange is not None
    assert cancelled.exchange.id == theirs.id, "of two with the same id each sender's own is meant"
    assert (await envelopes.row(row)).state is State.IN_PROGRESS


async def test_an_error_is_remembered_and_progress_changes_nothing(envelopes: EnvelopeStory) -> None:
    """What the peer says of it is in the exchange's row."""
    row = await envelopes.opened()
    heard = await envelopes.keep(envelopes.new("progress", reply_to=row.envelope))
    assert heard.exchange == row
    error: JSONObject = {"code": "5.00", "message": "broken", "retryable": False}
    new = replace(envelopes.new("error", reply_to=row.envelope), error=error)
    ended = (await envelopes.keep(new)).exchange
    assert ended is not None
    assert (ended.state, ended.error) == (State.ERROR, error)


async def test_an_exchange_is_begun_once(envelopes: EnvelopeStory) -> None:
    """Until then it is among the unbegun; a session that is gone takes none."""
    row = await envelopes.opened()
    await envelopes.opened("propose")
    before = envelopes.now + SECOND
    assert await unbegun_exchanges(envelopes.database, row.tenant, before=before, limit=10) == [row]
    assert await unbegun_exchanges(envelopes.database, row.tenant, before=envelopes.now, limit=10) == []
    assert await begin_exchange(envelopes.database, row.tenant, row.id, new_id(), new_id()) is None
    session = await envelopes.session()
    begun = await begin_exchange(envelopes.database, row.tenant, row.id, session, "run 1")
    assert begun is not None
    assert (begun.session, begun.run) == (session, "run 1")
    assert await begin_exchange(envelopes.database, row.tenant, row.id, await envelopes.session(), "run 2") == begun
    assert await unbegun_exchanges(envelopes.database, row.tenant, before=before, limit=10) == []
    ident = UUID(row.envelope)
    assert await find_session(envelopes.database, row.tenant, OWN, PEER, [ident]) == session
    assert await find_session(envelopes.database, row.tenant, OWN, OTHER, [ident]) is None


async def test_exchanges_of_runs_that_are_over_are_found(envelopes: EnvelopeStory, database: Database) -> None:
    """One whose run is withdrawn before it began, too; not one whose run goes on."""
    rows = [await envelopes.opened() for _ in range(3)]
    story = Story(database, SessionKey(envelopes.tenant, new_id()))
    runs = [(await story.submit(f"input {n}", key=f"input {n}")).run for n in range(3)]
    for row, run in zip(rows, runs, strict=True):
        await begin_exchange(database, row.tenant, row.id, story.key.session, run)
    await story.begin()
    assert await exchanges_of_ended_runs(database, envelopes.tenant, limit=10) == []
    async with database.driver() as connection:
        await connection.execute("update perdure.runs set ended_at = now() where tenant_id = $1", envelopes.tenant)
        await connection.execute(
            "update perdure.inputs set state = 'withdrawn' where tenant_id = $1 and run_id = $2",
            envelopes.tenant,
            runs[2],
        )
    found = await exchanges_of_ended_runs(database, envelopes.tenant, limit=10)
    assert {row.run for row in found} == {runs[0], runs[2]}


async def test_informs_go_into_their_session_once(envelopes: EnvelopeStory) -> None:
    """By what they name: the ask, its stream, its hash in their context, or another inform; those of others do not."""
    row = await envelopes.opened(stream_id="talk")
    early = await envelopes.keep(envelopes.new("inform", "early", reply_to=row.envelope))
    assert (early.exchange, early.session) == (row, None)
    session = await envelopes.session()
    await begin_exchange(envelopes.database, row.tenant, row.id, session, "run 1")
    context = [{"id": row.envelope, "hash": "sha256:" + "0" * 64}]
    news = [
        envelopes.new("notify", "by stream", stream_id="talk"), envelopes.new("inform", "by context", context=context),
        envelopes.new("inform", "alone"), envelopes.new("inform", "theirs", sender=OTHER, reply_to=row.envelope),
    ]  # fmt: skip
    kept = [await envelopes.later((n + 1) * SECOND).keep(new) for n, new in enumerate(news)]
    assert [one.session for one in kept] == [session, session, None, None]
    pending = await envelopes.pending(session)
    assert [(item.intent, item.session) for item in pending] == [
        (Intent.INFORM, session), (Intent.NOTIFY, session), (Intent.INFORM, session),
    ]  # fmt: skip
    assert await take_inform(envelopes.database, pending[0])
    assert not await take_inform(envelopes.database, pending[0])
    before = envelopes.now + HOUR
    assert await unjoined_informs(envelopes.database, envelopes.tenant, before=before, limit=9) == pending[:1]
    await note_joined(envelopes.database, pending[:1])
    assert await unjoined_informs(envelopes.database, envelopes.tenant, before=before, limit=9) == []
    ask = await envelopes.opened(reply_to=row.envelope)
    taken = await take_informs(envelopes.database, envelopes.tenant, session, exchange=ask.id)
    assert [item.raw for item in taken] == [new.raw for new in news[:2]]
    later = await envelopes.keep(envelopes.new("inform", reply_to=row.envelope))
    assert later.session == session
    assert await take_informs(envelopes.database, envelopes.tenant, session, exchange=ask.id) == taken, "again"
    other = await envelopes.opened(reply_to=row.envelope)
    assert len(await take_informs(envelopes.database, envelopes.tenant, session, exchange=other.id)) == 1


async def test_proposals_are_listed_in_pages(envelopes: EnvelopeStory) -> None:
    """Those that wait, oldest first; a page goes on behind one that has been answered meanwhile."""
    rows = [await envelopes.later(n * SECOND).opened("propose") for n in range(4)]
    await envelopes.opened("ask")
    page = await list_proposals(envelopes.database, envelopes.tenant, after=None, limit=2)
    assert page == rows[:2]
    await settle(envelopes.database, envelopes.tenant, rows[1].id, Step.CONFIRM, now=envelopes.now)
    assert await list_proposals(envelopes.database, envelopes.tenant, after=page[-1].id, limit=9) == rows[2:]
    assert await list_proposals(envelopes.database, envelopes.tenant, after=None, limit=9) == [rows[0], *rows[2:]]


async def test_hashes_of_what_was_received_are_known(envelopes: EnvelopeStory) -> None:
    """Of two senders' envelopes of one id each one's own counts; to a third they are unknown."""
    ident = an_id()
    mine, theirs = envelopes.new("inform", "mine", id=ident), envelopes.new("inform", "theirs", id=ident, sender=OTHER)
    single = envelopes.new("inform")
    for new in (mine, theirs, single):
        await envelopes.keep(new)
    ids = [mine.envelope.id, single.envelope.id, UUID(int=7)]

    async def known(sender: str) -> dict[UUID, str]:
        return await known_hashes(envelopes.database, envelopes.tenant, ids, sender=sender)

    both = {single.envelope.id: single.envelope.context_hash}
    assert await known(PEER) == both | {mine.envelope.id: mine.envelope.context_hash}
    assert await known(OTHER) == both | {mine.envelope.id: theirs.envelope.context_hash}
    assert await known("did:web:third.example") == both
    assert await known_hashes(envelopes.database, envelopes.tenant, [], sender=PEER) == {}


async def test_a_deleted_session_takes_its_exchanges_with_it(envelopes: EnvelopeStory) -> None:
    """With their frames and what their envelopes say; that they came is known: a resend is a repeat, its stream is gone."""
    new = envelopes.new("ask", stream_id="gone")
    row = (await envelopes.keep(new)).exchange
    assert row is not None
    session = await envelopes.session()
    row = await begin_exchange(envelopes.database, row.tenant, row.id, session, "run 1")
    assert row is not None
    await envelopes.framed(row, "chunk", "done")
    await envelopes.keep(envelopes.new("inform", reply_to=row.envelope))
    key = SessionKey(envelopes.tenant, session)
    keys = await mark_deleting(envelopes.database, key, force=True)
    other = await envelopes.opened()
    assert await begin_exchange(envelopes.database, row.tenant, other.id, session, "run 2") is None
    await delete_content(envelopes.database, keys)
    await forget(envelopes.database, keys)
    async with envelopes.database.driver(key) as connection:
        assert await connection.fetch(ALL_ROWS, *key) == []
        raws = await connection.fetch("select raw, state from perdure.envelopes where tenant_id = $1", key.tenant)
    assert sorted((raw["raw"] is None, raw["state"]) for raw in raws) == [
        (False, "in_progress"), (True, "cancelled"), (True, "completed"),
    ]  # fmt: skip
    again = await envelopes.keep(new)
    assert (again.repeated, again.exchange, again.answer["stream_id"]) == (True, None, "gone")
    with pytest.raises(UAMPError) as gone:
        await named_stream(envelopes.database, envelopes.tenant, "gone", peer=PEER)
    assert gone.value.code == "4.10"


async def test_acks_of_a_long_stream_are_forgotten_though_it_goes_on(envelopes: EnvelopeStory) -> None:
    """There may be as many as frames. What opened it stays as long as it does."""
    row = await envelopes.opened()
    for _ in range(3):
        await envelopes.keep(envelopes.new("progress", reply_to=row.envelope))
    now = envelopes.now + DAY + SECOND
    gone = await forget_old(envelopes.database, envelopes.tenant, now=now, retention=HOUR, replay_memory=DAY)
    assert gone == Forgotten(0, 3)
    assert await envelopes.row(row) == row
    assert await opening_envelope(envelopes.database, row) is not None


async def test_what_is_old_is_forgotten(envelopes: EnvelopeStory) -> None:
    """An exchange goes when it is kept no more: its stream is known to have been, then unknown. What is live stays."""
    row = await envelopes.opened(stream_id="old")
    live = await envelopes.opened(stream_id="live")
    talk = await envelopes.opened(stream_id="talk")
    session = await envelopes.session()
    await begin_exchange(envelopes.database, talk.tenant, talk.id, session, "run 1")
    await envelopes.framed(row, "chunk", "done")
    for one in (row, talk):
        await settle(envelopes.database, envelopes.tenant, one.id, Step.DONE, now=envelopes.now)

    async def forgotten(passed: timedelta) -> Forgotten:
        now = envelopes.now + passed
        return await forget_old(envelopes.database, envelopes.tenant, now=now, retention=SECOND, replay_memory=DAY)

    assert await forgotten(SECOND) == Forgotten(0, 0)
    assert await forgotten(SECOND * 2) == Forgotten(2, 0)
    assert await envelopes.count("envelope_frames") == 0
    with pytest.raises(UAMPError) as gone:
        await named_stream(envelopes.database, envelopes.tenant, "old", peer=PEER)
    assert gone.value.code == "4.10"
    assert await forgotten(DAY + SECOND) == Forgotten(0, 1)
    with pytest.raises(UAMPError) as unknown:
        await named_stream(envelopes.database, envelopes.tenant, "old", peer=PEER)
    assert unknown.value.code == "4.04"
    assert await named_stream(envelopes.database, envelopes.tenant, "live", peer=PEER) == live
    assert await find_session(envelopes.database, envelopes.tenant, OWN, PEER, [UUID(talk.envelope)]) == session
