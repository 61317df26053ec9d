"""Whatever is sent is read, or refused with a code of the sender's fault: never another exception, never a 5.xx."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.protocols.uamp_envelope.body import decode_body
from perdure.protocols.uamp_envelope.canonical import canonical_json
from perdure.protocols.uamp_envelope.cap_token import read_cap_token
from perdure.protocols.uamp_envelope.delta import read_delta
from perdure.protocols.uamp_envelope.envelope import read_envelope
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.manifest import read_manifest
from perdure.protocols.uamp_envelope.signature import envelope_bytes, sign_envelope, verify_signature
from tests.scale import scaled
from tests.unit.protocols.uamp_envelope.samples import CLIENT, ED_KEY, ID, KEYS, WORKER, fields

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2.0**53) + 1, 2.0**53 - 1)
    | st.floats(1e21, 1e308)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = (
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
    "ext",
)
ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, "", "x", "\u0000", "\ud800", [], {}, [[]], [None], {"id": 1}, ID, CLIENT, [WORKER]),
    *("2025-07-10T13:37:05Z", "ask", "9" * 400, {"type": "a/b", "content": "x", "encoding": "base64"}),
    *({"type": "a/b", "content": "AAAA", "encoding": "base64url", "compression": "gzip"}, [{"id": ID, "hash": "x"}]),
]
SENT = envelope_bytes(sign_envelope(fields(ext={"a": [1, {"b": "c"}]}), ED_KEY))


def judge(data: bytes) -> str:
    """The code with which an envelope is refused, or "" if it is accepted with a body that can be read."""
    try:
        envelope = read_envelope(data)
        verify_signature(envelope, KEYS)
        decode_body(envelope.body)
        if envelope.cap_token is not None:
            read_cap_token(envelope.cap_token)
    except UAMPError as error:
        json.dumps(error.to_problem()).encode()
        return error.code
    return ""


def outcome(read: Callable[[bytes], object], data: bytes) -> str:
    """The code with which something is refused, or "" if it is read."""
    try:
        read(data)
    except UAMPError as error:
        return error.code
    return ""


def read_manifest_of_h(data: bytes) -> object:
    return read_manifest(data, fetched_from="h.example")


def test_a_mutated_envelope_is_refused_with_a_code_of_4() -> None:
    chance, accepted = random.Random(20250710), 0
    for _ in range(scaled(40_000)):
        value: dict[str, Any] = {**json.loads(SENT)}
        for _ in range(chance.randint(1, 3)):
            name = chance.choice(NAMES)
            value[name] = chance.choice(ODD)
        data = bytearray(json.dumps(value, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass"))
        if chance.random() < 0.3:
            data[chance.randrange(len(data))] = chance.randrange(256)
        code = judge(bytes(data))
        assert code == "" or code.startswith("4."), (code, bytes(data))
        accepted += code == "" and read_envelope(bytes(data)).sha256 != read_envelope(SENT).sha256
    assert accepted == 0, "another envelope passed with the signature of this one"


def test_a_damaged_byte_never_makes_another_envelope_valid() -> None:
    chance = random.Random(7)
    for _ in range(scaled(20_000)):
        data = bytearray(SENT)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        assert judge(bytes(data)).startswith("4.") or read_envelope(bytes(data)).sha256 == read_envelope(SENT).sha256
    assert judge(SENT) == ""


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4))
def test_canonical_form_is_one_and_signatures_hold_over_it(ext: dict[str, Any]) -> None:
    made = sign_envelope(fields(ext=ext), ED_KEY)
    for text in (json.dumps(made.json), json.dumps(dict(reversed(made.json.items())), indent=1)):
        got = read_envelope(text.encode())
        assert got.sha256 == made.sha256
        assert verify_signature(got, KEYS).kid == ED_KEY.kid
    once = canonical_json(made.json)
    assert canonical_json(json.loads(once)) == once


@settings(max_examples=80, deadline=None)
@given(
    st.binary(max_size=60) | st.text(max_size=40).map(str.encode) | VALUES.map(lambda value: json.dumps(value).encode())
)
def test_anything_at_all_is_refused_with_a_code_of_4(data: bytes) -> None:
    for read in (read_envelope, read_delta, read_manifest_of_h):
        assert outcome(read, data).startswith("4.")
