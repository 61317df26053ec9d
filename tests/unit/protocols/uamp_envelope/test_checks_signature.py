"""Checks 12 to 23 of the conformance list: canonical form, signature, and every way to get round it."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.canonical import canonical_bytes, canonical_json, signature_payload
from perdure.protocols.uamp_envelope.did_document import build_did_document, read_did_document
from perdure.protocols.uamp_envelope.envelope import Envelope, envelope_of, read_envelope
from perdure.protocols.uamp_envelope.jws import UnknownKey, encode_part
from perdure.protocols.uamp_envelope.keys import SigningKey, generate_key, signing_key, verification_key
from perdure.protocols.uamp_envelope.signature import SignatureRules, envelope_bytes, sign_envelope, verify_signature
from tests.unit.protocols.uamp_envelope.samples import (
    CLIENT,
    EC_KEY,
    ED_KEY,
    KEYS,
    RFC_8037,
    WORKER,
    WORKER_KEY,
    fields,
    refused,
    reread,
    signed,
)

VECTOR = fields(body={"type": "text/plain", "content": "2+2 € 😀"}, ext={"n": 1.0, "\ufb33": 2, "😀": 1})


def raw_sign(header: dict[str, Any], payload: bytes, key: SigningKey = ED_KEY) -> str:
    """A JWS whose header says what it likes, attached."""
    protected = encode_part(json.dumps(header).encode())
    text = f"{protected}.{encode_part(payload)}"
    private: Any = key.key.get_op_key("sign")
    assert isinstance(private, Ed25519PrivateKey)
    return f"{text}.{encode_part(private.sign(text.encode()))}"


def detached(token: str) -> str:
    header, _, signature = token.split(".")
    return f"{header}..{signature}"


def with_sig(sig: str, **changes: Any) -> Envelope:
    return envelope_of({**fields(**changes), "sig": sig})


def payload() -> bytes:
    return signature_payload(signed().sha256)


def test_check_12_the_vector_is_reproduced_byte_for_byte() -> None:
    made = sign_envelope(VECTOR, ED_KEY)
    assert canonical_bytes(made.json).decode() == (
        '{"body":{"content":"2+2 € 😀","type":"text/plain"},"ext":{"n":1,"😀":1,"\ufb33":2},"from":"did:web:client.example",'
        '"id":"urn:uuid:6f1c7a0e-2f5b-4a53-9d3e-0c7b3e0a1d11","intent":"ask","to":["did:web:worker.example"],'
        '"ts":"2025-07-10T13:37:05Z"}'
    )
    assert made.sha256 == "f42f6785fb27e26c9ea8fd5c144daee548632e5294d1f9b80f7e62349662dcba"
    assert made.sig == (
        "eyJhbGciOiJFZERTQSIsImtpZCI6ImRpZDp3ZWI6Y2xpZW50LmV4YW1wbGUjazEifQ.."
        "q9ctaKct7PJUwPxlMDQpD9u2CQc3iV7U6MB-hQHmR-LDP529gdZPmiMqWBgTWv1gbYxpLno_E6pvKBJxv7BfCw"
    )
    assert verify_signature(reread(made.json), KEYS).kid == ED_KEY.kid


def test_check_13_order_and_spacing_of_the_wire_do_not_matter() -> None:
    made = sign_envelope(VECTOR, EC_KEY)
    turned = dict(reversed(made.json.items()))
    for text in (json.dumps(turned, indent=3), json.dumps(turned, ensure_ascii=False)):
        assert verify_signature(read_envelope(text.encode()), KEYS).kid == EC_KEY.kid
    assert read_envelope(envelope_bytes(made)).sha256 == made.sha256


@pytest.mark.parametrize(
    "change",
    [
        {"body": {"type": "text/plain", "content": "3+3"}},
        {"body": {"type": "text/plain", "content": "2+2", "extra": {"deep": [1, {"x": 2}]}}},
        {"ext": {"a": {"b": [1, 2, {"c": 4}]}}},
        {"ext": {"a": {"b": [1, 2]}}},
        {"context": [{"id": "9b2f3a10-6f7e-4f6b-8a3e-2d1c0b9a8f7e", "hash": "sha256:" + "1" * 64}]},
        {"to": [WORKER, "did:web:other.example"]},
        {"ts": "2025-07-10T13:37:05.0Z"},
        {"intent": "inform"},
        {"stream_id": "s"},
        {"cap_token": "t"},
    ],
    ids=range(10),
)
def test_check_14_a_change_anywhere_breaks_the_signature(change: dict[str, Any]) -> None:
    base = {
        "ext": {"a": {"b": [1, 2, {"c": 3}]}},
        "context": [{"id": "9b2f3a10-6f7e-4f6b-8a3e-2d1c0b9a8f7e", "hash": "sha256:" + "0" * 64}],
    }
    sig = signed(**base).sig
    assert verify_signature(with_sig(sig, **base), KEYS)
    with refused("4.01"):
        verify_signature(with_sig(sig, **{**base, **change}), KEYS)


def test_check_15_keys_sort_by_utf16_and_numbers_and_texts_have_one_form() -> None:
    assert canonical_json({"\ufb33": 1, "😀": 2}).decode() == '{"😀":2,"\ufb33":1}'
    assert signed(ext={"n": 1.0}).sha256 == signed(ext={"n": 1}).sha256
    assert signed(ext={"n": "\u00e9"}).sha256 != signed(ext={"n": "e\u0301"}).sha256
    assert canonical_json({"n": [1e21, 1e-7, -0.0, 1e15]}) == b'{"n":[1e+21,1e-7,0,1000000000000000]}'


def test_check_16_only_the_top_level_sig_is_left_out() -> None:
    assert signed(ext={"sig": "a"}).sha256 != signed(ext={"sig": "b"}).sha256
    assert b'"ext":{"sig":"a"}' in canonical_bytes(signed(ext={"sig": "a"}).json)
    assert b"sig" not in canonical_bytes(signed().json)


@pytest.mark.parametrize("key", [ED_KEY, EC_KEY], ids=["EdDSA", "ES256"])
def test_check_17_a_sig_is_detached_and_its_header_has_alg_and_kid_only(key: SigningKey) -> None:
    header, middle, signature = sign_envelope(fields(), key).sig.split(".")
    assert middle == ""
    assert "=" not in header + signature
    token = jws.extract_compact(f"{header}.e30.{signature}".encode())
    assert token.protected == {"alg": key.algorithm, "kid": key.kid}


@pytest.mark.parametrize("key", [ED_KEY, EC_KEY], ids=["EdDSA", "ES256"])
def test_check_18_both_algorithms_verify(key: SigningKey) -> None:
    assert verify_signature(reread(sign_envelope(fields(), key).json), KEYS).algorithm == key.algorithm


@pytest.mark.parametrize(
    "alg", ["none", "HS256", "RS256", "ES384", "ES512", "PS256", "ES256K", "Ed448", "eddsa", "", None, 1]
)
def test_check_18_other_algorithms_are_refused_whatever_signs(alg: Any) -> None:
    sig = detached(raw_sign({"alg": alg, "kid": ED_KEY.kid}, payload()))
    with refused("4.01"):
        verify_signature(with_sig(sig), KEYS)


def test_check_18_signatures_really_made_by_other_algorithms_are_refused() -> None:
    made: dict[str, Any] = {
        "HS256": OctKey.import_key(str(ED_KEY.public().jwk["x"])),
        "RS256": RSAKey.generate_key(2048),
        "ES384": ECKey.generate_key("P-384"),
    }
    for alg, key in made.items():
        token = jws.serialize_compact({"alg": alg, "kid": ED_KEY.kid}, payload(), key, algorithms=[alg])
        with refused("4.01"):
            verify_signature(with_sig(jws.detach_content(token)), KEYS)


def test_check_18_a_public_key_is_no_secret_of_an_hmac() -> None:
    head = encode_part(json.dumps({"alg": "HS256", "kid": EC_KEY.kid}).encode())
    text = f"{head}.{encode_part(payload())}".encode()
    secret = EC_KEY.public().key.as_bytes(private=False)
    forged = f"{head}..{encode_part(hmac.digest(secret, text, 'sha256'))}"
    with refused("4.01"):
        verify_signature(with_sig(forged), KEYS)


def test_check_18_the_header_cannot_choose_another_algorithm_for_a_key() -> None:
    sig = detached(raw_sign({"alg": "ES256", "kid": ED_KEY.kid}, payload()))
    with refused("4.01"):
        verify_signature(with_sig(sig), KEYS)


def test_check_18_the_newer_name_of_eddsa_is_an_option() -> None:
    envelope = with_sig(detached(raw_sign({"alg": "Ed25519", "kid": ED_KEY.kid}, payload())))
    with refused("4.01"):
        verify_signature(envelope, KEYS)
    assert verify_signature(envelope, KEYS, SignatureRules(takes_ed25519_name=True)).kid == ED_KEY.kid


def test_check_19_the_attached_form_is_taken_if_it_carries_the_right_hash() -> None:
    right = raw_sign({"alg": "EdDSA"}, payload())
    assert verify_signature(with_sig(right), KEYS).kid == ED_KEY.kid


@pytest.mark.parametrize("middle", [b'{"sha256":"' + b"0" * 64 + b'"}', b"{}", b'{ "sha256": "" }'])
def test_check_19_the_attached_form_with_another_middle_is_refused(middle: bytes) -> None:
    with refused("4.01"):
        verify_signature(with_sig(raw_sign({"alg": "EdDSA"}, middle)), KEYS)
    header, _, signature = raw_sign({"alg": "EdDSA"}, payload()).split(".")
    with refused("4.01"):
        verify_signature(with_sig(f"{header}.{encode_part(middle)}.{signature}"), KEYS)


@pytest.mark.parametrize(
    "more",
    [
        {"crit": ["b64"], "b64": False},
        {"b64": False},
        {"b64": True},
        {"crit": []},
        {"crit": ["exp"], "exp": 1},
        {"jwk": ED_KEY.public().jwk},
        {"jku": "https://evil.example/jwks"},
        {"x5u": "https://evil.example/x5u"},
        {"x5c": ["MIIB"]},
        {"typ": "JWT"},
        {"typ": "at+jwt"},
        {"kid": 7},
        {"kid": ""},
        {"kid": "k1"},
        {"kid": CLIENT},
        {"pad": "x" * 600},
    ],
    ids=lambda more: "+".join(more),
)
def test_check_20_header_members_that_ask_for_something_are_refused(more: dict[str, Any]) -> None:
    sig = detached(raw_sign({"alg": "EdDSA", "kid": ED_KEY.kid, **more}, payload()))
    with refused("4.01"):
        verify_signature(with_sig(sig), KEYS)


def test_check_20_a_key_in_the_header_does_not_verify_its_own_signature() -> None:
    mine = generate_key(f"{CLIENT}#k1", "EdDSA")
    header = {"alg": "EdDSA", "kid": mine.kid, "jwk": mine.public().jwk}
    with refused("4.01"):
        verify_signature(with_sig(detached(raw_sign(header, payload(), mine))), KEYS)


def test_check_20_typ_jose_is_fine_and_typ_jwt_is_an_option() -> None:
    jose = with_sig(detached(raw_sign({"alg": "EdDSA", "kid": ED_KEY.kid, "typ": "JOSE"}, payload())))
    assert verify_signature(jose, KEYS)
    older = with_sig(raw_sign({"alg": "EdDSA", "typ": "JWT"}, payload()))
    assert verify_signature(older, KEYS, SignatureRules(takes_jwt_type=True))


def test_check_21_a_kid_of_another_did_than_from_is_4_03() -> None:
    sig = detached(raw_sign({"alg": "EdDSA", "kid": f"{WORKER}#k1"}, payload()))
    with refused("4.03"):
        verify_signature(with_sig(sig), [*KEYS, WORKER_KEY.public()])


def test_check_21_an_unknown_kid_is_told_apart_so_that_keys_are_fetched_once_more() -> None:
    envelope = sign_envelope(fields(), generate_key(f"{CLIENT}#k9"))
    with pytest.raises(UnknownKey) as caught:
        verify_signature(envelope, KEYS)
    assert caught.value.code == "4.01"


def test_check_21_keys_of_others_are_never_tried() -> None:
    stranger = generate_key(f"{WORKER}#k1", "EdDSA")
    with refused("4.01"):
        verify_signature(with_sig(raw_sign({"alg": "EdDSA"}, payload(), stranger)), [stranger.public(), *KEYS])


def test_check_21_without_a_kid_at_most_eight_keys_are_tried() -> None:
    others = [generate_key(f"{CLIENT}#o{n}", "EdDSA").public() for n in range(8)]
    envelope = with_sig(raw_sign({"alg": "EdDSA"}, payload()))
    assert verify_signature(envelope, [*others[:7], ED_KEY.public()]).kid == ED_KEY.kid
    with refused("4.01"):
        verify_signature(envelope, [*others, ED_KEY.public()])


def test_check_22_a_der_signature_is_refused() -> None:
    private: Any = EC_KEY.key.get_op_key("sign")
    assert isinstance(private, EllipticCurvePrivateKey)
    head = encode_part(json.dumps({"alg": "ES256", "kid": EC_KEY.kid}).encode())
    der = private.sign(f"{head}.{encode_part(payload())}".encode(), ECDSA(hashes.SHA256()))
    with refused("4.01") as caught:
        verify_signature(with_sig(f"{head}..{encode_part(der)}"), KEYS)
    assert "DER" in caught.value.message


@pytest.mark.parametrize("key", [ED_KEY, EC_KEY], ids=["EdDSA", "ES256"])
def test_check_22_a_damaged_signature_is_refused(key: SigningKey) -> None:
    sig = sign_envelope(fields(), key).sig
    header, signature = sig.split("..")
    swapped = "A" if signature[0] != "A" else "B"
    stray = signature[:-1] + chr(ord(signature[-1]) + 1)  # the same bytes, with a stray bit at the end
    bad = [
        *(
            sig[:-1],
            sig + "==",
            sig + "A",
            f"{header}..{swapped}{signature[1:]}",
            f"{header}..",
            f"{header}.{signature}",
        ),
        *(
            f"{header}=..{signature}",
            f" {sig}",
            f"{sig}\n",
            f"{header}..{stray}",
            f"..{signature}",
            "",
            ".",
            "..",
            "...",
        ),
        *(f"{header}..{encode_part(bytes(64))}", f"{sig}.", f"é..{signature}", f"{encode_part(b'[]')}..{signature}"),
        encode_part(b'{"alg":"EdDSA","alg":"ES256"}') + f"..{signature}",
    ]
    for text in bad:
        with refused("4.01"):
            verify_signature(with_sig(text), KEYS)


def test_check_23_a_key_that_is_not_for_assertions_is_refused() -> None:
    document = build_did_document(CLIENT, KEYS)
    document["assertionMethod"] = [ED_KEY.kid]
    keys = read_did_document(canonical_json(document), CLIENT).keys
    assert [key.kid for key in keys] == [ED_KEY.kid]
    with refused("4.01"):
        verify_signature(sign_envelope(fields(), EC_KEY), keys)


def test_check_23_a_rotated_key_is_known_by_the_next_document() -> None:
    newer = generate_key(f"{CLIENT}#k3")
    keys = read_did_document(canonical_json(build_did_document(CLIENT, [newer.public()])), CLIENT).keys
    assert verify_signature(sign_envelope(fields(), newer), keys).kid == newer.kid
    with refused("4.01"):
        verify_signature(sign_envelope(fields(), EC_KEY), keys)


def test_check_18_an_es256_signature_is_what_the_plain_primitive_verifies() -> None:
    made = sign_envelope(fields(), EC_KEY)
    header, _, part = made.sig.split(".")
    raw = urlsafe_b64decode(part + "==")
    public: Any = EC_KEY.public().key.get_op_key("verify")
    assert isinstance(public, EllipticCurvePublicKey)
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    text = f"{header}.{encode_part(signature_payload(made.sha256))}"
    public.verify(der, text.encode(), ECDSA(hashes.SHA256()))
    with pytest.raises(InvalidSignature):
        public.verify(der, text.encode() + b"A", ECDSA(hashes.SHA256()))


def test_a_key_signs_for_its_own_did_only() -> None:
    with pytest.raises(InvalidInput, match="cannot sign for"):
        sign_envelope(fields(), WORKER_KEY)


@pytest.mark.parametrize(
    ("jwk", "says"),
    [
        ({"kty": "RSA", "n": "AQAB", "e": "AQAB"}, "use EC/P-256"),
        ({"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"}, "use EC/P-256"),
        ({"kty": "oct", "k": "AA"}, "use EC/P-256"),
        ({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, "cannot be read"),
        ({"kty": "EC", "crv": "P-256"}, "cannot be read"),
        ({"kty": "OKP", "crv": "Ed25519", "x": "AA"}, "cannot be read"),
        ({"kty": "OKP", "crv": ["Ed25519"], "x": 7}, "use EC/P-256"),
        ({**RFC_8037}, "private part"),
        ({**ED_KEY.public().jwk, "use": "enc"}, "not for signatures"),
    ],
    ids=range(9),
)
def test_a_bad_public_key_is_named_and_refused(jwk: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        verification_key("did:web:a.example#k", jwk)


def test_a_private_key_goes_round_and_is_not_shown() -> None:
    for key in (ED_KEY, EC_KEY):
        again = signing_key(key.kid, key.private_jwk())
        assert again.public() == key.public()
        assert str(key.private_jwk()["d"]) not in repr(key)
    with pytest.raises(InvalidInput, match="cannot sign"):
        signing_key("k", ED_KEY.public().jwk)
    with pytest.raises(InvalidInput, match="another public part"):
        signing_key("k", {**RFC_8037, "x": generate_key("o", "EdDSA").public().jwk["x"]})
