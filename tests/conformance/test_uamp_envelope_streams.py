"""Checks 30 to 33, 38 to 41, 45 and 47 of UAMP's envelope: streams of deltas, over real TLS sockets."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import json
import tracemalloc
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from uuid import uuid4

import asyncpg
import httpx
import pytest
import pytest_asyncio
import rfc8785
from jwcrypto import jwk, jws

from perdure.protocols.uamp_envelope.delta import delta_of
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.grpc import uamp_pb2
from perdure.protocols.uamp_envelope.receive_sequence import ReceiveSequence
from perdure.protocols.uamp_envelope.schema import check_schema
from tests.conformance.envelope_lines import (
    TERMINAL,
    Asked,
    Delta,
    GrpcLine,
    HttpLine,
    SocketLine,
    delta_frame,
    delta_in,
    envelope_frame,
    problem_of,
    text_of,
)
from tests.conformance.envelope_peer import sha256_of, utc_text
from tests.conformance.envelope_server import EnvelopeServer, envelope_server
from tests.conformance.uamp_agents import call, gate, painting, plan
from tests.integration.stack import Stack, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
MIB = 1024 * 1024
STALL, RETENTION = timedelta(minutes=5), timedelta(days=1)


def parted(count: int, name: str = "") -> str:
    """A plan of so many answers, whose frames cannot be joined: thoughts, texts and tools by turns."""
    answers: list[dict[str, Any]] = [
        {"think": f"t{n}", "say": f"w{n} ", "calls": [call("weather", city=f"c{n}")]} for n in range(count - 1)
    ]
    return plan(*answers, {"think": "last", "say": f"w{count - 1} "}, name=name)


def check(deltas: list[Delta], ends: str = "done") -> None:
    """That a stream is whole: frames of the schema, without a gap, with one end."""
    for delta in deltas:
        check_schema("delta", delta)
    assert [delta["delta_seq"] for delta in deltas] == [*range(len(deltas))]
    assert [delta["type"] for delta in deltas if delta["type"] in TERMINAL] == [ends]
    assert deltas[-1]["type"] == ends


async def check_transcript(line: HttpLine, server: EnvelopeServer, deltas: list[Delta]) -> None:
    """That the end signs all frames, itself too, with a key of the agent's own document."""
    end = {**deltas[-1], "payload": {**deltas[-1]["payload"]}}
    transcript = end["payload"].pop("transcript")
    lines = b"".join(rfc8785.dumps(delta) + b"\n" for delta in (*deltas[:-1], end))
    assert transcript["sha256"] == hashlib.sha256(lines).hexdigest()
    payload = f'{{"sha256":"{transcript["sha256"]}"}}'.encode()
    first, middle, last = transcript["jws"].split(".")
    assert middle == ""
    header = json.loads(base64.urlsafe_b64decode(first + "=="))
    document = (await line.http.get("/.well-known/did.json")).json()
    assert document["id"] == server.did
    (method,) = (one for one in document["verificationMethod"] if one["id"] == header["kid"])
    token: Any = jws.JWS()
    token.deserialize(f"{first}.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.{last}")
    token.verify(jwk.JWK(**method["publicKeyJwk"]))


@pytest.fixture(scope="module")
def clocked(stack: Stack) -> Iterator[EnvelopeServer]:
    """A server whose clock tests put forward."""
    with envelope_server(
        stack, uamp_stall=STALL.total_seconds(), uamp_stream_retention=RETENTION.total_seconds()
    ) as made:
        yield made


async def session_of(server: EnvelopeServer, asked: Asked) -> str:
    """The session in which an ask is answered."""
    return await server_value(
        server, "select session_id from perdure.envelope_exchanges where stream_id = $1", asked.stream_id
    )


async def until_ended(server: EnvelopeServer, session: str) -> None:
    """Return once the session's run has ended well."""
    sql = "select count(*) from perdure.runs where session_id = $1 and status = 'completed'"

    async def has_ended() -> bool:
        return await server_value(server, sql, session) == 1

    await eventually(has_ended, what="the run's end")


async def stored_frames(server: EnvelopeServer, asked: Asked) -> list[int]:
    """The numbers of the frames that are made."""
    sql = (
        "select coalesce(array_agg(f.seq order by f.seq), '{}') from perdure.envelope_frames f "
        "join perdure.envelope_exchanges e on e.tenant_id = f.tenant_id and e.id = f.exchange where e.stream_id = $1"
    )
    return await server_value(server, sql, asked.stream_id)


async def server_value(server: EnvelopeServer, sql: str, *arguments: Any) -> Any:
    """What the server's database says."""
    connection = await asyncpg.connect(server.database_url)
    try:
        return await connection.fetchval(sql, *arguments)
    finally:
        await connection.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ann(envelopes: EnvelopeServer) -> AsyncGenerator[HttpLine]:
    """A peer, connected."""
    async with envelopes.http("ann") as line:
        yield line


async def test_e30_each_event_is_one_line_with_a_delta(ann: HttpLine) -> None:
    """The stream is text/event-stream; an event has an id that is the delta's number, one `data:` line and no name."""
    asked = await ann.ask(plan({"think": "hm\nhm", "say": "two\r\nlines and \u2028 one"}))
    async with ann.stream(asked.location) as response:
        assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
        body = (await response.aread()).decode()
    events = [block.split("\n") for block in body.split("\n\n") if block and "data:" in block]
    assert body.startswith("retry: ")
    deltas: list[Delta] = []
    for lines in events:
        data, ident = sorted(lines)
        deltas.append(json.loads(data.removeprefix("data: ")))
        assert ident.removeprefix("id: ") == str(deltas[-1]["delta_seq"])
    check(deltas)
    assert {delta["stream_id"] for delta in deltas} == {asked.stream_id}
    assert text_of(deltas) == "two\r\nlines and \u2028 one"


async def test_e31_numbers_go_up_by_one_from_zero_to_one_end(envelopes: EnvelopeServer, ann: HttpLine) -> None:
    """Whatever the run does: answers, thinks, calls tools, fails; the connection is closed behind the end, which is signed."""
    used = {"think": "hm", "say": "a ", "calls": [call("weather", city="Paris"), call("failing", reason="no")]}
    for text, ends in ((plan(used, {"say": "b"}), "done"), (plan({"say": "x ", "fail": "PROVIDER_ERROR"}), "error")):
        asked = await ann.ask(text)
        deltas = await ann.deltas(asked)
        check(deltas, ends)
        await check_transcript(ann, envelopes, deltas)


async def test_e32_a_stream_is_resumed_behind_any_frame(envelopes: EnvelopeServer, ann: HttpLine) -> None:
    """Without loss or repeat, while the run goes on and after its end; past the end there is nothing."""
    asked = await ann.ask(plan({"think": "one", "say": ["two ", gate("e32"), "three"]}))
    deltas: list[Delta] = []
    while "chunk" not in {delta["type"] for delta in deltas}:
        async with aclosing(ann.follow(asked.location, deltas[-1]["delta_seq"] if deltas else None)) as coming:
            deltas.append(await anext(coming))
        assert [delta["delta_seq"] for delta in deltas] == [*range(len(deltas))]
    envelopes.open_gate("e32")
    deltas += await ann.deltas(asked, deltas[-1]["delta_seq"])
    check(deltas)
    assert text_of(deltas) == "two three"
    for last in range(len(deltas) - 1):
        assert await ann.deltas(asked, last) == deltas[last + 1 :]
    async with ann.stream(asked.location, len(deltas) - 1) as response:
        assert response.status_code == 204
    for wrong in (len(deltas), "x", "-1"):
        headers = {"last-event-id": str(wrong)}
        problem_of(await ann.http.get(asked.location, headers=headers), "4.00", 400)


async def test_e33_a_stream_is_unknown_or_expired(clocked: EnvelopeServer) -> None:
    """One that never was is 404; one that was kept for its time is 410, and so it is said to a resend's reader."""
    async with clocked.http("ann") as ann:
        problem_of(await ann.http.get("/v1/stream/never-was"), "4.04", 404)
        asked = await ann.ask("soon gone")
        check(await ann.deltas(asked))
        clocked.clock.advance(RETENTION / 2)
        check(await ann.deltas(asked))
        clocked.clock.advance(RETENTION)

        async def is_gone() -> bool:
            async with ann.stream(asked.location) as response:
                return response.status_code != 200

        await eventually(is_gone, what="forgotten")
        problem_of(await ann.http.get(asked.location), "4.10", 410)


class Consumer(Protocol):
    """A reader of one stream, by any binding."""

    async def ask(self, content: str, window: int) -> None:
        """Ask, and read the stream from then on."""
        ...

    async def take(self) -> Delta:
        """The next frame."""
        ...

    async def ack(self, seq: int) -> None:
        """ACK frames."""
        ...


class HttpConsumer:
    """By HTTP."""

    def __init__(self, line: HttpLine) -> None:
        self._line = line

    async def ask(self, content: str, window: int) -> None:
        self.follow(await self._line.ask(content, delta_window=window))

    def follow(self, asked: Asked, last: int | None = None) -> None:
        """Read a stream."""
        self._asked = asked
        self._coming = self._line.follow(asked.location, last)

    async def take(self) -> Delta:
        return await anext(self._coming)

    async def ack(self, seq: int) -> None:
        await self._line.send(self._line.peer.ack(self._asked.envelope, self._asked.stream_id, seq))


class SocketConsumer:
    """By WebSocket: deltas come by themselves behind the answer to the ask."""

    def __init__(self, line: SocketLine) -> None:
        self._line = line

    async def ask(self, content: str, window: int) -> None:
        await self._line.send(self._line.peer.signed(content, delta_window=window, stream_id=uuid4().hex))
        accepted = await self._line.receive()
        assert accepted["intent"] == "progress"
        self._stream = str(accepted["stream_id"])

    async def take(self) -> Delta:
        return await self._line.receive()

    async def ack(self, seq: int) -> None:
        await self._line.send(ack_delta(self._stream, seq))


class GrpcConsumer:
    """By gRPC's Connect; likewise."""

    def __init__(self, line: GrpcLine) -> None:
        self._line = line
        self._call = line.connect()

    async def ask(self, content: str, window: int) -> None:
        ask = self._line.peer.signed(content, delta_window=window, stream_id=uuid4().hex)
        await self._call.write(uamp_pb2.Frame(envelope=envelope_frame(ask)))
        accepted = json.loads((await self._call.read()).envelope.json)
        assert accepted["intent"] == "progress"
        self._stream = str(accepted["stream_id"])

    async def take(self) -> Delta:
        return delta_in(await self._call.read())

    async def ack(self, seq: int) -> None:
        await self._call.write(delta_frame(ack_delta(self._stream, seq)))


def ack_delta(stream_id: str, seq: int) -> Delta:
    """An ACK as two-way bindings have it."""
    now = utc_text(datetime.now(UTC))
    return {"delta_seq": 0, "stream_id": stream_id, "ts": now, "type": "progress", "payload": {"ack": seq}}


@asynccontextmanager
async def consumer(envelopes: EnvelopeServer, binding: str) -> AsyncGenerator[Consumer]:
    """A reader by a binding."""
    match binding:
        case "http":
            async with envelopes.http("ann") as line:
                yield HttpConsumer(line)
        case "ws":
            async with envelopes.socket("ann") as line:
                yield SocketConsumer(line)
        case _:
            async with envelopes.grpc("ann") as line:
                yield GrpcConsumer(line)


class Frames:
    """The frames that a consumer takes, one after the other."""

    def __init__(self, reader: Consumer) -> None:
        self.taken: list[Delta] = []
        self._reader = reader
        self._next: asyncio.Task[Delta] | None = None

    async def take(self, count: int = 1) -> list[int]:
        """The numbers of the next ones."""
        for _ in range(count):
            self.taken.append(await self._upcoming())
            self._next = None
        return [delta["delta_seq"] for delta in self.taken[-count:]]

    async def is_silent(self) -> bool:
        """Whether none comes for a while."""
        done, _ = await asyncio.wait({self._upcoming()}, timeout=0.7)
        return not done

    async def rest(self) -> list[Delta]:
        """All up to the end, each ACKed."""
        while not self.taken or self.taken[-1]["type"] not in TERMINAL:
            (seq,) = await self.take()
            if self.taken[-1]["type"] not in TERMINAL:
                await self._reader.ack(seq)
        return self.taken

    def _upcoming(self) -> asyncio.Task[Delta]:
        if self._next is None:
            self._next = asyncio.create_task(self._reader.take())
        return self._next


@pytest.mark.parametrize("binding", ["http", "ws", "grpc"])
async def test_e38_a_window_of_four_lets_four_frames_out(envelopes: EnvelopeServer, binding: str) -> None:
    """Exactly four, then none before an ACK; an ACK of 3 lets four more out. By each binding."""
    async with consumer(envelopes, binding) as reader:
        await reader.ask(parted(4), 4)
        frames = Frames(reader)
        assert await frames.take(4) == [0, 1, 2, 3]
        assert await frames.is_silent()
        await reader.ack(3)
        assert await frames.take(4) == [4, 5, 6, 7]
        assert await frames.is_silent()
        deltas = await ended(frames, reader, 7)
    check(deltas)
    assert text_of(deltas) == "w0 w1 w2 w3 "


async def ended(frames: Frames, reader: Consumer, acked: int) -> list[Delta]:
    """The whole stream, after an ACK."""
    await reader.ack(acked)
    return await frames.rest()


async def test_e39_a_window_of_one_goes_on_with_each_ack(ann: HttpLine) -> None:
    """Frame by frame to the end."""
    deltas = await ann.deltas(await ann.ask(parted(2), delta_window=1))
    check(deltas)
    assert text_of(deltas) == "w0 w1 "


async def test_e39_who_never_acks_is_told_an_error(clocked: EnvelopeServer) -> None:
    """5.04, once the stall's time is over; the run goes on to its end, and a late ACK is harmless."""
    async with clocked.http("ann") as ann:
        asked = await ann.ask(plan({"think": "hm", "say": ["one ", gate("e39"), "two"]}), delta_window=1)
        reader = HttpConsumer(ann)
        reader.follow(asked)
        frames = Frames(reader)
        await frames.take()
        assert await frames.is_silent()
        clocked.clock.advance(STALL)
        await frames.take()
        check(frames.taken, "error")
        error = frames.taken[-1]["payload"]
        assert (error["code"], error["retryable"], error["ref"]) == ("5.04", True, asked.envelope["id"])
        clocked.open_gate("e39")
        await until_ended(clocked, error["session"])
        await reader.ack(0)
        assert await ann.deltas(asked, ack=False) == frames.taken


async def test_e40_only_a_frame_that_was_sent_is_acked(ann: HttpLine) -> None:
    """One to come is refused; a repeated or older ACK is taken and changes nothing."""
    asked = await ann.ask(parted(3), delta_window=2)
    reader = HttpConsumer(ann)
    reader.follow(asked)
    frames = Frames(reader)
    assert await frames.take(2) == [0, 1]
    for wrong in (2, 1000):
        await ann.refused(ann.peer.ack(asked.envelope, asked.stream_id, wrong), "4.00", 400)
    assert await frames.is_silent()
    for again in (1, 1, 0):
        await reader.ack(again)
    assert await frames.take(2) == [2, 3]
    assert await frames.is_silent()
    check(await ended(frames, reader, 3))


async def test_e41_a_gap_is_seen_and_the_stream_resumed(ann: HttpLine) -> None:
    """A consumer that misses a frame says 4.09, asks again from its last one, and has all of it in the end."""
    asked = await ann.ask(parted(2))
    deltas = await ann.deltas(asked)
    sequence, lost = ReceiveSequence(asked.stream_id), 2
    for delta in deltas[:lost]:
        sequence = sequence.taken(delta_of(delta))
    with pytest.raises(UAMPError) as gap:
        sequence.taken(delta_of(deltas[lost + 1]))
    assert (gap.value.code, gap.value.retryable, sequence.last_seq) == ("4.09", True, lost - 1)
    rest = await ann.deltas(asked, sequence.last_seq)
    for delta in rest:
        sequence = sequence.taken(delta_of(delta))
    assert sequence.has_ended
    assert rest == deltas[lost:]


async def test_e45_a_subscription_tells_events_until_it_is_cancelled(ann: HttpLine) -> None:
    """Those of the session that the sender's ask opened; others may not cancel it; its end is a cancel delta."""
    asked = await ann.ask("first")
    session = (await ann.deltas(asked))[-1]["payload"]["session"]
    body = {"type": "application/json", "content": json.dumps({"session": session})}
    subscription = await ann.ask(intent="subscribe", body=body, delta_window=1000)
    reader = HttpConsumer(ann)
    reader.follow(subscription)
    frames = Frames(reader)
    assert await frames.is_silent(), "what was before is not told"
    context = [{"id": asked.envelope["id"], "hash": f"sha256:{sha256_of(asked.envelope)}"}]
    assert await ann.answer("second", context=context) == "echo: second"
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] != "run.completed":
        await frames.take()
        events.append(frames.taken[-1]["payload"]["event"])
    assert {delta["type"] for delta in frames.taken} == {"progress"}
    assert [event["seq"] for event in events] == [*range(events[0]["seq"], events[0]["seq"] + len(events))]
    assert {"run.started", "step_start", "text_delta", "step_end"} <= {event["type"] for event in events}
    await ann.send(ann.peer.cancel(subscription.envelope))
    while frames.taken[-1]["type"] not in TERMINAL:
        await frames.take()
    check(frames.taken, "cancel")


async def test_e47_an_image_comes_in_chunks_of_bytes(ann: HttpLine) -> None:
    """As in the specification's C.2: the chunks put together are the image, and the end says what it is."""
    size = 200_001
    deltas = await ann.deltas(await ann.ask(plan({"say": "here", "paint": size}), delta_window=2))
    check(deltas)
    chunks = [delta["payload"] for delta in deltas if "chunk_b64" in delta["payload"]]
    assert len(chunks) > 3
    assert b"".join(base64.b64decode(chunk["chunk_b64"], validate=True) for chunk in chunks) == painting(size)
    done = deltas[-1]["payload"]
    assert (done["mime"], done["text"]) == ("image/png", "here")
    assert done["media"] == [{"item": 0, "mime": "image/png", "bytes": size}]


async def test_a_consumer_that_stops_is_sent_four_frames_and_the_rest_hours_later(clocked: EnvelopeServer) -> None:
    """It neither reads nor ACKs: no more comes out, the server's memory does not grow, the run ends; then it is back."""
    word, times = "x" * 40_000 + " ", 40
    text = plan({"think": "1", "say": "a ", "calls": [call("weather", city="b")]}, {"say": word, "times": times})
    async with clocked.http("ann") as ann:
        asked = await ann.ask(text, delta_window=4)
        reader = HttpConsumer(ann)
        reader.follow(asked)
        frames = Frames(reader)
        assert await frames.take(4) == [0, 1, 2, 3]
        tracemalloc.start()
        assert await frames.is_silent()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        session = await session_of(clocked, asked)
        await until_ended(clocked, session)
        assert await frames.is_silent()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert after - before < MIB, "the answer has more than that"
    assert await stored_frames(clocked, asked) == [0, 1, 2, 3]
    clocked.clock.advance(timedelta(hours=5))
    async with clocked.http("ann") as ann:
        rest = await ann.deltas(asked, 3)
    deltas = [*frames.taken, *rest]
    check(deltas)
    assert text_of(deltas) == "a " + word * times
    assert "text" not in rest[-1]["payload"], "too long to be said twice"


async def test_a_stream_is_read_acked_and_cancelled_at_different_replicas(envelopes: EnvelopeServer) -> None:
    """One replica sends, another takes the ACK; the first is killed, a third reader goes on, and a cancel comes from elsewhere."""
    replica = envelopes.new_api()
    try:
        await asyncio.to_thread(replica.wait_ready)
        async with envelopes.http("ann") as here, envelopes.http("ann", url=at_localhost(replica.url)) as there:
            asked = await here.ask(plan({"think": "1", "say": ["a ", gate("replicas")]}, name="r"), delta_window=1)
            reader = HttpConsumer(there)
            reader.follow(asked)
            frames = Frames(reader)
            await frames.take()
            assert await frames.is_silent()
            await here.send(here.peer.ack(asked.envelope, asked.stream_id, 0))
            assert await frames.take() == [1]
            replica.kill()
            with pytest.raises((httpx.TransportError, StopAsyncIteration)):
                await frames.take()
            again = HttpConsumer(here)
            again.follow(asked, 1)
            rest = Frames(again)
            await rest.take()
            async with envelopes.grpc("ann") as elsewhere:
                await elsewhere.send(elsewhere.peer.cancel(asked.envelope))
            while rest.taken[-1]["type"] not in TERMINAL:
                await rest.take()
        check([*frames.taken, *rest.taken], "cancel")
        envelopes.open_gate("replicas")
    finally:
        replica.kill()


def at_localhost(url: str) -> str:
    """A replica's address under the name that its certificate has."""
    return url.replace("127.0.0.1", "localhost")
