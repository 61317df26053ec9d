"""UAMP envelope: what carries envelopes and what does not: TLS, versions of HTTP, QUIC. Numbers are those of the checklist."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from typing import cast

import httpx
import pytest
import websockets

from tests.conformance.envelope_lines import problem_of
from tests.conformance.envelope_peer import MEDIA_TYPE, wire
from tests.conformance.envelope_quic import quic_line
from tests.conformance.envelope_server import EnvelopeServer
from tests.conformance.uamp_wire import PATIENCE
from tests.integration.api_server import ApiProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_e48_tls_below_1_3_fails(envelopes: EnvelopeServer, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context(cafile=str(envelopes.certificates.authority))
    context.minimum_version = context.maximum_version = version
    port = int(envelopes.host.rpartition(":")[2])
    connecting = asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    if version is ssl.TLSVersion.TLSv1_3:
        _, writer = await connecting
        writer.close()
    else:
        with pytest.raises((ssl.SSLError, ConnectionError)):  # or it is gone before the alert is read
            await connecting


async def test_e48_plain_http_on_the_port_fails(envelopes: EnvelopeServer) -> None:
    async with httpx.AsyncClient(base_url=envelopes.url.replace("https", "http", 1), timeout=60) as plain:
        with pytest.raises(httpx.TransportError):
            await plain.post("/v1/messages", content=b"{}")


async def test_e48_http_1_is_refused_unless_allowed(envelopes: EnvelopeServer) -> None:
    """On the door's paths alone; the WebSocket's upgrade is one of HTTP/1.1 and is taken."""
    async with envelopes.http("ann", http1=True) as ann:
        response = await ann.post(ann.peer.signed("hello"))
        assert response.http_version == "HTTP/1.1"
        problem_of(response, "4.00", 426)
        assert response.headers["upgrade"] == "HTTP/2.0"
        assert (await ann.http.get("/v1/stream/x")).status_code == 426
        assert (await ann.http.get("/health")).status_code == 200
    async with envelopes.socket("ann") as ann:
        assert ann.socket.response is not None
        assert ann.socket.response.status_code == 101


async def test_e48_http_1_over_tls_is_taken_where_it_is_allowed(envelopes: EnvelopeServer) -> None:
    replica = await asyncio.to_thread(envelopes.new_api(PERDURE_UAMP_ALLOW_HTTP1="1").wait_ready)
    url = replica.url.replace("127.0.0.1", "localhost")
    async with envelopes.http("ann", url=url, http1=True) as ann:
        response = await ann.send(ann.peer.signed("hello"))
        assert response.http_version == "HTTP/1.1"
        async with ann.stream(response.headers["location"]) as stream:
            assert stream.status_code == 200
    await asyncio.to_thread(replica.kill)


async def test_e48_a_server_without_tls_takes_no_envelopes(envelopes: EnvelopeServer) -> None:
    """Not on this machine either, by whichever version of HTTP."""
    plain = await asyncio.to_thread(ApiProcess(envelopes.stack, PERDURE_DATABASE_URL=envelopes.database_url).wait_ready)
    for is_newer in (False, True):
        headers = {"authorization": f"Bearer {envelopes.tokens['did:web:ann.example']}", "content-type": MEDIA_TYPE}
        async with httpx.AsyncClient(
            base_url=plain.url, headers=headers, http1=not is_newer, http2=is_newer, timeout=60
        ) as http:
            refused = await http.post("/v1/messages", content=wire(envelopes.peers["ann"].signed("hello")))
            problem_of(refused, "4.01", 426)
    with pytest.raises(websockets.InvalidStatus) as answered:
        await websockets.connect(f"{plain.url.replace('http', 'ws', 1)}/uamp/1/ws", **PATIENCE)
    assert answered.value.response.status_code == 426
    await asyncio.to_thread(plain.kill)


async def test_e49_alpn_negotiates_h2_and_tells_of_h3(envelopes: EnvelopeServer) -> None:
    context = envelopes.certificates.trust()
    context.set_alpn_protocols(["h2"])
    port = int(envelopes.host.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    secured = cast(ssl.SSLObject, writer.get_extra_info("ssl_object"))
    assert (secured.selected_alpn_protocol(), secured.version()) == ("h2", "TLSv1.3")
    writer.close()
    async with envelopes.http("ann") as ann:
        response = await ann.http.get("/health")
        assert f'h3=":{port}"' in response.headers["alt-svc"]


async def test_e49_http_3_gives_the_same_deltas(envelopes: EnvelopeServer) -> None:
    """Posted over HTTP/3, read over it and over HTTP/2; resumed by Last-Event-ID; past the end 204."""
    ann = envelopes.peers["ann"]
    async with quic_line(envelopes.url, envelopes.certificates.authority, envelopes.tokens[ann.did]) as line:
        posted = await line.request("POST", "/v1/messages", wire(ann.signed("over quic")), content_type=MEDIA_TYPE)
        assert posted.status == 202
        location = posted.headers["location"]
        over_quic = await line.request("GET", location)
        assert over_quic.headers["content-type"].startswith("text/event-stream")
        deltas = [delta for _, delta in over_quic.events]
        assert [ident for ident, _ in over_quic.events] == [str(number) for number in range(len(deltas))]
        assert deltas[-1]["type"] == "done"
        async with envelopes.http("ann") as http:
            assert [delta async for delta in http.follow(location)] == deltas
        rest = await line.request("GET", location, last_event_id="0")
        assert [delta for _, delta in rest.events] == deltas[1:]
        past = await line.request("GET", location, last_event_id=str(len(deltas) - 1))
        assert (past.status, past.body) == (204, b"")


async def test_e49_over_http_3_too_large_bodies_and_readers_that_leave_end_nothing(envelopes: EnvelopeServer) -> None:
    ann = envelopes.peers["ann"]
    async with quic_line(envelopes.url, envelopes.certificates.authority, envelopes.tokens[ann.did]) as line:
        large = await line.request("POST", "/v1/messages", b"x" * 2_000_000, content_type=MEDIA_TYPE)
        assert (large.status, large.json["code"]) == (413, "4.13")
        words = " ".join(["word"] * 200)
        posted = await line.request(
            "POST", "/v1/messages", wire(ann.signed(words, delta_window=1)), content_type=MEDIA_TYPE
        )
        some = await line.request("GET", posted.headers["location"], until=1)
        line.leave(some.stream)
        again = await line.request("GET", posted.headers["location"], until=1)
        assert again.events[0] == some.events[0]
        line.leave(again.stream)
        assert (await line.request("GET", "/health")).status == 200


async def test_e49_what_strangers_send_to_the_udp_port_ends_nothing(envelopes: EnvelopeServer) -> None:
    """Datagrams that are none of QUIC's, beginnings that go nowhere, and a path that is no text."""
    ann = envelopes.peers["ann"]
    place = ("127.0.0.1", int(envelopes.host.rpartition(":")[2]))
    noise = random.Random(7)
    async with quic_line(envelopes.url, envelopes.certificates.authority, envelopes.tokens[ann.did]) as line:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for size in (0, 1, 20, 1200, 1400):
                for first in (b"\x00", b"\x40", b"\xc0\x00\x00\x00\x01\x08", b"\xff"):
                    stranger.sendto(first + noise.randbytes(size), place)
        async with quic_line(envelopes.url, envelopes.certificates.authority, None) as other:
            with pytest.raises((TimeoutError, ConnectionError, AssertionError)):
                await other.request("GET", "/\u00e9\u20ac", seconds=3)
        assert (await line.request("GET", "/health")).status == 200


async def test_e49_http_3_takes_no_stranger(envelopes: EnvelopeServer) -> None:
    ann = envelopes.peers["ann"]
    async with quic_line(envelopes.url, envelopes.certificates.authority, None) as line:
        refused = await line.request("POST", "/v1/messages", wire(ann.signed("hello")), content_type=MEDIA_TYPE)
        assert (refused.status, refused.json["code"]) == (401, "4.01")
        assert refused.headers["www-authenticate"].startswith("Bearer")


async def test_a_server_that_ends_waits_for_no_reader(envelopes: EnvelopeServer) -> None:
    """Streams that are open by HTTP/2, HTTP/3 and WebSocket, and a client that reads nothing, are let go of at once."""
    replica = await asyncio.to_thread(envelopes.new_api(PERDURE_SHUTDOWN_GRACE="600").wait_ready)
    url = replica.url.replace("127.0.0.1", "localhost")
    ann = envelopes.peers["ann"]
    async with (
        quic_line(url, envelopes.certificates.authority, envelopes.tokens[ann.did]) as line,
        envelopes.http("ann", url=url) as http,
        envelopes.socket("ann", url=url) as line_of_socket,
    ):
        asked = await http.ask("one two three", delta_window=1)
        await line.request("GET", asked.location, until=1)
        await line_of_socket.send(ann.signed("one two three", delta_window=1))
        async with http.stream(asked.location) as stream:
            assert stream.status_code == 200
            assert await asyncio.to_thread(replica.terminate, 120) == 0


async def test_e49_a_large_body_goes_both_ways_over_http_3(envelopes: EnvelopeServer) -> None:
    """More than the transport takes at once."""
    data = random.Random(49).randbytes(700_000)
    key = await envelopes.bearer("an operator", "admin")
    async with quic_line(envelopes.url, envelopes.certificates.authority, key) as line:
        stored = await line.request("POST", "/api/content", data, content_type="image/png")
        assert stored.status == 201
        assert (await line.request("GET", stored.json["url"])).body == data
