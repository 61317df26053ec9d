"""The client of the envelope against the real server, by every binding."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import RunCancelled
from perdure.protocols.uamp_envelope.keys import signing_key
from perdure.uamp_envelope_client import (
    Binding,
    ClientCertificate,
    Delta,
    DeltaType,
    EnvelopeClient,
    Identity,
    Patience,
    UAMPError,
    UnsignedError,
    UntrustedServer,
)
from tests.conformance.envelope_certificates import EnvelopeCertificates
from tests.conformance.envelope_server import EnvelopeServer, envelope_server
from tests.conformance.uamp_agents import gate, plan
from tests.integration.envelope_meddler import cutting, meddling
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")
every_binding = pytest.mark.parametrize("binding", ["h2", "h3", "ws", "grpc"])


@pytest.fixture(scope="module")
def server(stack: Stack) -> Iterator[EnvelopeServer]:
    """The server that is asked."""
    with envelope_server(stack) as served:
        yield served


@pytest.fixture
def restarted(stack: Stack) -> Iterator[EnvelopeServer]:
    """A server of its own, for a test that ends it."""
    with envelope_server(stack) as served:
        yield served


@asynccontextmanager
async def client_of(
    server: EnvelopeServer, binding: Binding = "h2", *, peer: str = "ann", url: str | None = None, **more: Any
) -> AsyncGenerator[EnvelopeClient]:
    """A client in the name of a peer that the server knows."""
    who = server.peers[peer]
    key = signing_key(who.kid, json.loads(who.key.export_private()))
    options: dict[str, Any] = {"bearer": server.tokens[who.did], "trust": server.certificates.authority} | more
    place = url or (f"https://{server.grpc_target}" if binding == "grpc" else server.url)
    async with EnvelopeClient(place, identity=Identity(who.did, key), binding=binding, **options) as client:
        yield client


@every_binding
async def test_an_ask_is_answered_with_a_signature(server: EnvelopeServer, binding: Binding) -> None:
    """The answer is the agent's, and its signature over all frames verifies against its DID document."""
    async with client_of(server, binding) as client:
        answer = await client.ask("hello", to=server.did)
    assert answer.text == "echo: hello"
    assert answer.is_signed


@every_binding
async def test_a_thousand_deltas_come_through_a_window_of_four(server: EnvelopeServer, binding: Binding) -> None:
    """Each frame comes once and in order; the client ACKs by itself, or the stream would stand still."""
    said = [f"w{number} " for number in range(1000)]
    async with client_of(server, binding) as client:
        sent = await client.send("ask", plan({"say": said}), to=server.did, delta_window=4)
        consumer = client.consumer(sent)
        async with aclosing(consumer.frames()) as frames:
            found = [delta async for delta in frames]
    assert [delta.seq for delta in found] == list(range(len(found)))
    assert text_of(found) == "".join(said)
    assert found[-1].type is DeltaType.DONE
    assert consumer.is_signed


async def test_a_client_certificate_is_enough(server: EnvelopeServer) -> None:
    """Without a token, the certificate's name is who asks."""
    shown = server.certificates.client(server.peers["ann"].did)
    certificate = ClientCertificate(shown.cert, shown.key)
    async with client_of(server, bearer=None, client_certificate=certificate) as client:
        assert (await client.ask("hi", to=server.did_of("assistant"))).text == "echo: hi"


@pytest.mark.parametrize("binding", ["h2", "ws", "grpc"])
async def test_a_stream_goes_on_after_its_connection_was_cut(server: EnvelopeServer, binding: Binding) -> None:
    """Nothing is lost or repeated, and the signature is over all of it."""
    name = uuid.uuid4().hex
    said = [*(f"a{number} " for number in range(10)), gate(name), *(f"b{number} " for number in range(10))]
    target = f"https://{server.grpc_target}" if binding == "grpc" else server.url
    async with cutting(target) as cutter, client_of(server, binding, url=cutter.url) as client:
        sent = await client.send("ask", plan({"say": said}), to=server.did, delta_window=4)
        consumer = client.consumer(sent)
        found: list[Delta] = []
        async with aclosing(consumer.frames()) as frames:
            async for delta in frames:
                found.append(delta)
                if "a9" in text_of(found) and "b0" not in text_of(found):
                    cutter.cut()
                    server.open_gate(name)
    assert [delta.seq for delta in found] == list(range(len(found)))
    assert text_of(found) == "".join(part for part in said if isinstance(part, str))
    assert consumer.is_signed
    assert cutter.connections > 1


@pytest.mark.parametrize("binding", ["h2", "ws", "grpc"])
async def test_a_stream_is_read_by_another_connection_than_its_ask(server: EnvelopeServer, binding: Binding) -> None:
    """From its beginning, and from behind what another process has had."""
    async with client_of(server, binding) as first:
        sent = await first.send("ask", plan({"say": ["a ", "b ", "c"], "think": "hm"}), to=server.did)
        had = [delta async for delta in first.stream(sent)]
    async with client_of(server, binding) as other:
        assert [delta async for delta in other.stream(sent)] == had
        assert (await other.answer(sent)).is_signed
        consumer = other.consumer(sent, already=had[:1])
        assert [delta async for delta in consumer.frames()] == had[1:]
        assert consumer.is_signed


async def test_a_stream_of_http3_goes_on_after_the_server_was_restarted(restarted: EnvelopeServer) -> None:
    """QUIC's connection is gone with the server; a new one brings what follows."""
    name = uuid.uuid4().hex
    async with client_of(restarted, "h3") as client:
        sent = await client.send("ask", plan({"say": ["before ", gate(name), "after"]}), to=restarted.did)
        consumer, found = client.consumer(sent), list[Delta]()
        async with aclosing(consumer.frames()) as frames:
            async for delta in frames:
                found.append(delta)
                if text_of(found) == "before " and delta.type is DeltaType.CHUNK:
                    await asyncio.to_thread(restarted.restart)
                    restarted.open_gate(name)
    assert text_of(found) == "before after"
    assert [delta.seq for delta in found] == list(range(len(found)))
    assert consumer.is_signed


async def test_a_changed_frame_is_noticed(server: EnvelopeServer) -> None:
    """Whoever ends TLS in between and changes a word is found out by the signature at the end."""
    async with meddling(server.url, server.certificates) as meddler, client_of(server, url=meddler.url) as client:
        assert (await client.ask("honest words", to=server.did)).text == "echo: honest words"
        meddler.bend = lambda data: data.replace(b"honest", b"wicked")
        with pytest.raises(UAMPError, match="not those that were signed") as caught:
            await client.ask("honest words", to=server.did)
    assert caught.value.code == "4.01"


async def test_a_lost_answer_is_asked_for_with_the_same_envelope(server: EnvelopeServer) -> None:
    """The server has run it once, and answers the second one as the first."""
    async with meddling(server.url, server.certificates) as meddler, client_of(server, url=meddler.url) as client:
        meddler.losses = 2
        answer = await client.ask("once", to=server.did)
    assert answer.text == "echo: once"
    assert len({body for body in meddler.posted if b'"ask"' in body}) == 1
    assert sum(b'"ask"' in body for body in meddler.posted) == 3


async def test_a_busy_server_is_waited_for_and_not_for_ever(server: EnvelopeServer) -> None:
    """5.04 and 4.29 are waited for as they ask; for longer than patience lasts they are an error that nobody signed."""
    busy = (503, {"Retry-After": "0"}, b'{"code":"5.04","message":"busy","retryable":true}')
    rate = (429, {"Retry-After": "1"}, b"<html>slow down</html>")
    patience = Patience(busy=timedelta(seconds=60))
    async with (
        meddling(server.url, server.certificates) as meddler,
        client_of(server, url=meddler.url, patience=patience) as client,
    ):
        meddler.refusals = [busy, rate, busy]
        assert (await client.ask("patience", to=server.did)).text == "echo: patience"
        meddler.refusals = [(503, {"Retry-After": "3600"}, b"")]
        with pytest.raises(UnsignedError) as caught:
            await client.ask("patience", to=server.did)
    assert (caught.value.code, caught.value.retry_after) == ("5.04", timedelta(hours=1))


@every_binding
async def test_a_refusal_is_not_the_agents_word(server: EnvelopeServer, binding: Binding) -> None:
    """It has its code by every binding, and is not tried again."""
    async with client_of(server, binding) as client:
        with pytest.raises(UnsignedError) as caught:
            await client.send("ask", "hi", to="did:web:elsewhere.example")
        assert caught.value.code == "4.03"
        with pytest.raises(UnsignedError) as caught:
            await client.send("cancel", "", to=server.did, stream_id="nothing-here")
        assert caught.value.code == "4.04"
        assert (await client.ask("still here", to=server.did)).text == "echo: still here"


@every_binding
async def test_a_cancelled_ask_ends_as_cancelled(server: EnvelopeServer, binding: Binding) -> None:
    name = uuid.uuid4().hex
    async with client_of(server, binding) as client:
        sent = await client.send("ask", plan({"say": ["one ", gate(name), "two"]}), to=server.did)
        await client.cancel(sent)
        with pytest.raises(RunCancelled):
            await client.answer(sent)


@pytest.mark.parametrize("binding", ["h2", "h3", "ws", "grpc"])
async def test_a_server_of_another_authority_is_not_talked_to(
    server: EnvelopeServer, binding: Binding, tmp_path: Path
) -> None:
    """TLS that is refused is told at once, not tried again for a minute."""
    other = EnvelopeCertificates(tmp_path)
    async with client_of(server, binding, trust=other.authority) as client:
        with pytest.raises(UntrustedServer):
            await client.send("ask", "hi", to=server.did)


@every_binding
async def test_a_wrong_token_is_refused(server: EnvelopeServer, binding: Binding) -> None:
    async with client_of(server, binding, bearer="pk_wrong") as client:
        with pytest.raises(UnsignedError) as caught:
            await client.send("ask", "hi", to=server.did)
    assert caught.value.code == "4.01"


async def test_the_manifest_and_the_hub_are_read(server: EnvelopeServer) -> None:
    """The manifest is the default agent's; the hub lists all agents, and each manifest verifies."""
    async with client_of(server) as client:
        manifest, hub = await client.manifest(), await client.hub()
    assert manifest.did == server.did
    assert manifest.value["agent"] == "uamp/1.0"
    assert hub.did == server.did
    assert {item.child.did for item in hub.listed} >= {server.did, server.did_of("assistant")}
    assert [item.fault for item in hub.listed if item.fault] == []


def text_of(frames: list[Delta]) -> str:
    """The text of the chunks among frames."""
    return "".join(str(delta.payload["text"]) for delta in frames if delta.type is DeltaType.CHUNK)
