"""Envelopes by chance: damaged, changed with and without a new signature, or nothing of the kind."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import rfc8785

from tests.conformance.envelope_peer import MEDIA_TYPE, Envelope, Peer, new_id, sha256_of, wire

NAMES = (
    *(
        "id",
        "ts",
        "from",
        "to",
        "intent",
        "reply_to",
        "context",
        "stream_id",
        "delta_window",
        "body",
        "cap_token",
        "sig",
    ),
    *("ext", "more", "\u0000", "😀", "__proto__", ""),
)
HASH = "sha256:" + "0a" * 32
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 1.5, -0.0, 1e300, 2**53 - 1, 2**53, 2**63, 10**400, "", "x", "9" * 400, "\u0000"),
    *("\ud800", "\udc00\ud800", "😀", "\u202e", "%00", "../../etc/passwd", "' or 1=1 --", "{{7*7}}", "\r\nX: y", " "),
    *([], {}, [[]], [None], {"": {}}, [0] * 300, {"id": 1}, {"a": {"b": {"c": [1, 2, {"d": None}]}}}),
    *("ask", "inform", "notify", "subscribe", "cancel", "progress", "error", "confirm", "deny", "zzz"),
    *("2025-07-10T13:37:05Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-11-29T14:00:60Z", "1e400"),
    *(
        "did:web:ann.example",
        "did:web:localhost%3A1",
        "did:web:169.254.169.254",
        "did:key:z6Mk",
        "urn:x",
        "file:///etc",
    ),
    *("urn:uuid:6f1c7a0e-2f5b-4a53-9d3e-0c7b3e0a1d11", "6F1C7A0E-2F5B-4A53-9D3E-0C7B3E0A1D11", "str/../x", "." * 128),
    *(
        {"type": "text/plain", "content": "x"},
        {"type": "text/plain", "content": "\ud800"},
        {"type": "a", "content": ""},
    ),
    {"type": "image/png", "content": "AAAA", "encoding": "base64"},
    {"type": "text/plain", "content": "AAAA", "encoding": "base64url", "compression": "gzip"},
    {"type": "text/plain", "content": "KLUv_SAA", "encoding": "base64url", "compression": "zstd"},
    {"type": "application/json", "content": '{"ack": 9223372036854775807}'},
    {"type": "application/json", "content": '{"ack": -1}'},
    {"type": "application/json", "content": '{"session": "\\u0000"}'},
    [{"id": "urn:uuid:6f1c7a0e-2f5b-4a53-9d3e-0c7b3e0a1d11", "hash": HASH}],
    [{"id": "x", "hash": HASH}] * 3,
    *("a.b.c", "..", "eyJhbGciOiJub25lIn0..", "eyJhbGciOiJFUzI1NiJ9..AAAA", "eyJhbGciOiJFUzI1NiJ9.e30." + "A" * 86),
]
TYPES = (
    *(MEDIA_TYPE, MEDIA_TYPE, MEDIA_TYPE, MEDIA_TYPE, "application/uamp+json", "application/json", "", ";", "x" * 300),
    *("application/uamp+json;v=1;v=2", 'application/uamp+json;v="', "multipart/form-data; boundary=x", "text/plain"),
)
_SPELLED = 0.5


@dataclass(frozen=True)
class Fuzzed:
    """What is sent.

    Attributes:
        data: the body of a POST.
        media_type: its Content-Type.
        may_pass: the hashes with which it may be accepted: of what a peer really has signed.
    """

    data: bytes
    media_type: str
    may_pass: frozenset[str]


def fuzzed(chance: random.Random, peer: Peer) -> Fuzzed:
    """The next one."""
    sent = peer.signed(intent="inform", ext={"a": [1, {"b": "c"}]})
    kind = chance.randrange(10)
    media_type = chance.choice(TYPES) if kind == 0 else MEDIA_TYPE
    if kind == 1:
        return Fuzzed(_anything(chance), media_type, frozenset())
    signed = [sha256_of(sent)]
    if kind > 2:
        sent = _changed(chance, sent)
    if kind > 6:
        sent = _signed_again(peer, sent)
        signed.append(_hash(sent))
    data = json.dumps(sent, ensure_ascii=chance.random() < _SPELLED).encode("utf-8", "surrogatepass")
    if kind == 2:
        data = _damaged(chance, data)
    return Fuzzed(data, media_type, frozenset(signed))


def hash_of(data: bytes) -> str:
    """The hash of an envelope that was accepted."""
    return _hash(json.loads(data))


def _changed(chance: random.Random, envelope: Envelope) -> Envelope:
    made = dict(envelope)
    for _ in range(chance.randint(1, 3)):
        where = chance.randrange(4)
        if where == 0 and isinstance(made.get("body"), dict):
            made["body"] = {
                **made["body"],
                chance.choice(("type", "content", "encoding", "compression", "x")): _value(chance),
            }
        elif where == 1:
            made.pop(chance.choice(NAMES), None)
        else:
            made[chance.choice(NAMES)] = _value(chance)
    if made.get("intent") == "propose":
        made["intent"] = "notify"
    return made


def _value(chance: random.Random) -> Any:
    return new_id() if chance.random() < 0.05 else chance.choice(VALUES)


def _signed_again(peer: Peer, envelope: Envelope) -> Envelope:
    """The same with a signature of what it is now, as far as that has a canonical form."""
    bare = {name: value for name, value in envelope.items() if name != "sig"}
    try:
        return peer.sign(bare)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        return envelope


def _hash(envelope: Envelope) -> str:
    try:
        return sha256_of(envelope)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        return ""


def _damaged(chance: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made))
        match chance.randrange(4):
            case 0:
                made[at] ^= 1 << chance.randrange(8)
            case 1:
                made[at] = chance.randrange(256)
            case 2:
                del made[at : at + chance.randint(1, 20)]
            case _:
                made[at:at] = made[chance.randrange(len(made)) :][:30]
    return bytes(made) or b"x"


def _anything(chance: random.Random) -> bytes:
    match chance.randrange(5):
        case 0:
            return chance.randbytes(chance.randint(0, 300))
        case 1:
            return wire({"value": chance.choice([value for value in VALUES if "\\ud" not in json.dumps(value)])})
        case 2:
            return b"[" * chance.randint(1, 5000)
        case 3:
            return b'{"id":' * chance.randint(1, 500)
        case _:
            return b"{" + b'"a":1,' * chance.randint(1, 2000) + b'"b":2}'
