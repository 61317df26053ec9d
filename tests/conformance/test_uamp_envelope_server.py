"""UAMP envelope: the HTTP binding's answers and refusals, and client certificates. Numbers are those of the checklist."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import ssl
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conformance.envelope_lines import HttpLine, problem_of, text_of
from tests.conformance.envelope_peer import MEDIA_TYPE, wire
from tests.conformance.envelope_server import EnvelopeServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

ODD = "str/42 ü?&#%41"


async def test_e29_an_ask_is_accepted_with_the_place_of_its_stream(envelopes: EnvelopeServer) -> None:
    """202 with Location and a body that says the same; the answer comes there."""
    async with envelopes.http("ann") as ann:
        response = await ann.send(ann.peer.signed("hello"))
        assert response.http_version == "HTTP/2"
        body = response.json()
        assert response.headers["location"] == f"/v1/stream/{body['stream_id']}"
        assert set(body) == {"id", "stream_id"}
        async with ann.stream(response.headers["location"]) as stream:
            assert stream.status_code == 200


async def test_e29_a_senders_stream_id_is_kept_and_percent_encoded(envelopes: EnvelopeServer) -> None:
    async with envelopes.http("ann") as ann:
        asked = await ann.ask("hello", stream_id=ODD)
        assert asked.stream_id == ODD
        assert asked.location == f"/v1/stream/{quote(ODD, safe='')}"
        deltas = await ann.deltas(asked)
        assert {delta["stream_id"] for delta in deltas} == {ODD}
        assert text_of(deltas) == "echo: hello"
        taken = problem_of(await ann.post(ann.peer.signed("again", stream_id=ODD)), "4.22", 409)
        assert taken["retryable"] is False


async def test_e34_a_stream_is_its_askers_alone(envelopes: EnvelopeServer) -> None:
    async with envelopes.http("ann") as ann, envelopes.http("bob") as bob:
        asked = await ann.ask("secret")
        async with bob.stream(asked.location) as response:
            assert response.status_code in (403, 404)
            assert b"secret" not in await response.aread()
        ack = bob.peer.signed(
            intent="progress",
            stream_id=asked.stream_id,
            reply_to=asked.envelope["id"],
            body={"type": "application/json", "content": '{"ack":0}'},
        )
        assert (await bob.post(ack)).status_code in (403, 404)
        assert text_of(await ann.deltas(asked)) == "echo: secret"


@pytest.mark.parametrize("length", ["said", "unsaid"])
async def test_e35_a_body_that_is_too_large_is_refused_and_the_connection_lives(
    envelopes: EnvelopeServer, length: str
) -> None:
    """Also one of 6 MiB, of which much still comes after the answer."""

    async def pieces(data: bytes) -> AsyncGenerator[bytes]:
        for at in range(0, len(data), 65_536):
            yield data[at : at + 65_536]

    async with envelopes.http("ann") as ann:
        for size in (2, 6):
            large = wire(ann.peer.signed("x" * size * 1024 * 1024))
            content = large if length == "said" else pieces(large)
            response = await ann.http.post("/v1/messages", content=content, headers={"content-type": MEDIA_TYPE})
            problem = problem_of(response, "4.13", 413)
            assert "PERDURE_UAMP_MAX_ENVELOPE_BYTES" in problem["message"]
        response = await ann.send(ann.peer.signed("small"))
        assert response.status_code == 202
        ports = {response.extensions["network_stream"].get_extra_info("client_addr")}
        after = await ann.send(ann.peer.signed("small again"))
        assert {after.extensions["network_stream"].get_extra_info("client_addr")} == ports


async def test_e35_refusals_before_the_body_was_read_leave_the_connection(envelopes: EnvelopeServer) -> None:
    async with envelopes.http("ann") as ann:
        half = b"x" * 500_000
        answers = await asyncio.gather(
            ann.http.post("/v1/messages", content=half, headers={"content-type": "text/json"}),
            ann.http.post("/v1/messages", content=half, headers={"authorization": "Bearer pdk_x"}),
            ann.http.post("/v1/stream/none", content=half),
            ann.http.post(
                "/v1/messages", content=half, headers={"content-type": MEDIA_TYPE, "content-encoding": "gzip"}
            ),
            ann.send(ann.peer.signed("hello")),
        )
        assert [answer.status_code for answer in answers] == [415, 401, 405, 415, 202]
        assert {answer.http_version for answer in answers} == {"HTTP/2"}
        for answer in answers[:4]:
            assert {"code", "message", "retryable"} <= set(answer.json())


async def test_e37_compressed_bodies_over_http(envelopes: EnvelopeServer) -> None:
    """Gzip and zstd are read; a bomb is refused without being unpacked."""
    import zstandard

    def body(data: bytes, compression: str) -> dict[str, str]:
        packed = gzip.compress(data) if compression == "gzip" else zstandard.compress(data)
        content = base64.urlsafe_b64encode(packed).rstrip(b"=").decode()
        return {"type": "text/plain", "content": content, "encoding": "base64url", "compression": compression}

    async with envelopes.http("ann") as ann:
        for compression in ("gzip", "zstd"):
            asked = await ann.ask(body=body("grüße".encode() * 3, compression))
            assert text_of(await ann.deltas(asked)) == "echo: " + "grüße" * 3
            bomb = body(b"\0" * 64 * 1024 * 1024, compression)
            await ann.refused(ann.peer.signed(body=bomb), "4.13", 413)
        unknown = {"type": "text/plain", "content": "AA", "encoding": "base64url", "compression": "br"}
        await ann.refused(ann.peer.signed(body=unknown), "4.15", 415)


async def test_e53_a_client_certificate_says_who_it_is(envelopes: EnvelopeServer) -> None:
    """By its SAN URI, or by the DNS name of did:web's host; of another authority it does not connect."""
    certificate = envelopes.certificates.client("did:web:ann.example")
    async with envelopes.http("ann", bearer=None, certificate=certificate) as ann:
        assert await ann.answer("by certificate") == "echo: by certificate"
    of_host = envelopes.certificates.client_of_host("ann.example")
    async with envelopes.http("ann", bearer=None, certificate=of_host) as ann:
        await ann.send(ann.peer.signed("by host"))


async def test_e53_without_a_certificate_or_with_anothers_nothing_is_taken(envelopes: EnvelopeServer) -> None:
    async with envelopes.http("ann", bearer=None) as ann:
        response = await ann.post(ann.peer.signed("hello"))
        problem_of(response, "4.01", 401)
        assert response.headers["www-authenticate"].startswith("Bearer")
    bobs = envelopes.certificates.client("did:web:bob.example")
    async with envelopes.http("ann", bearer=None, certificate=bobs) as ann:
        await ann.refused(ann.peer.signed("hello"), "4.03", 403)


async def test_e53_a_certificate_of_an_unknown_authority_fails_in_the_handshake(envelopes: EnvelopeServer) -> None:
    from tests.conformance.envelope_certificates import EnvelopeCertificates

    strange = EnvelopeCertificates(envelopes.stack.folder / "strange-authority", "strangers")
    async with envelopes.http("ann", bearer=None, certificate=strange.client("did:web:ann.example")) as ann:
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            await ann.post(ann.peer.signed("hello"))


async def test_e60_every_error_has_code_message_and_retryable_and_leaks_nothing(envelopes: EnvelopeServer) -> None:
    token = envelopes.tokens["did:web:ann.example"]
    async with envelopes.http("ann") as ann:
        answers = await _faults(ann)
        for answer in answers:
            problem = answer.json()
            assert answer.headers["content-type"] == "application/problem+json"
            assert problem["status"] == answer.status_code
            assert isinstance(problem["message"], str)
            assert isinstance(problem["retryable"], bool)
            assert problem["code"][1] == "."
            for leak in ("Traceback", 'File "', "perdure/", token, ann.peer.key.export_private()[20:40]):
                assert leak not in answer.text
        statuses = [answer.status_code for answer in answers]
        assert statuses == [400, 400, 400, 401, 403, 404, 404, 405, 415, 400]


async def _faults(ann: HttpLine) -> list[httpx.Response]:
    forged: dict[str, Any] = ann.peer.signed("a")
    forged["body"] = {**forged["body"], "content": "b"}
    return [
        await ann.post(b"{"),
        await ann.post(b'{"id":1,"id":2}'),
        await ann.post(json.dumps({**ann.peer.signed("x"), "intent": "shout"}).encode()),
        await ann.post(forged),
        await ann.post(ann.peer.signed("hello", to=["did:web:nobody.example"])),
        await ann.http.get("/v1/stream/none"),
        await ann.http.get("/v1/stream/" + "x" * 200),
        await ann.http.delete("/v1/messages"),
        await ann.post(ann.peer.signed("hello"), content_type="text/plain"),
        await ann.http.get("/v1/stream/none", headers={"last-event-id": "many"}),
    ]
