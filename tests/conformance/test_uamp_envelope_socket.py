"""UAMP envelope over WebSocket: frames, answers, several streams on one connection, ACKs, resume. Numbers: the checklist."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest
import websockets

from tests.conformance.envelope_lines import TERMINAL, SocketLine, text_of
from tests.conformance.envelope_peer import Envelope, wire
from tests.conformance.envelope_server import EnvelopeServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = " ".join(f"word{number}" for number in range(40))


def ack_of(stream_id: str, seq: int) -> dict[str, Any]:
    """An ACK as a consumer sends it."""
    moment = "2026-01-10T13:37:05Z"
    return {"delta_seq": seq, "stream_id": stream_id, "ts": moment, "type": "progress", "payload": {"ack": seq}}


async def answered(line: SocketLine, envelope: Envelope) -> dict[str, Any]:
    """The signed answer to an envelope that is sent, which is the next thing that comes."""
    await line.send(envelope)
    answer = await line.receive()
    assert answer["reply_to"] == envelope["id"], answer
    assert answer["to"] == [line.peer.did]
    assert answer["sig"].count(".") == 2
    return answer


async def asked(line: SocketLine, content: str, **members: Any) -> str:
    """The stream of an ask that is taken."""
    answer = await answered(line, line.peer.signed(content, **members))
    assert answer["intent"] == "progress", answer
    body = json.loads(answer["body"]["content"])
    assert body["accepted"] is True
    assert answer["stream_id"] == body["stream_id"]
    return body["stream_id"]


async def rest_of(line: SocketLine, stream_id: str, *, ack: bool = True) -> list[dict[str, Any]]:
    """The deltas of a stream up to its end, if no other is told."""
    found: list[dict[str, Any]] = []
    while not found or found[-1]["type"] not in TERMINAL:
        delta = await line.receive()
        assert delta["stream_id"] == stream_id, delta
        found.append(delta)
        if ack and delta["type"] not in TERMINAL:
            await line.send(ack_of(stream_id, delta["delta_seq"]))
    return found


async def test_e50_an_ask_is_answered_on_the_same_socket(envelopes: EnvelopeServer) -> None:
    async with envelopes.socket("ann") as ann:
        stream = await asked(ann, "over a socket")
        deltas = await rest_of(ann, stream)
        assert text_of(deltas) == "echo: over a socket"
    async with envelopes.http("ann") as ann, aclosing(ann.follow(f"/v1/stream/{stream}")) as coming:
        assert [delta async for delta in coming] == deltas


async def test_e50_frames_may_be_split_and_joined(envelopes: EnvelopeServer) -> None:
    """The prefix is big-endian and does not count itself; messages and frames need not coincide."""
    async with envelopes.socket("ann") as ann:
        frames = b""
        envelopes_sent = [ann.peer.signed(f"note {number}", intent="inform") for number in range(3)]
        for envelope in envelopes_sent:
            data = wire(envelope)
            frames += len(data).to_bytes(4, "big") + data
        for piece in (frames[:2], frames[2:500], frames[500:]):
            await ann.socket.send(piece)
        answers = [await ann.receive() for _ in envelopes_sent]
        assert [answer["reply_to"] for answer in answers] == [envelope["id"] for envelope in envelopes_sent]
        assert all("stream_id" not in answer for answer in answers)


async def test_e50_a_text_message_closes_with_1003(envelopes: EnvelopeServer) -> None:
    async with envelopes.socket("ann") as ann:
        await ann.socket.send(wire(ann.peer.signed("hello")).decode())
        assert await closed(ann) == 1003


async def test_e50_a_frame_that_is_too_large_closes_with_1009(envelopes: EnvelopeServer) -> None:
    """As soon as it is announced; a little-endian length is such a one."""
    async with envelopes.socket("ann") as ann:
        data = wire(ann.peer.signed("hello"))
        await ann.socket.send(len(data).to_bytes(4, "little") + data)
        refusal = await ann.receive()
        assert (refusal["intent"], json.loads(refusal["body"]["content"])["code"]) == ("error", "4.13")
        assert await closed(ann) == 1009


async def test_e50_who_is_not_known_has_no_socket(envelopes: EnvelopeServer) -> None:
    for bearer, status in ((None, 401), ("pdk_x", 401)):
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with envelopes.socket("ann", bearer=bearer):
                pass
        response = refused.value.response
        assert response.status_code == status
        assert json.loads(response.body)["code"] == "4.01"
        assert response.headers["www-authenticate"].startswith("Bearer")


async def test_e50_a_certificate_opens_a_socket(envelopes: EnvelopeServer) -> None:
    certificate = envelopes.certificates.client("did:web:ann.example")
    async with envelopes.socket("ann", bearer=None, certificate=certificate) as ann:
        await asked(ann, "by certificate")


async def test_e50_refusals_are_signed_and_leave_the_socket_open(envelopes: EnvelopeServer) -> None:
    """But for those that say that the peer may not be here."""
    async with envelopes.socket("ann") as ann:
        for sent, code in (
            (ann.peer.signed("x", intent="cancel", reply_to=ann.peer.signed()["id"]), "4.04"),
            (ann.peer.signed(body={"type": "video/mp4", "content": "x"}), "4.15"),
        ):
            refusal = await answered(ann, sent)
            error = json.loads(refusal["body"]["content"])
            assert (refusal["intent"], error["code"], error["retryable"]) == ("error", code, False)
        for frame in (b"{", b"[]", b'{"a":1}'):
            await ann.send(frame)
            refusal = await ann.receive()
            assert json.loads(refusal["body"]["content"])["code"] == "4.00"
        forged = ann.peer.signed("a")
        forged["body"] = {"type": "text/plain", "content": "b"}
        refusal = await answered(ann, forged)
        assert json.loads(refusal["body"]["content"])["code"] == "4.01"
        assert await closed(ann) == 4401


async def test_e50_a_bad_delta_is_refused(envelopes: EnvelopeServer) -> None:
    async with envelopes.socket("ann") as ann:
        stream = await asked(ann, WORDS, delta_window=2)
        bad = {**ack_of(stream, 0), "type": "done"}
        await ann.send(bad)
        await ann.send(ack_of(stream, 500))
        await ann.send(ack_of("nobodys", 0))
        refusals = [message for message in [await ann.receive() for _ in range(5)] if "intent" in message]
        codes = [json.loads(refusal["body"]["content"])["code"] for refusal in refusals]
        assert codes == ["4.00", "4.00", "4.04"]
        assert [refusal["stream_id"] for refusal in refusals] == [stream, stream, "nobodys"]


async def test_e50_several_streams_share_a_socket_and_one_that_waits_keeps_none(envelopes: EnvelopeServer) -> None:
    """A stream whose window is full holds neither the other nor what is read."""
    async with envelopes.socket("ann") as ann:
        slow = await asked(ann, WORDS, delta_window=1)
        first = await ann.receive()
        assert (first["stream_id"], first["delta_seq"]) == (slow, 0)
        quick = await asked(ann, "quick")
        assert text_of(await rest_of(ann, quick)) == "echo: quick"
        assert text_of([first, *await self_acked(ann, slow)]) == f"echo: {WORDS}"


async def self_acked(line: SocketLine, stream_id: str) -> list[dict[str, Any]]:
    """The rest of a stream whose first delta was not ACKed yet."""
    await line.send(ack_of(stream_id, 0))
    return await rest_of(line, stream_id)


async def test_e50_another_socket_goes_on_with_a_stream(envelopes: EnvelopeServer) -> None:
    """An ACK of a stream that is not told here has it told, behind what it names; also if it is over."""
    async with envelopes.socket("ann") as ann:
        stream = await asked(ann, WORDS, delta_window=2)
        before = [await ann.receive(), await ann.receive()]
    async with envelopes.socket("ann") as ann:
        await ann.send(ack_of(stream, 0))
        after = await rest_of(ann, stream)
        assert text_of([before[0], *after]) == f"echo: {WORDS}"
        assert after[0] == before[1]
    async with envelopes.socket("ann") as ann:
        await ann.send(ack_of(stream, len(after) - 1))
        assert await rest_of(ann, stream) == after[-1:]
    async with envelopes.socket("bob") as bob:
        await bob.send(ack_of(stream, 0))
        refusal = await bob.receive()
        assert json.loads(refusal["body"]["content"])["code"] in ("4.03", "4.04")


async def test_e50_a_socket_goes_on_with_a_stream_of_which_nothing_came(envelopes: EnvelopeServer) -> None:
    async with envelopes.http("ann") as ann:
        stream = (await ann.ask(WORDS)).stream_id
    async with envelopes.socket("ann") as ann:
        await ann.send({**ack_of(stream, 0), "payload": {}})
        assert text_of(await rest_of(ann, stream)) == f"echo: {WORDS}"


async def test_e50_a_resent_envelope_is_taken_once(envelopes: EnvelopeServer) -> None:
    async with envelopes.socket("ann") as ann:
        envelope = ann.peer.signed("once")
        stream = json.loads((await answered(ann, envelope))["body"]["content"])["stream_id"]
        deltas = await rest_of(ann, stream)
        again = json.loads((await answered(ann, envelope))["body"]["content"])
        assert again["stream_id"] == stream
        assert await rest_of(ann, stream) == deltas


async def test_a_socket_is_closed_with_1012_when_the_server_leaves(envelopes: EnvelopeServer) -> None:
    """A replica that ends says so, and the stream goes on at another."""
    replica = await asyncio.to_thread(envelopes.new_api().wait_ready)
    url = replica.url.replace("127.0.0.1", "localhost")
    async with envelopes.socket("ann", url=url) as ann:
        stream = await asked(ann, WORDS, delta_window=1)
        first = await ann.receive()
        ending = asyncio.create_task(asyncio.to_thread(replica.terminate))
        assert await closed(ann) == 1012
        assert await ending == 0
    async with envelopes.socket("ann") as ann:
        await ann.send(ack_of(stream, 0))
        assert text_of([first, *await rest_of(ann, stream)]) == f"echo: {WORDS}"


async def closed(line: SocketLine) -> int:
    """The code with which the server closes the socket."""
    async with asyncio.timeout(60):
        await line.socket.wait_closed()
    code = line.socket.close_code
    assert code is not None
    return code
