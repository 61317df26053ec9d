"""Checks 16 to 20 and 22: what signs an envelope, by what is posted to a server. Signatures here are jwcrypto's."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from jwcrypto import jwk

from tests.conformance.envelope_peer import Envelope, Peer, new_key, payload_of, wire
from tests.conformance.envelope_server import EnvelopeServer
from tests.conformance.envelope_tokens import verify_compact

pytestmark = pytest.mark.asyncio(loop_scope="module")


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def with_sig(envelope: Envelope, sig: str) -> Envelope:
    return {**envelope, "sig": sig}


async def accepted(envelopes: EnvelopeServer, sent: Envelope, peer: str = "ann") -> dict[str, Any]:
    async with envelopes.http(peer) as line:
        return (await line.send(sent)).json()


async def refused(envelopes: EnvelopeServer, sent: Envelope, code: str = "4.01", peer: str = "ann") -> dict[str, Any]:
    async with envelopes.http(peer) as line:
        return await line.refused(sent, code, {"4.01": 401, "4.03": 403}[code])


async def test_e16_only_the_top_level_sig_is_left_out_of_the_hash(envelopes: EnvelopeServer) -> None:
    """Another signature of the same envelope is the same envelope; a member `sig` further in is signed like any other."""
    ann = envelopes.peers["ann"]
    sent = ann.signed(intent="inform", ext={"sig": "inner", "n": 1})
    first = await accepted(envelopes, sent)
    again = ann.sign({name: value for name, value in sent.items() if name != "sig"})
    assert again["sig"] != sent["sig"]
    assert await accepted(envelopes, again) == first
    fresh = ann.signed(intent="inform", ext={"sig": "inner", "n": 1})
    await refused(envelopes, {**fresh, "ext": {"sig": "other", "n": 1}})


async def test_e17_what_we_sign_has_an_empty_middle_and_a_header_of_alg_and_kid(envelopes: EnvelopeServer) -> None:
    """The key is one of our DID document, and another library verifies the signature with it."""
    async with envelopes.socket() as line, envelopes.http() as http:
        sent = line.peer.signed(intent="inform")
        await line.send(sent)
        receipt = await line.receive()
        document = (await http.http.get("/.well-known/did.json")).json()
    first, middle, last = receipt["sig"].split(".")
    assert middle == ""
    header = json.loads(decoded(first))
    assert set(header) == {"alg", "kid"}
    assert (header["alg"], header["kid"].partition("#")[0]) == ("ES256", receipt["from"])
    assert (receipt["from"], receipt["reply_to"]) == (envelopes.did, sent["id"])
    (method,) = [method for method in document["verificationMethod"] if method["id"] == header["kid"]]
    verify_compact(f"{first}.{encoded(payload_of(receipt))}.{last}", method["publicKeyJwk"])


@pytest.mark.parametrize("parts", [1, 2, 4, 5])
async def test_e17_a_sig_has_three_parts(envelopes: EnvelopeServer, parts: int) -> None:
    sent = envelopes.peers["ann"].signed()
    pieces = [*sent["sig"].split("."), "AAAA", "AAAA"][:parts]
    await refused(envelopes, with_sig(sent, ".".join(pieces)))


@pytest.mark.parametrize("peer", ["ann", "edd"])
async def test_e18_es256_and_eddsa_verify(envelopes: EnvelopeServer, peer: str) -> None:
    await accepted(envelopes, envelopes.peers[peer].signed(intent="inform"), peer)


@pytest.mark.parametrize("alg", ["RS256", "ES384"])
async def test_e18_other_algorithms_are_refused_though_the_signature_is_good(
    envelopes: EnvelopeServer, alg: str
) -> None:
    ann = envelopes.peers["ann"]
    other = Peer(ann.did, to=envelopes.did, alg=alg, now=envelopes.clock)
    other.kid = ann.kid
    assert "ES256" in (await refused(envelopes, other.signed()))["message"]


@pytest.mark.parametrize("alg", ["none", "HS256", "EdDSA"])
async def test_e18_the_header_chooses_no_algorithm(envelopes: EnvelopeServer, alg: str) -> None:
    """Nothing at all, an HMAC under the public key as it is published, and a good ES256 signature that says EdDSA."""
    ann = envelopes.peers["ann"]
    sent = ann.unsigned()
    first = encoded(json.dumps({"alg": alg, "kid": ann.kid}).encode())
    signed = f"{first}.{encoded(payload_of(sent))}".encode()
    public = json.dumps({name: ann.public[name] for name in ("crv", "kty", "x", "y")}).encode()
    made = {
        "none": "",
        "HS256": encoded(hmac.digest(public, signed, hashlib.sha256)),
        "EdDSA": ann.sign(sent)["sig"].rpartition(".")[2],
    }
    await refused(envelopes, with_sig(sent, f"{first}..{made[alg]}"))


async def test_e19_the_attached_form_is_taken_if_it_carries_the_right_hash(envelopes: EnvelopeServer) -> None:
    ann = envelopes.peers["ann"]
    sent = ann.unsigned(intent="inform")
    await accepted(envelopes, ann.sign(sent, attached=True))


@pytest.mark.parametrize("middle", ["other", "spaced", "upper"])
async def test_e19_the_attached_form_with_another_middle_is_refused(envelopes: EnvelopeServer, middle: str) -> None:
    """Each is a good signature of what it carries, which is not this envelope's hash as it must be written."""
    ann = envelopes.peers["ann"]
    sent, other = ann.unsigned(), ann.unsigned("other")
    right = payload_of(sent)
    carried = {
        "other": payload_of(other),
        "spaced": right.replace(b":", b": "),
        "upper": b'{"sha256":"' + right[11:75].upper() + b'"}',
    }[middle]
    await refused(envelopes, with_sig(sent, ann.signature(carried, attached=True)))


HEADERS: list[dict[str, Any]] = [
    {"crit": ["exp"], "exp": 1},
    {"crit": ["b64"], "b64": False},
    {"b64": False},
    {"crit": []},
    {"x5u": "https://evil.example/cert"},
    {"x5c": ["AAAA"]},
    {"typ": "JWT"},
]


@pytest.mark.parametrize("header", HEADERS)
async def test_e20_a_header_that_asks_for_something_is_refused(
    envelopes: EnvelopeServer, header: dict[str, Any]
) -> None:
    ann = envelopes.peers["ann"]
    sent = ann.unsigned()
    protected = {"alg": ann.alg, "kid": ann.kid, **header}
    first = encoded(json.dumps(protected).encode())
    private = jwk.JWK(**json.loads(ann.key.export_private()))
    plain: Any = private.get_op_key("sign")
    await refused(envelopes, with_sig(sent, f"{first}..{encoded(_es256(plain, first, payload_of(sent)))}"))


async def test_e20_a_key_in_the_header_does_not_verify_its_own_signature(envelopes: EnvelopeServer) -> None:
    ann, thief = envelopes.peers["ann"], new_key()
    sent = ann.unsigned()
    sig = ann.signature(payload_of(sent), key=thief, jwk=json.loads(thief.export_public()))
    await refused(envelopes, with_sig(sent, sig))
    sig = ann.signature(payload_of(sent), key=thief)
    await refused(envelopes, with_sig(sent, sig))


async def test_e22_a_damaged_signature_is_refused(envelopes: EnvelopeServer) -> None:
    """DER in the place of R and S, cut off, padded, another alphabet, a bit turned, and nothing."""
    ann = envelopes.peers["ann"]
    sent = ann.signed()
    first, _, last = sent["sig"].split(".")
    raw = decoded(last)
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    turned = bytes([raw[0] ^ 1]) + raw[1:]
    damaged = [encoded(der), last[:-2], last + "==", encoded(raw[:63]), encoded(raw + b"\0"), encoded(turned), ""]
    async with envelopes.http() as line:
        for piece in damaged:
            await line.refused(with_sig(sent, f"{first}..{piece}"), "4.01", 401)
        await line.refused(with_sig(sent, f"{first}==..{last}"), "4.01", 401)
        await line.send(sent)


async def test_e22_a_forged_signature_says_nothing_of_why(envelopes: EnvelopeServer) -> None:
    """The refusal names the envelope, and repeats neither signature nor key."""
    ann = envelopes.peers["ann"]
    sent = ann.unsigned()
    forged = with_sig(sent, ann.signature(payload_of(sent), key=new_key()))
    problem = await refused(envelopes, forged)
    assert problem.get("ref") in (None, sent["id"])
    assert forged["sig"].rpartition(".")[2] not in wire(problem).decode()


def _es256(key: Any, first: str, payload: bytes) -> bytes:
    """R and S of a signature by the plain primitive, whatever the header says."""
    r, s = decode_dss_signature(key.sign(f"{first}.{encoded(payload)}".encode(), ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")
