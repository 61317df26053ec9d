"""Signatures against a second library of JWS, jwcrypto: each verifies what the other has made, and refuses what was changed."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from jwcrypto import jwk, jws

from perdure.protocols.uamp_envelope.canonical import canonical_bytes, signature_payload
from perdure.protocols.uamp_envelope.delta import Delta, DeltaType
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.keys import Algorithm, SigningKey, VerificationKey, generate_key, verification_key
from perdure.protocols.uamp_envelope.manifest import build_manifest, read_manifest, sign_manifest
from perdure.protocols.uamp_envelope.signature import sign_envelope, verify_signature
from perdure.protocols.uamp_envelope.signed_document import verify_document
from perdure.protocols.uamp_envelope.transcript import Transcript
from tests.conformance.envelope_peer import Peer, payload_of, sha256_of, wire
from tests.scale import scaled
from tests.unit.protocols.uamp_envelope.samples import CLIENT, ED_KEY, NOW, WORKER, fields, refused, reread

ALGORITHMS: tuple[Algorithm, ...] = ("ES256", "EdDSA")


def theirs(key: SigningKey | VerificationKey) -> jwk.JWK:
    """A public key, as the other library has it."""
    public = key.public() if isinstance(key, SigningKey) else key
    return jwk.JWK(**public.jwk)


def judged(token: str, key: jwk.JWK, payload: bytes | None = None) -> bool:
    """Whether the other library finds a signature good."""
    read: Any = jws.JWS()
    read.deserialize(token)
    try:
        read.verify(key, detached_payload=payload)
    except jws.InvalidJWSSignature:
        return False
    return True


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_e18_the_other_library_verifies_what_we_sign(algorithm: Algorithm) -> None:
    for number in range(scaled(500)):
        key = generate_key(f"{CLIENT}#k", algorithm)
        made = sign_envelope(fields(ext={"n": number, "s": "é😀"}), key)
        assert judged(made.sig, theirs(key), payload_of(made.json))
        assert not judged(made.sig, theirs(key), payload_of({**made.json, "ext": {}}))
        assert not judged(made.sig, theirs(generate_key(f"{CLIENT}#k", algorithm)), payload_of(made.json))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("attached", [False, True])
def test_e18_we_verify_what_the_other_library_signs(algorithm: Algorithm, attached: bool) -> None:
    for number in range(scaled(250)):
        peer = Peer(CLIENT, to=WORKER, alg=algorithm)
        sent = peer.sign(peer.unsigned("é€😀", ext={"n": number, "f": 1.0, "😀": 1, "\ufb33": 2}), attached=attached)
        key = verification_key(peer.kid, peer.public)
        got = reread(sent)
        assert got.sha256 == sha256_of(sent)
        assert verify_signature(got, [key]).kid == peer.kid
        with refused("4.01"):
            verify_signature(reread({**sent, "body": {"type": "text/plain", "content": "other"}}), [key])


def test_e12_the_other_library_makes_the_vector_too() -> None:
    """Ed25519 signs alike each time, so the signature is the same to the last character."""
    unsigned = fields(
        body={"type": "text/plain", "content": "2+2 € 😀"},
        ext={"n": 1.0, "\ufb33": 2, "😀": 1},
        ts="2025-07-10T13:37:05Z",
    )
    peer = Peer(CLIENT, to=WORKER, alg="EdDSA", key=jwk.JWK(**ED_KEY.private_jwk()))
    token = jws.JWS(payload_of(unsigned))
    header = json.dumps({"alg": "EdDSA", "kid": f"{CLIENT}#k1"}, separators=(",", ":"))
    cast(Any, token).add_signature(peer.key, None, header, None)
    first, _, last = token.serialize(compact=True).split(".")
    assert sha256_of(unsigned) == "f42f6785fb27e26c9ea8fd5c144daee548632e5294d1f9b80f7e62349662dcba"
    assert f"{first}..{last}" == sign_envelope(unsigned, ED_KEY).sig
    assert last == "q9ctaKct7PJUwPxlMDQpD9u2CQc3iV7U6MB-hQHmR-LDP529gdZPmiMqWBgTWv1gbYxpLno_E6pvKBJxv7BfCw"
    assert payload_of(unsigned) == signature_payload(sha256_of(unsigned))
    assert sha256_of(json.loads(canonical_bytes(unsigned))) == sha256_of(unsigned)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_e55_the_other_library_verifies_a_manifest_and_we_one_of_its(algorithm: Algorithm) -> None:
    key = generate_key(f"{WORKER}#k1", algorithm)
    value = build_manifest(description="d", intents=[Intent.ASK], body_types=["text/plain"], auth=["oauth2"])
    assert judged(sign_manifest(value, key), theirs(key))
    peer = Peer(WORKER, to=CLIENT, alg=algorithm)
    token = peer.signature(json.dumps(value).encode(), attached=True, typ="manifest+jws", cty="json")
    signed = read_manifest(token.encode(), fetched_from="worker.example")
    assert verify_document(signed, [verification_key(peer.kid, peer.public)]) == value


def test_the_other_library_verifies_a_transcript() -> None:
    key = generate_key(f"{WORKER}#k1")
    transcript = Transcript()
    transcript.add(Delta(0, "s", NOW, DeltaType.CHUNK, {"text": "é"}))
    end = transcript.signed(Delta(1, "s", NOW, DeltaType.DONE, {"text": "é"}), key)
    made = cast("dict[str, str]", end.payload["transcript"])
    assert judged(str(made["jws"]), theirs(key), f'{{"sha256":"{made["sha256"]}"}}'.encode())


def test_e13_the_wire_is_free_in_order_and_spacing() -> None:
    peer = Peer(CLIENT, to=WORKER)
    sent = peer.signed("é", ext={"b": 1, "a": [1, 2.50]})
    key = verification_key(peer.kid, peer.public)
    for text in (wire(sent), json.dumps(dict(sorted(sent.items())), indent=2).encode()):
        assert verify_signature(reread(json.loads(text)), [key]).kid == peer.kid
