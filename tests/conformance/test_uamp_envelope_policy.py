"""Checks 54 and 57: capability tokens, and that a strict server does what its manifest says. Check 58: what a hub is told to list."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from jwcrypto import jwk

from tests.conformance.envelope_lines import HttpLine
from tests.conformance.envelope_peer import Envelope, Peer, new_key, wire
from tests.conformance.envelope_server import EnvelopeServer, envelope_server
from tests.conformance.envelope_tokens import Issuer
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

ISSUER = Issuer()
KIB = 4
RATE = 5
BASE_URL = "https://this.server"
PEER = "did:web:ann.example"
ELSEWHERE = {"did": "did:web:elsewhere.example", "url": "https://elsewhere.example/.well-known/agent-manifest.json"}
ANCHOR = {"type": "did", "value": "did:web:root.example"}


@pytest.fixture(scope="module")
def strict(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnvelopeServer]:
    """A server that takes no certificates, needs capability tokens, and takes little."""
    folder = tmp_path_factory.mktemp("policy")
    hub = folder / "hub.json"
    hub.write_text(json.dumps({"manifests": [ELSEWHERE], "trust_anchors": [ANCHOR]}))
    with envelope_server(
        stack,
        uamp_client_ca=None,
        uamp_token_issuers=ISSUER.write_issuers(folder / "issuers.json"),
        uamp_needs_cap_token=True,
        uamp_max_envelope_bytes=KIB * 1024,
        uamp_rate_per_hour=RATE,
        uamp_hub=hub,
    ) as ours:
        yield ours


@pytest.fixture(autouse=True)
def fresh(strict: EnvelopeServer) -> None:
    """Each test has an hour of its own."""
    strict.clock.advance(timedelta(hours=2))


def cap_token(server: EnvelopeServer, peer: Peer, *, key: jwk.JWK | None = None, **changes: Any) -> str:
    claims = {"aud": server.did, "sub": peer.did, "scope": "uamp:inform", "exp": int(server.clock().timestamp()) + 300}
    return ISSUER.token({**claims, **changes}, key=key)


@asynccontextmanager
async def informing(server: EnvelopeServer) -> AsyncGenerator[tuple[HttpLine, Peer]]:
    async with server.http("ann") as line:
        yield line, line.peer


def inform(peer: Peer, token: str | None, content: str = "hello", **members: Any) -> Envelope:
    return peer.signed(content, **{"intent": "inform", "cap_token": token, **members})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aud": ["https://other.example", BASE_URL]},
        {"sub": None, "client_id": PEER},
        {"scope": "other uamp:*"},
        {"scope": "uamp:inform uamp-body:text/plain"},
    ],
)
async def test_e54_a_good_token_lets_an_envelope_in(strict: EnvelopeServer, changes: dict[str, Any]) -> None:
    """For this agent or this server, for whoever sends it, and for what it says."""
    said = json.loads(json.dumps(changes).replace(BASE_URL, strict.url))
    async with informing(strict) as (line, peer):
        await line.send(inform(peer, cap_token(strict, peer, **said)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "exp"),
        ({"nbf": 10**10}, "not valid yet"),
        ({"aud": "did:web:other.example"}, "audience"),
        ({"aud": None}, "audience"),
        ({"sub": "did:web:bob.example"}, "sender"),
        ({"sub": None}, "sender"),
        ({"iss": "https://other.example"}, "not trusted"),
        ({"scope": "uamp:ask"}, "uamp:inform"),
        ({"scope": "uamp:inform uamp-body:image/png"}, "uamp-body:text/plain"),
        ({"scope": None}, "scope"),
        ({"key": new_key()}, "not signed by its issuer"),
    ],
)
async def test_e54_a_bad_token_is_refused(strict: EnvelopeServer, changes: dict[str, Any], says: str) -> None:
    """The refusal says which part, and repeats nothing of the token."""
    async with informing(strict) as (line, peer):
        token = cap_token(strict, peer, **changes)
        problem = await line.refused(inform(peer, token), "4.03", 403)
    assert says in problem["message"]
    assert token.split(".")[1] not in wire(problem).decode()


async def test_e54_a_token_of_another_kind_is_refused(strict: EnvelopeServer) -> None:
    async with informing(strict) as (line, peer):
        cwt = base64.urlsafe_b64encode(bytes([0xD2, 0x84, 0x43])).decode()
        assert "CWT" in (await line.refused(inform(peer, cwt), "4.03", 403))["message"]
        await line.refused(inform(peer, "nonsense"), "4.03", 403)


async def test_e54_a_policy_may_need_a_token(strict: EnvelopeServer, envelopes: EnvelopeServer) -> None:
    """Not for a cancel: what opened the exchange had one. Without that policy none is, and one that is there counts."""
    async with informing(strict) as (line, peer):
        await line.refused(inform(peer, None), "4.03", 403)
        asked = await line.ask(cap_token=cap_token(strict, peer, scope="uamp:ask"))
        await line.send(peer.cancel(asked.envelope))
    async with informing(envelopes) as (line, peer):
        await line.send(inform(peer, None))
        await line.refused(inform(peer, cap_token(envelopes, peer)), "4.03", 403)


async def manifest_of(server: EnvelopeServer) -> dict[str, Any]:
    return await document_of(server, "agent-manifest.json")


async def document_of(server: EnvelopeServer, name: str) -> dict[str, Any]:
    async with httpx.AsyncClient(verify=server.certificates.trust(), base_url=server.url, timeout=60) as http:
        compact = (await http.get(f"/.well-known/{name}")).text
    middle = compact.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))


async def test_e57_limits_are_kept(strict: EnvelopeServer) -> None:
    """The greatest body is taken and one byte more is not; so many envelopes in an hour, and then one is told to wait."""
    assert (await manifest_of(strict))["limits"] == {"max_body_kb": KIB, "rate_lph": RATE}
    async with informing(strict) as (line, peer):
        token = cap_token(strict, peer)
        room = KIB * 1024 - len(wire(inform(peer, token, "")))
        greatest = inform(peer, token, "x" * room)
        assert len(wire(greatest)) == KIB * 1024
        await line.send(greatest)
        await line.refused(inform(peer, token, "x" * (room + 1)), "4.13", 413)
        for _ in range(RATE - 1):
            await line.send(inform(peer, token))
        response = await line.post(inform(peer, token))
        assert (response.status_code, response.json()["code"]) == (429, "4.29")
        assert 0 < int(response.headers["retry-after"]) <= 3600
        await line.send(greatest)
        strict.clock.advance(timedelta(hours=1, seconds=1))
        token = cap_token(strict, peer)
        await line.send(inform(peer, token))
    async with strict.http("bob") as line:
        await line.send(inform(line.peer, cap_token(strict, line.peer)))


async def test_e57_auth_is_what_shows_who_one_is(strict: EnvelopeServer, envelopes: EnvelopeServer) -> None:
    """A client certificate counts where the manifest says so, and there only; a bearer token everywhere."""
    assert (await manifest_of(strict))["auth"] == ["oauth2"]
    assert (await manifest_of(envelopes))["auth"] == ["oauth2", "mtls"]
    peer = envelopes.peers["ann"]
    certificate = envelopes.certificates.client(peer.did)
    async with strict.http("ann", bearer=None, certificate=certificate) as line:
        await line.refused(inform(line.peer, None), "4.01", 401)
    async with envelopes.http(peer, bearer=None, certificate=certificate) as line:
        await line.send(inform(peer, None))
    async with envelopes.http(peer) as line:
        await line.send(inform(peer, None))


ANSWERING = ("confirm", "deny", "progress", "cancel", "error")
CONTENT = {
    "text/*": [("text/plain", "hello"), ("text/markdown", "# hello"), ("text/csv", "a,b")],
    "application/json": [("application/json", '{"a": 1}')],
    "image/*": [("image/png", None), ("image/jpeg", None)],
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="


async def test_e57_intents_that_are_advertised_are_taken(envelopes: EnvelopeServer) -> None:
    """One that answers nothing that is known is told so, which is no refusal of the intent."""
    manifest = await manifest_of(envelopes)
    assert set(manifest["intents"]) == {"ask", "inform", "propose", "subscribe", "notify", *ANSWERING}
    async with envelopes.http() as line:
        asked = await line.ask("hello")
        for intent in manifest["intents"]:
            reply_to = asked.envelope["id"] if intent == "subscribe" else None
            response = await line.post(line.peer.signed(intent=intent, reply_to=reply_to))
            if intent in ANSWERING:
                assert (response.status_code, response.json()["code"]) == (404, "4.04"), intent
            else:
                assert response.status_code == 202, (intent, response.text)
                assert ("location" in response.headers) == (intent in ("ask", "propose", "subscribe"))


async def test_e57_body_types_that_are_advertised_are_taken_and_others_not(envelopes: EnvelopeServer) -> None:
    manifest = await manifest_of(envelopes)
    assert set(manifest["body_types"]) == set(CONTENT)
    async with envelopes.http() as line:
        for kinds in CONTENT.values():
            for kind, text in kinds:
                body = {"type": kind, "content": text or PIXEL, **({} if text else {"encoding": "base64"})}
                await line.send(line.peer.signed(intent="inform", body=body))
        for kind in ("application/pdf", "audio/wav", "video/mp4", "x"):
            body = {"type": kind, "content": "hello"}
            await line.refused(line.peer.signed(intent="inform", body=body), "4.15", 415)


async def test_e58_a_hub_lists_what_its_operator_adds(strict: EnvelopeServer) -> None:
    hub = await document_of(strict, "agent-hub.json")
    assert hub["manifests"][0]["did"] == strict.did
    assert hub["manifests"][-1] == ELSEWHERE
    assert hub["trust_anchors"] == [{"type": "did", "value": strict.did}, ANCHOR]
