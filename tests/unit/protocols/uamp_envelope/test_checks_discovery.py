"""Checks 54 to 56 and 58 to 60 of the conformance list: tokens, manifests, DID documents, errors. And the gRPC file."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws, jwt
from joserfc.jwk import OctKey

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.canonical import canonical_json
from perdure.protocols.uamp_envelope.cap_token import Capability, read_cap_token, verify_cap_token
from perdure.protocols.uamp_envelope.did_document import build_did_document, read_did_document
from perdure.protocols.uamp_envelope.did_web import is_web_did, read_web_did, split_did_url, web_did
from perdure.protocols.uamp_envelope.error import CARRIAGE, Code, UAMPError, read_error
from perdure.protocols.uamp_envelope.hub import (
    Child,
    Hub,
    TrustAnchor,
    build_hub,
    check_child,
    may_follow,
    read_hub,
    sign_hub,
)
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.jws import encode_part, sign_compact
from perdure.protocols.uamp_envelope.key_set import build_key_set, read_key_set
from perdure.protocols.uamp_envelope.keys import SigningKey, generate_key
from perdure.protocols.uamp_envelope.manifest import build_manifest, read_manifest, sign_manifest
from perdure.protocols.uamp_envelope.schema import check_schema
from perdure.protocols.uamp_envelope.signed_document import flattened, read_document, verify_document
from tests.unit.protocols.uamp_envelope.samples import (
    CLIENT,
    EC_KEY,
    ED_KEY,
    ID,
    KEYS,
    NOW,
    WORKER,
    WORKER_KEY,
    refused,
)

ISSUER = "https://issuer.example"
ISSUER_KEY = generate_key("issuer-1")
CLAIMS = {
    "iss": ISSUER,
    "aud": [WORKER],
    "sub": CLIENT,
    "scope": "uamp:ask uamp-body:text/plain",
    "exp": NOW.timestamp() + 600,
    "nbf": NOW.timestamp() - 600,
}


def token(key: SigningKey = ISSUER_KEY, **changes: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return sign_compact({"typ": "JWT"}, json.dumps(claims).encode(), key)


def capability(text: str, *keys: SigningKey) -> Capability:
    known = [key.public() for key in keys or (ISSUER_KEY,)]
    return verify_cap_token(read_cap_token(text), known, audiences={WORKER}, sender=CLIENT, now=NOW)


def test_check_54_a_good_token_allows_what_its_scopes_say() -> None:
    got = capability(token())
    got.check_allows(Intent.ASK, "text/plain; charset=utf-8")
    for intent, kind in ((Intent.PROPOSE, "text/plain"), (Intent.ASK, "application/json")):
        with refused("4.03"):
            got.check_allows(intent, kind)
    capability(token(scope="uamp:*")).check_allows(Intent.CANCEL, "any/thing")
    assert capability(token(sub=None, client_id=CLIENT, aud=WORKER)).issuer == ISSUER


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW.timestamp() - 61},
        {"exp": None},
        {"exp": "2099"},
        {"exp": True},
        {"nbf": NOW.timestamp() + 61},
        {"aud": CLIENT},
        {"aud": None},
        {"aud": []},
        {"sub": WORKER},
        {"sub": None},
        {"sub": WORKER, "client_id": CLIENT},
        {"scope": None},
        {"scope": "  "},
        {"scope": ["uamp:ask"]},
        {"iss": None},
        {"iss": 7},
        {"key": generate_key("issuer-1")},
        {"key": generate_key("issuer-2")},
    ],
    ids=range(18),
)
def test_check_54_a_bad_token_is_refused_without_being_repeated(changes: dict[str, Any]) -> None:
    text = token(**changes)
    with refused("4.03") as caught:
        capability(text)
    assert text not in caught.value.message
    assert text.split(".")[2] not in caught.value.message


def test_check_54_a_clock_may_be_a_minute_off() -> None:
    assert capability(token(exp=NOW.timestamp() - 59, nbf=NOW.timestamp() + 59))


def test_check_54_a_token_of_an_issuer_without_trust_is_refused() -> None:
    with refused("4.03"):
        verify_cap_token(read_cap_token(token()), [], audiences={WORKER}, sender=CLIENT, now=NOW)


def test_check_54_a_cwt_is_refused_in_plain_words() -> None:
    for head in (b"\xd2\x84\x43\xa1", b"\xd8\x3d\xd2\x84", b"\x84\x43\xa1\x01"):
        with refused("4.03") as caught:
            read_cap_token(encode_part(head + bytes(100)))
        assert "CWT" in caught.value.message
        assert "send a JWT" in caught.value.message


def test_check_54_what_is_no_jwt_of_ours_is_refused() -> None:
    secret = jwt.encode({"alg": "HS256"}, {"iss": ISSUER}, OctKey.import_key("x" * 32), algorithms=["HS256"])
    unsigned = ".".join([encode_part(b'{"alg":"none"}'), encode_part(json.dumps(CLAIMS).encode()), ""])
    named = sign_compact({"typ": "dpop+jwt"}, b'{"iss":"x"}', ISSUER_KEY)
    for text in ("", "x", "a.b.c", secret, unsigned, named, "x" * 9000, token() + ".x", "é"):
        with refused("4.03"):
            read_cap_token(text)


MANIFEST = build_manifest(
    description="Adds numbers.",
    intents=[Intent.ASK, Intent.CANCEL],
    body_types=["text/plain"],
    auth=["oauth2", "mtls"],
    max_body_kib=1024,
    rate_per_hour=3600,
)


def test_check_55_a_manifest_verifies_in_both_forms() -> None:
    compact = sign_manifest(MANIFEST, EC_KEY)
    assert jws.extract_compact(compact.encode()).protected == {
        "alg": "ES256",
        "kid": EC_KEY.kid,
        "typ": "manifest+jws",
        "cty": "json",
    }
    for data in (compact.encode(), json.dumps(flattened(compact)).encode()):
        signed = read_manifest(data, fetched_from="client.example")
        assert signed.did == CLIENT
        assert verify_document(signed, KEYS) == MANIFEST
    check_schema("manifest", MANIFEST)
    assert MANIFEST["agent"] == "uamp/1.0"
    assert MANIFEST["limits"] == {"max_body_kb": 1024, "rate_lph": 3600}


@pytest.mark.parametrize("agent", ["uamp/2.0", "uamp/1x0", "uamp/1.", "uamp/1.0\n", "UAMP/1.0"])
def test_check_55_the_agent_member_has_its_form(agent: str) -> None:
    with refused("4.00"):
        sign_manifest({**MANIFEST, "agent": agent}, EC_KEY)


def test_check_56_a_changed_manifest_is_refused() -> None:
    header, _, signature = sign_manifest(MANIFEST, EC_KEY).split(".")
    other = encode_part(canonical_json({**MANIFEST, "description": "Adds money."}))
    signed = read_manifest(f"{header}.{other}.{signature}".encode(), fetched_from="client.example")
    with refused("4.01"):
        verify_document(signed, KEYS)


def test_check_56_a_manifest_speaks_for_its_own_host_only() -> None:
    compact = sign_manifest(MANIFEST, EC_KEY).encode()
    for host in ("evil.example", "client.example:8443", "a.client.example"):
        with refused("4.03"):
            read_manifest(compact, fetched_from=host)


@pytest.mark.parametrize(
    ("code", "data"),
    [
        ("4.13", b"x" * 65_537),
        ("4.01", b""),
        ("4.00", b"\xff.\xff.\xff"),
        ("4.00", b'{"payload":"a","protected":"b"}'),
        ("4.00", b'{"payload":"a.b","protected":"b","signature":"c"}'),
        ("4.00", b'{"payload":"a","protected":"b","signature":"c","header":{"alg":"none"}}'),
        ("4.00", sign_compact({"typ": "manifest+jws"}, b"{}", EC_KEY).encode()),
        ("4.01", sign_compact({"typ": "JWT"}, canonical_json(MANIFEST), EC_KEY).encode()),
        ("4.01", sign_compact({}, canonical_json(MANIFEST), SigningKey("k1", "ES256", EC_KEY.key)).encode()),
        ("4.01", json.dumps(MANIFEST).replace("{", " ", 1).encode()),
    ],
    ids=range(10),
)
def test_check_56_what_is_no_signed_manifest_is_refused(code: str, data: bytes) -> None:
    with refused(code):
        read_manifest(data, fetched_from="client.example")


HUB = Hub(
    (Child(CLIENT, "https://client.example/m"), Child(WORKER, "https://w.example/m", "0" * 64)),
    (TrustAnchor("did", CLIENT),),
)


def test_check_58_a_hub_lists_its_children_and_is_signed_as_a_hub() -> None:
    document = build_hub(HUB, KEYS)
    data = sign_hub(document, EC_KEY).encode()
    signed = read_document(data, "hub+jws", fetched_from="client.example")
    assert read_hub(verify_document(signed, KEYS)) == HUB
    assert document["jwks"] == build_key_set(KEYS)
    with refused("4.01"):
        read_manifest(data, fetched_from="client.example")


def test_check_58_a_child_is_the_one_that_is_listed() -> None:
    signed = read_manifest(sign_manifest(MANIFEST, EC_KEY).encode(), fetched_from="client.example")
    check_child(Child(CLIENT, "https://client.example/m", signed.sha256), signed)
    for child in (Child(WORKER, "https://x"), Child(CLIENT, "https://x", "0" * 64)):
        with refused("4.03"):
            check_child(child, signed)


def test_check_58_hubs_are_followed_neither_in_a_circle_nor_too_deep() -> None:
    assert may_follow([], "https://a")
    assert may_follow(["https://a", "https://b"], "https://c")
    assert not may_follow(["https://a", "https://b"], "https://a")
    assert not may_follow(["https://a", "https://b", "https://c"], "https://d")


NO_HUBS: list[Any] = [
    *({"manifests": {}}, {"manifests": [1]}, {"manifests": [{"did": CLIENT}]}, {"trust_anchors": [{"type": "pgp"}]}),
    *({"manifests": [{"did": CLIENT, "url": "http://x"}]}, {"manifests": [{}] * 257}),
    {"manifests": [{"did": CLIENT, "url": "https://x", "sha256": "A" * 64}]},
]


@pytest.mark.parametrize("value", NO_HUBS, ids=range(7))
def test_check_58_what_is_no_hub_is_refused(value: Any) -> None:
    with refused("4.00"):
        read_hub(value)


def test_a_key_set_goes_round_and_leaves_other_kinds_out() -> None:
    made = build_key_set(KEYS)
    others: list[Any] = [
        {"kty": "RSA", "kid": "r"},
        {**ED_KEY.public().jwk},
        7,
        {**ED_KEY.public().jwk, "kid": "e", "use": "enc"},
    ]
    assert read_key_set({"keys": [*json.loads(json.dumps(made))["keys"], *others]}) == KEYS
    no_sets: list[Any] = [{}, {"keys": {}}, {"keys": [1] * 33}, {"keys": [{**EC_KEY.private_jwk(), "kid": "k"}]}]
    for bad in no_sets:
        with pytest.raises(InvalidInput):
            read_key_set(bad)


@pytest.mark.parametrize(
    ("did", "url"),
    [
        ("did:web:client.example", "https://client.example/.well-known/did.json"),
        ("did:web:localhost%3A8443", "https://localhost:8443/.well-known/did.json"),
        ("did:web:localhost%3a8443:agents:coder", "https://localhost:8443/agents/coder/did.json"),
        ("did:web:h.example:a%20b:c_d.e", "https://h.example/a%20b/c_d.e/did.json"),
    ],
)
def test_check_59_a_did_names_the_url_of_its_document(did: str, url: str) -> None:
    assert read_web_did(did).document_url == url


@pytest.mark.parametrize(
    "did",
    [
        *(
            "did:web:",
            "did:key:z6Mk",
            "did:web:a b",
            "did:web:user@host",
            "did:web:host/path",
            "did:web:host#k",
            "web:x",
        ),
        *("did:web:127.0.0.1", "did:web:2130706433", "did:web:0x7f.1", "did:web:1.0x7f", "did:web:%5B%3A%3A1%5D"),
        *(
            "did:web:host%3A0",
            "did:web:host%3A65536",
            "did:web:host%3A",
            "did:web:host%3A80%3A80",
            "did:web:host:8443:..",
        ),
        *("did:web:host:..", "did:web:host:%2e%2E", "did:web:host:a%2Fb", "did:web:host:", "did:web:host:a::b"),
        *(
            "did:web:-a.example",
            "did:web:a..b",
            "did:web:é.example",
            "did:web:host:%00",
            "did:web:host:a%5cb",
            "DID:WEB:x",
        ),
        "did:web:" + "a." * 200 + "b",
        "did:web:host\n",
    ],
)
def test_check_59_a_did_that_leads_elsewhere_is_refused(did: str) -> None:
    with pytest.raises(InvalidInput):
        read_web_did(did)


def test_check_59_names_of_ours_are_built() -> None:
    assert (
        web_did("localhost", "agents", "my coder é", port=8443) == "did:web:localhost%3A8443:agents:my%20coder%20%C3%A9"
    )
    for host, segment in (("a/b", "x"), ("127.0.0.1", "x"), ("host", ".."), ("host", "a/b"), ("host", "")):
        with pytest.raises(InvalidInput):
            web_did(host, segment)


def test_check_59_did_documents_go_round() -> None:
    made = build_did_document(CLIENT, KEYS, "https://client.example/v1/messages")
    got = read_did_document(json.dumps(made).encode(), CLIENT)
    assert got.keys == KEYS
    assert '"d"' not in json.dumps(made)
    with pytest.raises(InvalidInput, match="not of"):
        build_did_document(CLIENT, [WORKER_KEY.public()])


def test_check_59_a_document_may_use_fragments_embed_keys_and_list_other_kinds() -> None:
    key = {"id": "#k1", "type": "JsonWebKey", "publicKeyJwk": ED_KEY.public().jwk}
    document = {
        "id": CLIENT,
        "verificationMethod": [
            key,
            {"id": "#rsa", "type": "JsonWebKey", "publicKeyJwk": {"kty": "RSA"}},
            {"id": "#multi", "type": "Multikey", "publicKeyMultibase": "z6Mk"},
            {"id": f"{WORKER}#k1", "type": "JsonWebKey", "publicKeyJwk": WORKER_KEY.public().jwk},
            {**key, "id": "#theirs", "controller": WORKER},
        ],
        "authentication": ["#k1", "#rsa", "#multi", f"{WORKER}#k1", "#theirs", "#absent", 7, {**key, "id": "#inside"}],
    }
    got = read_did_document(json.dumps(document).encode(), CLIENT)
    assert [item.kid for item in got.keys] == [f"{CLIENT}#k1", f"{CLIENT}#inside"]


@pytest.mark.parametrize(
    "document",
    [
        {"id": WORKER},
        {"id": CLIENT, "assertionMethod": "x"},
        {"id": CLIENT, "assertionMethod": ["#k"] * 33},
        {"id": CLIENT, "assertionMethod": [{"id": "#k", "type": "JsonWebKey", "publicKeyJwk": EC_KEY.private_jwk()}]},
        {},
        [],
    ],
    ids=range(6),
)
def test_check_59_a_bad_document_is_refused(document: Any) -> None:
    with pytest.raises(InvalidInput):
        read_did_document(json.dumps(document).encode(), CLIENT)


def test_a_key_is_named_by_a_did_url() -> None:
    assert split_did_url(f"{CLIENT}#k1") == (CLIENT, "k1")
    assert is_web_did(CLIENT)
    assert not is_web_did("did:key:z6Mk")
    for text in (CLIENT, f"{CLIENT}#", f"{CLIENT}/p#k", f"{CLIENT}?v=1#k", "#k", f"{CLIENT}#k#k"):
        with pytest.raises(InvalidInput):
            split_did_url(text)


@pytest.mark.parametrize("code", Code)
def test_check_60_every_code_has_its_carriage_and_a_whole_error_object(code: Code) -> None:
    error = UAMPError(code, "why", retry_after=timedelta(seconds=2), ref=ID)
    again = read_error(json.loads(json.dumps(error.to_json())))
    assert again.to_json() == error.to_json()
    assert {*error.to_json()} == {"code", "message", "retryable", "retry_after", "ref"}
    problem = error.to_problem()
    assert (problem["code"], problem["status"]) == (code.value, CARRIAGE[code].http_status)
    assert CARRIAGE[code].is_extension == (code.value not in ("4.01", "4.03", "4.09", "4.13", "5.04"))


def test_check_60_the_codes_of_the_specification_are_retried_as_it_says() -> None:
    retried = {code: CARRIAGE[Code(code)].retryable for code in ("4.01", "4.03", "4.09", "4.13", "5.04")}
    assert retried == {"4.01": False, "4.03": False, "4.09": True, "4.13": False, "5.04": True}
    assert CARRIAGE[Code.BUSY].http_status == 503


def test_check_60_a_code_that_is_not_known_is_kept_and_travels_as_internal() -> None:
    error = read_error({"code": "4.77", "message": "new", "retryable": True, "retry_after": 1e12, "more": 1})
    assert (error.code, error.retryable, error.carriage.http_status) == ("4.77", True, 500)
    assert error.retry_after == timedelta(days=1)


@pytest.mark.parametrize("value", [None, [], {}, {"code": "409", "message": ""}, {"code": 4.09, "message": "x"}])
def test_check_60_what_is_no_error_object_is_refused(value: Any) -> None:
    with refused("4.00"):
        read_error(value)


def test_the_proto_file_has_the_service_and_the_field_numbers() -> None:
    text = (Path(__file__).parents[4] / "protos" / "uamp.proto").read_text(encoding="utf-8")
    assert "package uamp.v1;" in text
    assert re.findall(r"rpc (\w+)\((\w+ ?\w*)\) returns \((\w+ ?\w*)\)", text) == [
        ("Send", "EnvelopeFrame", "SendReply"),
        ("Stream", "StreamRequest", "stream Frame"),
        ("Connect", "stream Frame", "stream Frame"),
        ("GetManifest", "ManifestRequest", "SignedManifest"),
    ]
    numbers = {
        name: [f"{number}:{field}" for field, number in re.findall(r"(\w+) = (\d+);", body)]
        for name, body in re.findall(r"message (\w+) \{(.*?)\n?\}\n", text, re.DOTALL)
    }
    assert numbers["EnvelopeFrame"] == ["1:json", "2:media_type"]
    assert numbers["DeltaFrame"] == ["1:json", "2:delta_seq", "3:stream_id"]
    assert numbers["SendReply"] == ["1:accepted", "2:stream_id", "3:location", "4:envelope_id"]
    assert numbers["StreamRequest"] == ["1:stream_id", "2:last_delta_seq", "3:delta_window"]
    assert numbers["Error"] == ["1:code", "2:message", "3:retryable", "4:retry_after_ms", "5:ref"]
    assert numbers["SignedManifest"] == ["1:jws"]
