"""Checks 10 to 15 of UAMP's envelope over real sockets: texts with one reading only, and what a signature is over.

Envelopes are made and signed by jwcrypto and rfc8785. An `inform` stands for every envelope where no answer matters.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from perdure.protocols.uamp_envelope.canonical import canonical_bytes, signature_payload
from perdure.protocols.uamp_envelope.envelope import envelope_of
from perdure.protocols.uamp_envelope.keys import signing_key
from perdure.protocols.uamp_envelope.signature import sign_envelope
from tests.conformance.envelope_lines import HttpLine
from tests.conformance.envelope_peer import wire
from tests.conformance.envelope_server import EnvelopeServer

HASH = "sha256:" + "0a" * 32


@pytest.fixture
async def ann(envelopes: EnvelopeServer) -> AsyncGenerator[HttpLine]:
    async with envelopes.http("ann") as line:
        yield line


TWICE = b'"intent":"inform","intent":"ask"'
TWO_READINGS: dict[str, Callable[[bytes], bytes]] = {
    "a member twice": lambda text: text.replace(b'"intent": "inform"', TWICE),
    "a deep member twice": lambda text: text.replace(b'"content": "', b'"content": "y", "content": "'),
    "one spelled by an escape": lambda text: text.replace(
        b'"intent": "inform"', b'"intent":"inform","\\u0069ntent":"ask"'
    ),
    "NaN": lambda text: text.replace(b'"n": 1', b'"n": NaN'),
    "Infinity": lambda text: text.replace(b'"n": 1', b'"n": -Infinity'),
    "an integer beyond 2^53 - 1": lambda text: text.replace(b'"n": 1', b'"n": 9007199254740992'),
    "a number beyond doubles": lambda text: text.replace(b'"n": 1', b'"n": 1e400'),
    "a lone surrogate": lambda text: text.replace(b'"n": 1', b'"n": "\\ud800"'),
    "surrogates the wrong way": lambda text: text.replace(b'"n": 1', b'"n": "\\udc00\\ud800"'),
    "a name that is a lone surrogate": lambda text: text.replace(b'"n": 1', b'"\\udfff": 1'),
    "invalid UTF-8": lambda text: text.replace(b'"n": 1', b'"n": "\xff\xfe"'),
    "an overlong form": lambda text: text.replace(b'"n": 1', b'"n": "\xc0\xaf"'),
    "a surrogate in UTF-8": lambda text: text.replace(b'"n": 1', b'"n": "\xed\xa0\x80"'),
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "UTF-16": lambda text: text.decode().encode("utf-16"),
    "a deep list": lambda text: text.replace(b'"n": 1', b'"n": ' + b"[" * 70 + b"]" * 70),
    "a bomb of depth": lambda text: b"[" * 200_000 + b"]" * 200_000,
    "an open bomb of depth": lambda text: b'{"a":' * 100_000,
    "cut off": lambda text: text[:-1],
    "followed by more": lambda text: text + b"{}",
    "a comment": lambda text: text + b"// x",
    "single quotes": lambda text: text.replace(b'"', b"'"),
    "a trailing comma": lambda text: text[:-1] + b",}",
    "a control character": lambda text: text.replace(b'"n": 1', b'"n": "\x01"'),
    "a leading zero": lambda text: text.replace(b'"n": 1', b'"n": 01'),
    "a list": lambda text: b"[" + text + b"]",
    "a string": lambda text: json.dumps(text.decode()).encode(),
    "nothing": lambda text: b"",
    "null": lambda text: b"null",
}


@pytest.mark.parametrize("name", TWO_READINGS)
async def test_e10_a_text_with_no_reading_or_two_is_refused(ann: HttpLine, name: str) -> None:
    text = wire(ann.peer.signed(intent="inform", ext={"n": 1}))
    changed = TWO_READINGS[name](text)
    assert changed != text, "the case says nothing"
    await ann.refused(changed, "4.00", 400)


@pytest.mark.parametrize(
    "kind",
    [
        *(
            "application/uamp+json;v=1",
            "application/uamp+json",
            "Application/UAMP+JSON ; V=1",
            "application/uamp+json;",
        ),
        *('application/uamp+json;v="1"', "application/uamp+json; charset=utf-8; v=1"),
    ],
)
async def test_e11_the_media_type_is_taken_with_its_version_and_without(ann: HttpLine, kind: str) -> None:
    response = await ann.post(ann.peer.signed(intent="inform"), content_type=kind)
    assert response.status_code == 202, response.text


@pytest.mark.parametrize(
    "kind",
    [
        *("application/uamp+json;v=2", "text/json", "application/json", "application/uamp+json;q=1", "", "*/*"),
        *("application/uamp+json;charset=latin-1", "application/x-www-form-urlencoded", "multipart/form-data"),
    ],
)
async def test_e11_another_media_type_is_refused(ann: HttpLine, kind: str) -> None:
    await ann.refused(ann.peer.signed(intent="inform"), "4.15", 415, content_type=kind)


def test_e12_the_vector_is_reproduced_byte_for_byte() -> None:
    """Of the reference: the key is that of RFC 8037, appendix A."""
    secret = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
    public = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    key = signing_key("did:web:client.example#k1", {"kty": "OKP", "crv": "Ed25519", "d": secret, "x": public})
    unsigned: dict[str, Any] = {
        "ext": {"n": 1.0, "\ufb33": 2, "\U0001f600": 1},
        "id": "urn:uuid:6f1c7a0e-2f5b-4a53-9d3e-0c7b3e0a1d11",
        "ts": "2025-07-10T13:37:05Z",
        "from": "did:web:client.example",
        "to": ["did:web:worker.example"],
        "intent": "ask",
        "body": {"type": "text/plain", "content": "2+2 \u20ac \U0001f600"},
    }
    assert canonical_bytes(unsigned).decode() == (
        '{"body":{"content":"2+2 \u20ac \U0001f600","type":"text/plain"},"ext":{"n":1,"\U0001f600":1,"\ufb33":2},'
        '"from":"did:web:client.example","id":"urn:uuid:6f1c7a0e-2f5b-4a53-9d3e-0c7b3e0a1d11","intent":"ask",'
        '"to":["did:web:worker.example"],"ts":"2025-07-10T13:37:05Z"}'
    )
    made = sign_envelope(unsigned, key)
    assert made.sha256 == "f42f6785fb27e26c9ea8fd5c144daee548632e5294d1f9b80f7e62349662dcba"
    assert signature_payload(made.sha256) == b'{"sha256":"' + made.sha256.encode() + b'"}'
    assert made.sig == (
        "eyJhbGciOiJFZERTQSIsImtpZCI6ImRpZDp3ZWI6Y2xpZW50LmV4YW1wbGUjazEifQ.."
        "q9ctaKct7PJUwPxlMDQpD9u2CQc3iV7U6MB-hQHmR-LDP529gdZPmiMqWBgTWv1gbYxpLno_E6pvKBJxv7BfCw"
    )
    assert envelope_of(made.json).sha256 == made.sha256


async def test_e13_order_and_spacing_of_the_wire_do_not_matter(ann: HttpLine) -> None:
    """All spellings are one envelope: the second is answered as the first was, and nothing is done again."""
    sent = ann.peer.signed("é 😀", ext={"b": 1, "a": {"d": [1.5, True, None], "c": "\u2028"}})
    spellings = (
        wire(sent),
        json.dumps(sent, indent=4).encode(),
        json.dumps(dict(reversed(sent.items())), separators=(",", ":"), ensure_ascii=False).encode(),
        json.dumps(sent, sort_keys=True).encode().replace(b"{", b"\r\n\t{ ").replace(b"/", b"\\/"),
    )
    places = [(await ann.send(text)).headers["location"] for text in spellings]
    assert len(set(places)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"body": {"type": "text/plain", "content": "y", "meta": {"a": [1, {"b": "c"}]}}},
        {"body": {"type": "text/plain", "content": "x", "meta": {"a": [1, {"b": "d"}]}}},
        {"body": {"type": "text/plain", "content": "x", "meta": {"a": [{"b": "c"}, 1]}}},
        {"body": {"type": "text/markdown", "content": "x", "meta": {"a": [1, {"b": "c"}]}}},
        {"body": {"type": "text/plain", "content": "x"}},
        {"ext": {"deep": {"er": 2}}},
        {"ext": {}},
        {"ext": {"deep": {"er": 1}, "more": None}},
        {"context": [{"id": "urn:uuid:6f1c7a0e-2f5b-4a53-9d3e-0c7b3e0a1d11", "hash": "sha256:" + "0b" * 32}]},
        {"context": []},
        {"stream_id": "other"},
        {"delta_window": 5},
        {"intent": "notify"},
    ],
)
async def test_e14_a_change_anywhere_breaks_the_signature(ann: HttpLine, change: dict[str, Any]) -> None:
    """Also where the SDK of JavaScript does not look."""
    sent = ann.peer.signed(
        intent="inform",
        stream_id="one",
        delta_window=4,
        body={"type": "text/plain", "content": "x", "meta": {"a": [1, {"b": "c"}]}},
        ext={"deep": {"er": 1}},
        context=[{"id": "urn:uuid:6f1c7a0e-2f5b-4a53-9d3e-0c7b3e0a1d11", "hash": HASH}],
    )
    assert {**sent, **change} != sent
    await ann.refused({**sent, **change}, "4.01", 401)


async def test_e15_names_sort_by_utf16_and_values_have_one_form(ann: HttpLine) -> None:
    """Astral names sort before U+FB33; 1.0 and 1 are one; letters that look alike are not."""
    await ann.send(ann.peer.signed(intent="inform", ext={"\ufb33": 2, "😀": 1, "z": 3, "": 0}))
    sent = ann.peer.signed(intent="inform", ext={"n": 1, "m": -0.0, "k": 1e2})
    text = wire(sent)
    for spelled in (
        text,
        text.replace(b'"n": 1', b'"n": 1.0'),
        text.replace(b'"n": 1', b'"n": 10e-1'),
        text.replace(b'"m": -0.0', b'"m": 0'),
        text.replace(b'"k": 100.0', b'"k": 100'),
    ):
        await ann.send(spelled)
    composed = ann.peer.signed("caf\u00e9", intent="inform")
    await ann.refused(wire(composed).replace("\u00e9".encode(), "e\u0301".encode()), "4.01", 401)
    await ann.send(wire(composed).replace("\u00e9".encode(), b"\\u00e9"))
