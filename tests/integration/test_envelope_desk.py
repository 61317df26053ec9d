"""The desk of envelopes: what each intent does, once, by real servers; without a transport."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from perdure.errors import UnknownWait, WaitAnswered
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.lifecycle import State
from perdure.runtime.envelopes.desk import Receipt
from perdure.runtime.envelopes.proposals import answer_proposal
from perdure.runtime.envelopes.receiving import admit
from perdure.store.envelopes.exchanges import list_proposals
from perdure.store.envelopes.keeping import keep_envelope
from perdure.store.envelopes.neglected import unread_subscriptions
from perdure.store.envelopes.rows import NewEnvelope
from perdure.store.runs import RunRow, find_run, list_runs
from tests.conformance.envelope_peer import Envelope, new_id, sha256_of, wire
from tests.conformance.uamp_agents import MIRROR, PRICES, gate, plan
from tests.integration.access_stage import own_database
from tests.integration.envelope_place import APP, DID, DeskPlace, caller, desk_place, told
from tests.integration.stack import Stack, WorkerProcess, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


@dataclass(frozen=True)
class Served:
    """A database of its own whose agents a worker serves."""

    url: str
    gates: Path


@pytest.fixture(scope="module")
def served(stack: Stack) -> Iterator[Served]:
    gates = stack.folder / f"gates-{uuid.uuid4().hex}"
    gates.mkdir()
    with own_database(stack) as url:
        queue = f"desk-{uuid.uuid4().hex}"
        environment = {"PERDURE_DATABASE_URL": url, "PERDURE_TASK_QUEUE": queue, "PERDURE_UAMP_GATES": str(gates)}
        environment["PERDURE_PRICES"] = json.dumps(PRICES)
        worker = WorkerProcess(stack, APP, **environment)
        try:
            worker.wait_ready()
            yield Served(url, gates)
        finally:
            worker.kill()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(stack: Stack, served: Served) -> AsyncGenerator[DeskPlace]:
    async with desk_place(stack, served.url, served.gates) as made:
        yield made


async def runs_of(place: DeskPlace, session: str) -> list[RunRow]:
    return await list_runs(place.sessions.database, place.sessions.key_of(session))


async def until_active(place: DeskPlace, receipt: Receipt) -> str:
    """The session of an ask whose run has begun."""

    async def begun() -> str | None:
        row = await place.row(receipt)
        if row.session is None or row.run is None:
            return None
        run = await find_run(place.sessions.database, place.sessions.tenant, row.run)
        return row.session if run.status == "running" else None

    return await eventually(begun, what="a run that has begun")


def about(envelope: Envelope) -> list[dict[str, str]]:
    """The `context` that names an envelope."""
    return [{"id": envelope["id"], "hash": f"sha256:{sha256_of(envelope)}"}]


async def test_an_ask_is_answered_by_a_run_in_a_session_of_its_own(place: DeskPlace) -> None:
    ask = place.ann.signed("hello there")
    receipt = await place.send(ask)
    assert (receipt.envelope_id, receipt.repeated) == (ask["id"], False)
    assert receipt.location == f"/v1/stream/{receipt.stream_id}"
    frames = await place.frames(receipt)
    assert [frame["delta_seq"] for frame in frames] == list(range(len(frames)))
    assert frames[-1]["type"] == "done"
    assert frames[-1]["payload"]["text"] == "echo: hello there"
    row = await place.row(receipt)
    assert row.state is State.COMPLETED
    assert row.session == frames[-1]["payload"]["session"]


async def test_a_resend_is_answered_as_before_and_runs_nothing(place: DeskPlace) -> None:
    """Also ten at once, of which one was first."""
    ask = place.ann.signed("once only")
    receipts = await asyncio.gather(*(place.send(ask) for _ in range(10)))
    assert len({receipt.stream_id for receipt in receipts}) == 1
    assert sorted(receipt.repeated for receipt in receipts) == [False] + 9 * [True]
    frames = await place.frames(receipts[0])
    again = await place.send(ask)
    assert (again.stream_id, again.repeated) == (receipts[0].stream_id, True)
    assert await place.frames(again) == frames
    session = (await place.row(again)).session
    assert session is not None
    assert [run.status for run in await runs_of(place, session)] == ["completed"]


async def test_an_ask_that_names_an_earlier_one_goes_on_in_its_session(place: DeskPlace) -> None:
    """By reply_to and by context; another sender that names it opens a session of its own."""
    first = place.ann.signed("my name is Ann")
    await place.answer(await place.send(first))
    second = place.ann.signed(MIRROR, reply_to=first["id"])
    heard = told(await place.answer(await place.send(second)))
    assert heard == [("user", "my name is Ann"), ("assistant", "echo: my name is Ann"), ("user", MIRROR)]
    third = place.ann.signed(MIRROR, context=about(second))
    assert len(told(await place.answer(await place.send(third)))) == 5
    other = place.bob.signed(MIRROR, context=about(first))
    assert told(await place.answer(await place.send(other, place.bob), place.bob)) == [("user", MIRROR)]


async def test_context_with_another_hash_is_refused(place: DeskPlace) -> None:
    first = place.ann.signed("the real one")
    await place.answer(await place.send(first))
    wrong = [{"id": first["id"], "hash": f"sha256:{'0' * 64}"}]
    assert await place.refused(place.ann.signed("as I said", context=wrong)) == "4.00"
    unknown = [{"id": new_id(), "hash": f"sha256:{'0' * 64}"}]
    await place.answer(await place.send(place.ann.signed("as somebody said", context=unknown)))


@pytest.mark.parametrize("intent", ["inform", "notify"])
async def test_an_inform_joins_the_run_that_is_going_on(place: DeskPlace, intent: str) -> None:
    """It is in the thread of the run's next model call, and only there."""
    name = f"inform-{uuid.uuid4().hex}"
    script = plan({"calls": [{"tool": "waiting", "arguments": {"name": name}}]})
    ask = place.ann.signed(script)
    receipt = await place.send(ask)
    session = await until_active(place, receipt)
    said = await place.send(place.ann.signed("by the way", intent=intent, reply_to=ask["id"]))
    assert (said.stream_id, said.location) == (None, None)
    place.open_gate(name)
    assert await place.answer(receipt) == "echo: by the way"  # the model answers what was said last
    after = place.ann.signed(MIRROR, reply_to=ask["id"])
    heard = told(await place.answer(await place.send(after)))
    assert [text for role, text in heard if role == "user"] == [script, "by the way", MIRROR]
    assert len(await runs_of(place, session)) == 2


async def test_informs_stand_before_the_next_ask_once(place: DeskPlace) -> None:
    first = place.ann.signed("begin")
    await place.answer(await place.send(first))
    for text in ("one", "two"):
        sent = place.ann.signed(text, intent="inform", context=about(first))
        await place.send(sent)
        assert (await place.send(sent)).repeated
    heard = told(await place.answer(await place.send(place.ann.signed(MIRROR, reply_to=first["id"]))))
    assert [text for _, text in heard] == ["begin", "echo: begin", "one", "two", MIRROR]
    heard = told(await place.answer(await place.send(place.ann.signed(MIRROR, reply_to=first["id"]))))
    assert [text for _, text in heard].count("one") == 1


@pytest.mark.parametrize(("decision", "state"), [("confirm", State.COMPLETED), ("deny", State.COMPLETED)])
async def test_a_person_answers_a_proposal_once(place: DeskPlace, decision: Any, state: State) -> None:
    propose = place.ann.signed("Shall we merge on Friday?", intent="propose")
    receipt = await place.send(propose)
    row = await place.row(receipt)
    listed = await list_proposals(place.sessions.database, place.sessions.tenant, after=None, limit=100)
    assert row.id in [item.id for item in listed]
    assert row.proposal == {"type": "text/plain", "text": "Shall we merge on Friday?"}
    waiting = asyncio.create_task(place.frames(receipt))
    streams = place.desk.parts.streams
    answers = await asyncio.gather(
        *(answer_proposal(streams, row.id, decision, reason="as planned", by="eve") for _ in range(3)),
        return_exceptions=True,
    )
    assert sorted(type(answer) is WaitAnswered for answer in answers) == [False, True, True]
    (last,) = await waiting
    assert last["type"] == "done"
    assert last["payload"]["intent"] == decision
    check_answer(place, last["payload"]["envelope"], propose, decision)
    assert (await place.row(receipt)).state is state
    with pytest.raises(UnknownWait):
        await answer_proposal(streams, str(uuid.uuid4()), decision, by="eve")


def check_answer(place: DeskPlace, answer: Envelope, propose: Envelope, decision: str) -> None:
    """It is ours, about the proposal, and its hash is what is signed."""
    assert (answer["from"], answer["to"], answer["intent"]) == (DID, [place.ann.did], decision)
    assert answer["reply_to"] == propose["id"]
    header = json.loads(base64.urlsafe_b64decode(answer["sig"].split(".")[0] + "=="))
    assert header["kid"].startswith(f"{DID}#")


@pytest.mark.parametrize(("accept", "intent"), [(True, "confirm"), (False, "deny")])
async def test_the_agent_answers_a_proposal_where_it_may(
    stack: Stack, served: Served, accept: bool, intent: str
) -> None:
    said = json.dumps({"accept": accept, "reason": "because"})
    async with desk_place(stack, served.url, served.gates, proposals="agent") as place:
        propose = place.ann.signed(plan({"say": said}), intent="propose")
        receipt = await place.send(propose)
        waiting = asyncio.create_task(place.frames(receipt))

        async def swept() -> bool:
            await place.sweep.settle()
            return waiting.done()

        await eventually(swept, what="the agent's decision")
        (last,) = await waiting
        assert last["payload"]["intent"] == intent
        answer = last["payload"]["envelope"]
        check_answer(place, answer, propose, intent)
        assert json.loads(answer["body"]["content"]) == {"decision": intent, "reason": "because"}


async def test_a_cancel_ends_the_stream_and_the_run(place: DeskPlace) -> None:
    name = f"cancel-{uuid.uuid4().hex}"
    ask = place.ann.signed(plan({"say": ["begun ", gate(name), "never"]}))
    receipt = await place.send(ask)
    session = await until_active(place, receipt)
    reading = asyncio.create_task(place.frames(receipt))
    assert await place.refused(place.bob.signed("stop", intent="cancel", reply_to=ask["id"]), place.bob) == "4.03"
    cancel = place.ann.cancel(ask)
    await place.send(cancel)
    frames = await reading
    assert frames[-1]["type"] == "cancel"
    assert (await place.row(receipt)).state is State.CANCELLED
    assert (await place.send(cancel)).repeated
    await place.send(place.ann.cancel(ask))

    async def over() -> bool:
        return [run.status for run in await runs_of(place, session)] == ["cancelled"]

    await eventually(over, what="a cancelled run")


async def test_a_cancel_after_the_end_changes_nothing(place: DeskPlace) -> None:
    ask = place.ann.signed("quick")
    receipt = await place.send(ask)
    frames = await place.frames(receipt)
    await place.send(place.ann.cancel(ask))
    assert (await place.row(receipt)).state is State.COMPLETED
    assert await place.frames(receipt) == frames


async def cancelled(place: DeskPlace, ask: Envelope) -> bool:
    """Whether a cancel was taken: not before its ask was."""
    try:
        await place.send(place.ann.cancel(ask))
    except UAMPError as error:
        if error.code != "4.04":
            raise
        return False
    return True


async def test_a_cancel_that_overtakes_the_beginning_of_its_ask_is_heeded(place: DeskPlace) -> None:
    """Wherever it comes in, nothing of it runs on."""

    async def overtaken() -> Receipt:
        ask = place.ann.signed(plan({"say": ["begun ", gate(f"overtaken-{uuid.uuid4().hex}")]}))
        asking = asyncio.create_task(place.send(ask))
        await eventually(lambda: cancelled(place, ask), what="a cancel that is taken")
        return await asking

    async def is_over(receipt: Receipt) -> bool:
        await place.sweep.cancel()
        row = await place.row(receipt)
        assert row.run is not None
        return (await find_run(place.sessions.database, place.sessions.tenant, row.run)).status == "cancelled"

    for receipt in await asyncio.gather(*(overtaken() for _ in range(6))):
        assert [frame["type"] for frame in await place.frames(receipt)][-1] == "cancel"
        await eventually(lambda receipt=receipt: is_over(receipt), what="a cancelled run")


async def test_proposals_that_wait_for_a_person_hold_no_ask_up(stack: Stack, served: Served) -> None:
    """However many there are: an ask whose process died is begun all the same."""
    async with desk_place(stack, served.url, served.gates) as place:
        parts = place.desk.parts
        for number in range(101):
            await place.send(place.ann.signed(f"shall we, {number}?", intent="propose"))
        ask = place.ann.signed("who begins me?")
        admitted = await admit(parts, wire(ask), caller(place.ann))
        new = NewEnvelope(
            parts.tenant, DID, admitted.envelope, admitted.raw, principal=place.ann.did, stream_id="begun-later"
        )
        await keep_envelope(parts.database, new, now=parts.clock(), max_open=1000, rate_per_hour=None)
        place.clock.advance(60)
        assert await place.sweep.begin() >= 1
        assert await place.answer(await place.send(ask)) == "echo: who begins me?"


async def test_a_long_envelope_holds_nobody_else_up(place: DeskPlace) -> None:
    """Reading one of a megabyte may take a second; others are served meanwhile."""
    long = wire(place.ann.signed("tangled", ext={"a": [[]] * 200_000}))
    sending = asyncio.create_task(place.refused(long, place.bob))
    turns = 0
    while not sending.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert await sending == "4.03"
    assert turns > 5, "others had one or two while it was read"


async def test_an_error_of_its_sender_ends_an_exchange(place: DeskPlace) -> None:
    """Its stream says the same error; what comes later changes nothing."""
    name = f"error-{uuid.uuid4().hex}"
    ask = place.ann.signed(plan({"say": ["begun ", gate(name)]}))
    receipt = await place.send(ask)
    reading = asyncio.create_task(place.frames(receipt))
    said = {"code": "4.13", "message": "more than I can take", "retryable": False}
    body = {"type": "application/json", "content": json.dumps(said)}
    await place.send(place.ann.signed(intent="error", reply_to=ask["id"], body=body))
    last = (await reading)[-1]
    assert (last["type"], last["payload"]["code"], last["payload"]["message"]) == ("error", "4.13", said["message"])
    await place.send(place.ann.cancel(ask))
    assert (await place.row(receipt)).state is State.ERROR
    place.open_gate(name)


async def test_a_subscription_follows_a_session_of_its_senders_only(place: DeskPlace) -> None:
    ask = place.ann.signed("watch me")
    await place.answer(await place.send(ask))
    subscribe = place.ann.signed("news please", intent="subscribe", context=about(ask))
    receipt = await place.send(subscribe)
    session = (await place.row(receipt)).session
    by_name = {"type": "application/json", "content": json.dumps({"session": session})}
    assert await place.refused(place.bob.signed(intent="subscribe", body=by_name), place.bob) == "4.04"
    assert await place.refused(place.bob.signed(intent="subscribe", context=about(ask)), place.bob) == "4.04"
    other = await place.send(place.ann.signed(intent="subscribe", body=by_name))
    assert (await place.row(other)).session == session
    reading = asyncio.create_task(place.frames(receipt))
    await place.answer(await place.send(place.ann.signed("again", reply_to=ask["id"])))

    async def is_told() -> bool:
        return (await place.row(receipt)).sent >= 0

    await eventually(is_told, what="a first frame that has gone out")
    await place.send(place.ann.cancel(subscribe))
    frames = await reading
    kinds = [frame["payload"]["event"]["type"] for frame in frames[:-1]]
    assert kinds[0] == "run.queued"
    assert frames[-1]["type"] == "cancel"


async def test_a_subscription_that_nobody_reads_ends(stack: Stack, served: Served) -> None:
    """Else those of peers that are gone would take all the room, for ever. One that is read goes on."""
    async with desk_place(stack, served.url, served.gates) as place:
        ask = place.ann.signed("watch me")
        await place.answer(await place.send(ask))
        left, read = [
            await place.send(place.ann.signed("news", intent="subscribe", context=about(ask))) for _ in range(2)
        ]
        place.clock.advance(place.desk.parts.rules.retention.total_seconds() + 60)
        stream = await place.desk.open_stream(str(read.stream_id), caller(place.ann), last_seq=None)
        async with aclosing(stream.frames()) as frames:
            reading = asyncio.create_task(anext(frames))

            async def is_noted() -> bool:
                before = place.clock() - timedelta(minutes=30)
                rows = await unread_subscriptions(
                    place.sessions.database, place.sessions.tenant, before=before, limit=100
                )
                return str(read.stream_id) not in [row.stream_id for row in rows]

            await eventually(is_noted, what="a reader that is noted")
            await place.sweep.expire()
            assert (await place.row(read)).ended_at is None
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        last = (await place.frames(left))[-1]
        assert (last["type"], last["payload"]["code"]) == ("error", "4.10")


async def test_one_sender_leaves_room_for_others(stack: Stack, served: Served, place: DeskPlace) -> None:
    async with place.sessions.database.driver() as connection:
        there = await connection.fetchval(
            "select count(*) from perdure.envelope_exchanges where sender = $1 and ended_at is null", place.ann.did
        )
    async with desk_place(stack, served.url, served.gates, max_open_of_sender=there + 2) as place:
        mine = [place.ann.signed("shall we?", intent="propose") for _ in range(2)]
        for proposal in mine:
            await place.send(proposal)
        assert await place.refused(place.ann.signed("and this?", intent="propose")) == "5.04"
        await place.send(place.bob.signed("shall we?", intent="propose"), place.bob)
        await place.send(place.ann.cancel(mine[0]))
        await place.send(place.ann.signed("and this?", intent="propose"))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"type": "application/pdf", "content": "x"}, "4.15"),
        ({"type": "text/plain; charset=latin-1", "content": "x"}, "4.15"),
        ({"type": "text/plain", "content": "x", "encoding": "quoted-printable"}, "4.15"),
        ({"type": "text/plain", "content": "x", "compression": "br"}, "4.15"),
        ({"type": "text/plain", "content": "eA", "encoding": "base64", "compression": "gzip"}, "4.15"),
        ({"type": "text/plain", "content": "_w", "encoding": "base64url"}, "4.00"),
        ({"type": "application/json", "content": "{"}, "4.00"),
        ({"type": "text/plain", "content": "  "}, "4.00"),
    ],
)
async def test_bodies_that_are_not_taken(place: DeskPlace, body: dict[str, str], code: str) -> None:
    """Nothing of them is kept: the same id with another body is a first one."""
    refused = place.ann.unsigned(body=body)
    assert await place.refused(place.ann.sign(refused)) == code
    fine = place.ann.sign({**refused, "body": {"type": "text/plain", "content": "better"}})
    assert not (await place.send(fine)).repeated


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"type": "Text/Markdown; charset=UTF-8", "content": MIRROR}, {"type": "text", "text": MIRROR}),
        ({"type": "text/plain", "content": "bWlycm9y", "encoding": "base64"}, {"type": "text", "text": MIRROR}),
    ],
)
async def test_bodies_that_are_taken(place: DeskPlace, body: dict[str, str], shown: dict[str, str]) -> None:
    answer = await place.answer(await place.send(place.ann.signed(body=body)))
    assert json.loads(answer)["messages"][0]["items"] == [shown]


async def test_an_image_is_shown_to_the_agent(place: DeskPlace) -> None:
    body = {"type": "image/png", "content": base64.urlsafe_b64encode(PNG).decode(), "encoding": "base64url"}
    image = place.ann.signed(body=body)
    await place.frames(await place.send(image))
    answer = await place.answer(await place.send(place.ann.signed(MIRROR, reply_to=image["id"])))
    (item,) = json.loads(answer)["messages"][0]["items"]
    assert item["type"] == "image"
    assert item["source"]["sha256"] == hashlib.sha256(PNG).hexdigest()


async def test_who_may_send_what(place: DeskPlace) -> None:
    """Of the transport's caller, the sender, the recipients and the signature each must fit the others."""
    ann, bob = place.ann, place.bob
    assert await place.refused(ann.signed(), bob) == "4.03"
    assert await place.refused(ann.signed(to=["did:web:elsewhere.example"])) == "4.03"
    assert await place.refused(ann.signed(to=[DID, f"{DID}:agents:assistant"])) == "4.03"
    forged = ann.unsigned("forged")
    assert await place.refused({**forged, "sig": bob.sign(forged, kid=ann.kid)["sig"]}) == "4.01"
    place_of = [f"{DID}:agents:changing", "did:web:elsewhere.example"]
    assert await place.answer(await place.send(ann.signed("to one of two", to=place_of))) == "echo: to one of two"


async def test_a_stream_is_its_openers_alone(place: DeskPlace) -> None:
    receipt = await place.send(place.ann.signed("mine"))
    assert receipt.stream_id is not None
    for who, stream, code in (
        (place.bob, receipt.stream_id, "4.04"),
        (place.ann, "never-heard-of", "4.04"),
    ):
        with pytest.raises(Exception, match="stream") as raised:
            await place.desk.open_stream(stream, caller(who), last_seq=None)
        assert getattr(raised.value, "code", None) == code
    await place.answer(receipt)


async def test_an_expired_stream_says_so_and_a_resend_runs_nothing(stack: Stack, served: Served) -> None:
    async with desk_place(stack, served.url, served.gates) as place:
        ask = place.ann.signed("long ago")
        receipt = await place.send(ask)
        await place.answer(receipt)
        row = await place.row(receipt)
        assert row.session is not None
        place.clock.advance(place.desk.parts.rules.retention.total_seconds() + 60)
        for _ in range(2):
            with pytest.raises(Exception, match="kept no more") as raised:
                await place.desk.open_stream(str(receipt.stream_id), caller(place.ann), last_seq=None)
            assert getattr(raised.value, "code", None) == "4.10"
            await place.sweep.forget()
        assert len(await runs_of(place, row.session)) == 1


async def test_what_fails_at_once_ends_the_stream_with_an_error(place: DeskPlace) -> None:
    receipt = await place.send(place.ann.signed(plan({"fail": "INVALID_REQUEST"})))
    last = (await place.frames(receipt))[-1]
    assert last["type"] == "error"
    assert {"code", "message", "retryable"} <= last["payload"].keys()
    assert (await place.row(receipt)).state is State.ERROR
