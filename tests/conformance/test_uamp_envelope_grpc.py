"""Check 51 of UAMP's envelope: the gRPC binding, spoken to by grpcio over TLS: the same deltas, the same refusals, nothing looser."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import grpc
import pytest

from perdure.protocols.uamp_envelope.grpc import uamp_pb2
from tests.conformance.envelope_grpc import ack, followed, refused, told_by
from tests.conformance.envelope_lines import GrpcLine, HttpLine, delta_in, envelope_frame, text_of
from tests.conformance.envelope_peer import wire
from tests.conformance.envelope_server import EnvelopeServer
from tests.conformance.uamp_agents import call, gate, plan
from tests.conformance.uamp_server import new_gate
from tests.integration.api_server import ApiProcess
from tests.integration.stack import eventually

Code = grpc.StatusCode


@pytest.fixture
async def ann(envelopes: EnvelopeServer) -> AsyncGenerator[GrpcLine]:
    async with envelopes.grpc("ann") as line:
        yield line


@pytest.fixture
async def http(envelopes: EnvelopeServer) -> AsyncGenerator[HttpLine]:
    async with envelopes.http("ann") as line:
        yield line


def busy_plan(name: str) -> str:
    """Text, a call of a tool, and more text."""
    return plan({"say": "one two", "calls": [call("weather", city="Oslo")]}, {"say": "three four"}, name=name)


async def test_e51_send_and_stream_give_the_deltas_of_http(ann: GrpcLine, http: HttpLine) -> None:
    """Frame for frame, to the last byte; the whole of it and its rest."""
    sent = ann.peer.signed(busy_plan("send"))
    reply = await ann.send(sent)
    assert (reply.accepted, reply.envelope_id) == (True, sent["id"])
    assert reply.location == f"/v1/stream/{reply.stream_id}"
    deltas = await followed(ann, sent, reply.stream_id)
    assert text_of(deltas) == "one twothree four"
    again = [delta async for delta in http.follow(reply.location)]
    assert again == deltas
    rest = [delta_in(frame) async for frame in ann.stream(reply.stream_id, last=2)]
    assert rest == deltas[3:]
    assert [frame async for frame in ann.stream(reply.stream_id, last=len(deltas) - 1)] == []


async def test_e51_the_same_envelope_by_two_bindings_is_done_once(ann: GrpcLine, http: HttpLine) -> None:
    sent = ann.peer.signed("once")
    by_grpc = await ann.send(sent)
    by_http = await http.send(sent)
    assert by_http.headers["location"] == by_grpc.location
    other = ann.peer.signed("twice", id=sent["id"])
    error = await refused(ann.send(other), "4.22", Code.ALREADY_EXISTS)
    assert error.ref == sent["id"]


async def test_e51_an_envelope_without_a_stream_has_none(ann: GrpcLine) -> None:
    reply = await ann.send(ann.peer.signed(intent="inform"))
    assert (reply.accepted, reply.stream_id, reply.location) == (True, "", "")


async def test_e51_connect_carries_envelopes_acks_and_deltas(
    envelopes: EnvelopeServer, ann: GrpcLine, http: HttpLine
) -> None:
    """Two streams at once on one call: a signed receipt for each, then their deltas; with a window of 1 each needs its ACK."""
    calling = ann.connect()
    asks = [ann.peer.signed(busy_plan(name), delta_window=1) for name in ("first", "second")]
    for sent in asks:
        await calling.write(uamp_pb2.Frame(envelope=envelope_frame(sent)))
    streams: dict[str, str] = {}
    deltas: dict[str, list[dict[str, Any]]] = {}
    number = 0
    while sum(found[-1]["type"] == "done" for found in deltas.values()) < 2:
        frame = await calling.read()
        if frame.WhichOneof("frame") == "envelope":
            receipt = json.loads(frame.envelope.json)
            assert receipt["intent"] == "progress"
            streams[receipt["reply_to"]] = receipt["stream_id"]
            continue
        delta = delta_in(frame)
        deltas.setdefault(delta["stream_id"], []).append(delta)
        await calling.write(ack(envelopes, delta["stream_id"], delta["delta_seq"], number))
        number += 1
    await calling.done_writing()
    for sent in asks:
        found = deltas[streams[sent["id"]]]
        assert text_of(found) == "one twothree four"
        assert [delta async for delta in http.follow(f"/v1/stream/{streams[sent['id']]}")] == found


async def test_e51_a_window_holds_by_grpc_too(envelopes: EnvelopeServer, ann: GrpcLine) -> None:
    """Four frames go out without an ACK and no fifth; an ACK of the last lets the rest out, by another binding as well."""
    sent = ann.peer.signed(
        plan(*({"calls": [call("weather", city="Oslo")]} for _ in range(6)), {"say": "end"}), delta_window=4
    )
    stream_id = (await ann.send(sent)).stream_id
    calling = ann.stream(stream_id)
    first = [delta_in(await calling.read()) for _ in range(4)]
    assert [delta["delta_seq"] for delta in first] == [0, 1, 2, 3]
    fifth = asyncio.ensure_future(calling.read())
    assert not (await asyncio.wait([fifth], timeout=0.7))[0]
    await ann.send(ann.peer.ack(sent, stream_id, 3))
    assert delta_in(await fifth)["delta_seq"] == 4
    calling.cancel()
    async with envelopes.http("ann") as http, aclosing(http.follow(f"/v1/stream/{stream_id}", last=4)) as rest:
        assert [(await anext(rest))["delta_seq"] for _ in range(4)] == [5, 6, 7, 8]


async def test_e51_a_smaller_window_can_be_asked_for(ann: GrpcLine) -> None:
    sent = ann.peer.signed(plan(*({"calls": [call("weather", city="Oslo")]} for _ in range(3)), {"say": "end"}))
    stream_id = (await ann.send(sent)).stream_id
    calling = ann.stream(stream_id, window=2)
    assert [delta_in(await calling.read())["delta_seq"] for _ in range(2)] == [0, 1]
    third = asyncio.ensure_future(calling.read())
    assert not (await asyncio.wait([third], timeout=0.7))[0]
    calling.cancel()
    await refused(ann.stream(stream_id, window=0).read(), "4.00", Code.INVALID_ARGUMENT)


async def test_e51_hints_must_say_what_the_json_says(envelopes: EnvelopeServer, ann: GrpcLine) -> None:
    """A refused frame ends nothing: the call goes on."""
    held = new_gate()
    sent = ann.peer.signed(plan({"say": ["a ", gate(held), "b"]}), delta_window=8)
    calling = ann.connect()
    await calling.write(uamp_pb2.Frame(envelope=envelope_frame(sent)))
    receipt = json.loads((await calling.read()).envelope.json)
    stream_id = receipt["stream_id"]
    while delta_in(await calling.read())["type"] != "chunk":
        pass  # behind it nothing comes until the gate is open
    wrong = (
        ack(envelopes, stream_id, 0, hints={"delta_seq": 1}),
        ack(envelopes, stream_id, 0, hints={"stream_id": "another"}),
        uamp_pb2.Frame(delta=uamp_pb2.DeltaFrame(json=b"{}", delta_seq=0, stream_id=stream_id)),
        uamp_pb2.Frame(envelope=envelope_frame(ack(envelopes, stream_id, 0).delta.json)),
        uamp_pb2.Frame(),
    )
    for frame in wrong:
        await calling.write(frame)
        told = await asyncio.wait_for(calling.read(), 90)
        assert (told.WhichOneof("frame"), told.error.code, told.error.retryable) == ("error", "4.00", False)
    await calling.write(uamp_pb2.Frame(envelope=envelope_frame(ann.peer.signed(intent="inform"), "application/json")))
    assert (await calling.read()).error.code == "4.15"
    await calling.write(ack(envelopes, stream_id, 9))
    told = await calling.read()
    assert told.error.code == "4.00", "an ACK of a frame that was not sent"
    envelopes.open_gate(held)
    types: list[str] = []
    while types[-1:] != ["done"]:
        types.append(delta_in(await calling.read())["type"])


async def test_e51_refusals_are_a_status_with_the_error_object(envelopes: EnvelopeServer, ann: GrpcLine) -> None:
    changed = {**ann.peer.signed(), "body": {"type": "text/plain", "content": "other"}}
    await refused(ann.send(changed), "4.01", Code.UNAUTHENTICATED)
    error = await refused(ann.send(ann.peer.signed(to=["did:web:elsewhere.example"])), "4.03", Code.PERMISSION_DENIED)
    assert error.ref.startswith("urn:uuid:")
    await refused(ann.send(b"{}"), "4.00", Code.INVALID_ARGUMENT)
    await refused(ann.send(ann.peer.signed(), "application/json"), "4.15", Code.UNIMPLEMENTED)
    await refused(ann.send(ann.peer.signed(), ""), "4.15", Code.UNIMPLEMENTED)
    await refused(ann.stream("nothing").read(), "4.04", Code.NOT_FOUND)
    await refused(ann.stream("").read(), "4.00", Code.INVALID_ARGUMENT)
    await refused(ann.send(ann.peer.cancel(ann.peer.signed())), "4.04", Code.NOT_FOUND)
    sent = ann.peer.signed()
    stream_id = (await ann.send(sent)).stream_id
    await refused(ann.stream(stream_id, last=10_000).read(), "4.00", Code.INVALID_ARGUMENT)
    await refused(ann.stream(stream_id, last=2**64 - 1).read(), "4.00", Code.INVALID_ARGUMENT)
    async with envelopes.grpc("bob") as bob:
        await refused(bob.stream(stream_id).read(), "4.04", Code.NOT_FOUND)
        await refused(bob.send(sent), "4.03", Code.PERMISSION_DENIED)


async def test_e51_a_forgery_ends_the_call(envelopes: EnvelopeServer, ann: GrpcLine) -> None:
    """On a two-way call as on a WebSocket: who sends what it did not sign has lost its connection."""
    calling = ann.connect()
    changed = {**ann.peer.signed(), "body": {"type": "text/plain", "content": "other"}}
    await calling.write(uamp_pb2.Frame(envelope=envelope_frame(changed)))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await calling.read()
    told_by(caught.value, "4.01", Code.UNAUTHENTICATED)


async def test_e55_the_manifest_comes_by_grpc_too(ann: GrpcLine, http: HttpLine) -> None:
    by_grpc, by_http = await ann.manifest(), (await http.http.get("/.well-known/agent-manifest.json")).text
    assert by_grpc.split(".")[:2] == by_http.split(".")[:2]


async def test_e51_the_server_goes_on_after_a_client_that_vanishes(envelopes: EnvelopeServer, ann: GrpcLine) -> None:
    """What was asked is done, and read by another connection."""
    held = new_gate()
    sent = ann.peer.signed(plan({"say": ["a ", gate(held), "b"]}))
    async with envelopes.grpc("ann") as line:
        calling = line.connect()
        await calling.write(uamp_pb2.Frame(envelope=envelope_frame(wire(sent))))
        stream_id = json.loads((await calling.read()).envelope.json)["stream_id"]
        await calling.read()
    envelopes.open_gate(held)
    assert text_of(await followed(ann, sent, stream_id)) == "a b"


async def test_e51_a_server_that_ends_says_so_and_another_goes_on(envelopes: EnvelopeServer) -> None:
    """A replica at a port of its own, which it says; told to end, it tells the open streams to be taken up elsewhere."""
    replica = await asyncio.to_thread(envelopes.new_api(PERDURE_UAMP_GRPC_PORT="0").wait_ready)
    try:
        said = await eventually(lambda: _said(replica), what="the port of gRPC")
        held = new_gate()
        async with envelopes.grpc("ann", target=f"localhost:{said}") as there, envelopes.grpc("ann") as here:
            sent = there.peer.signed(plan({"say": ["a ", gate(held), "b"]}))
            stream_id = (await there.send(sent)).stream_id
            reading, connected = there.stream(stream_id), there.connect()
            found = [delta_in(await reading.read())]
            while found[-1]["type"] != "chunk":
                found.append(delta_in(await reading.read()))
            await connected.write(ack(envelopes, stream_id, found[-1]["delta_seq"]))
            ending = asyncio.create_task(asyncio.to_thread(replica.terminate))
            error = await refused(reading.read(), "5.04", Code.UNAVAILABLE)
            assert error.retryable
            assert await connected.code() is Code.UNAVAILABLE
            assert await ending == 0
            envelopes.open_gate(held)
            rest = [delta_in(frame) async for frame in here.stream(stream_id, last=found[-1]["delta_seq"])]
            assert text_of(found + rest) == "a b"
    finally:
        replica.kill()


async def _said(replica: ApiProcess) -> str | None:
    found = re.search(r"gRPC ready: \S+:(\d+)", replica.said)
    return None if found is None else found[1]
