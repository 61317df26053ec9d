"""Checks 1 to 11 of the conformance list: the envelope's form."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from perdure.protocols.uamp_envelope.body import encode_body
from perdure.protocols.uamp_envelope.envelope import (
    DEFAULT_WINDOW,
    Reference,
    build_envelope,
    envelope_of,
    read_envelope,
)
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.media_type import check_content_type
from perdure.protocols.uamp_envelope.schema import check_schema, schema
from perdure.protocols.uamp_envelope.signature import envelope_bytes, sign_envelope
from perdure.protocols.uamp_envelope.strict_json import MAX_DEPTH, parse_object
from tests.unit.protocols.uamp_envelope.samples import (
    CLIENT,
    ED_KEY,
    ID,
    KEYS,
    NOW,
    OTHER_ID,
    WORKER,
    fields,
    refused,
    signed,
)

SIGNED = {**fields(), "sig": "e30..AA"}


def read(value: Any) -> Any:
    return read_envelope(json.dumps(value).encode())


def test_check_01_an_emitted_envelope_obeys_the_schema() -> None:
    made = build_envelope(
        id=UUID(ID.removeprefix("urn:uuid:")),
        now=NOW,
        sender=CLIENT,
        to=[WORKER],
        intent=Intent.ASK,
        body=encode_body("text/plain", "2+2"),
        reply_to=OTHER_ID,
        context=[Reference(UUID(OTHER_ID.removeprefix("urn:uuid:")), "sha256:" + "0" * 64)],
        stream_id="str-1",
        delta_window=8,
        cap_token="a.b.c",
        ext={"x-trace": "b3"},
    )
    sent = envelope_bytes(sign_envelope(made, ED_KEY))
    check_schema("envelope", parse_object(sent))
    got = read_envelope(sent)
    assert (got.sender, got.recipients, got.intent, got.window, got.sent_at) == (CLIENT, (WORKER,), Intent.ASK, 8, NOW)
    assert got.json == {**made, "sig": got.sig}


def test_check_01_the_schema_names_the_members_of_the_specification() -> None:
    required, properties = schema("envelope")["required"], schema("envelope")["properties"]
    assert required == ["id", "ts", "from", "to", "intent", "body", "sig"]
    assert isinstance(properties, dict)
    assert {*properties} == {
        *("id", "ts", "from", "to", "intent", "reply_to", "context", "stream_id", "delta_window"),
        *("body", "cap_token", "sig", "ext"),
    }


@pytest.mark.parametrize("name", ["id", "ts", "from", "to", "intent", "body", "sig"])
def test_check_02_each_required_member_is_required(name: str) -> None:
    with refused("4.00"):
        read({key: value for key, value in SIGNED.items() if key != name})


def test_check_02_an_unknown_top_level_member_is_refused() -> None:
    with refused("4.00") as caught:
        read({**SIGNED, "priority": 1})
    assert caught.value.ref == ID


@pytest.mark.parametrize(
    "to", [[], WORKER, [7], ["worker"], ["did:web:a b"], [WORKER + "\n"], [""], ["u:" + "a" * 600]]
)
def test_check_03_bad_recipients_are_refused(to: Any) -> None:
    with refused("4.00"):
        read({**SIGNED, "to": to})


@pytest.mark.parametrize("intent", ["Ask", "", "asks", None, 1, "ask\n"])
def test_check_04_an_intent_outside_the_ten_is_refused(intent: Any) -> None:
    with refused("4.00"):
        read({**SIGNED, "intent": intent})


@pytest.mark.parametrize("intent", Intent)
def test_check_04_each_of_the_ten_is_read(intent: Intent) -> None:
    assert read({**SIGNED, "intent": intent.value}).intent is intent


def test_check_05_an_id_is_read_with_and_without_its_prefix_and_kept_as_written() -> None:
    bare = ID.removeprefix("urn:uuid:")
    spellings = (ID, bare, bare.upper(), "URN:UUID:" + bare.upper())
    got = [read({**SIGNED, "id": text}) for text in spellings]
    assert {envelope.id for envelope in got} == {UUID(bare)}
    assert tuple(envelope.id_text for envelope in got) == spellings


@pytest.mark.parametrize(
    "id", ["urn:uuid:1111", "urn:uuid:imgreq", "{" + ID[9:] + "}", ID[9:].replace("-", ""), ID + "\n"]
)
def test_check_05_what_is_no_uuid_is_refused(id: str) -> None:
    for name in ("id", "reply_to"):
        with refused("4.00"):
            read({**SIGNED, name: id})


@pytest.mark.parametrize(
    "ts",
    [
        *("2025-07-10T13:37:05+00:00", "2025-07-10T13:37:05+02:00", "2025-07-10T13:37:05", "2025-02-30T00:00:00Z"),
        *("2025-07-10T24:00:00Z", "2025-07-10 13:37:05Z", "2025-07-10T13:37:05.Z", "2025-07-10T13:37:05.1234567890Z"),
        *("٢٠٢٥-07-10T13:37:05Z", "2025-07-10T13:37:05Z\n", "0000-01-01T00:00:00Z", "2025-07-10T13:37:05z"),
    ],
)
def test_check_06_a_time_that_is_not_utc_or_not_there_is_refused(ts: str) -> None:
    with refused("4.00"):
        read({**SIGNED, "ts": ts})


@pytest.mark.parametrize(("fraction", "micros"), [(".5", 500_000), (".000001", 1), (".123456789", 123_456), ("", 0)])
def test_check_06_fractions_are_read(fraction: str, micros: int) -> None:
    expected = datetime(2025, 7, 10, 13, 37, 5, tzinfo=UTC) + timedelta(microseconds=micros)
    assert read({**SIGNED, "ts": f"2025-07-10T13:37:05{fraction}Z"}).sent_at == expected


@pytest.mark.parametrize("window", [0, -1, 1.5, "64", True, None])
def test_check_07_a_window_that_is_no_positive_integer_is_refused(window: Any) -> None:
    with refused("4.00"):
        read({**SIGNED, "delta_window": window})


def test_check_07_an_absent_window_counts_as_64_and_is_not_hashed() -> None:
    absent, said = signed(), signed(delta_window=64)
    assert (absent.window, said.window) == (DEFAULT_WINDOW, DEFAULT_WINDOW) == (64, 64)
    assert absent.sha256 != said.sha256
    assert "delta_window" not in absent.json


def test_check_07_a_great_window_counts_as_the_limit() -> None:
    assert read({**SIGNED, "delta_window": 2**40}).window == 1024


@pytest.mark.parametrize("hash", ["sha256:" + "A" * 64, "sha256:" + "a" * 63, "a" * 64, "sha256:" + "a" * 64 + "\n", 1])
def test_check_08_a_context_hash_has_its_form(hash: Any) -> None:
    with refused("4.00"):
        read({**SIGNED, "context": [{"id": ID, "hash": hash}]})


def test_check_08_a_context_item_may_have_more_members() -> None:
    item = {"id": OTHER_ID, "hash": "sha256:" + "a" * 64, "note": "kept"}
    assert read({**SIGNED, "context": [item]}).context == (Reference(UUID(OTHER_ID[9:]), item["hash"]),)


@pytest.mark.parametrize("body", [{"type": "text/plain"}, {"content": "x"}, {"type": 1, "content": "x"}, "text", None])
def test_check_09_a_body_needs_type_and_content(body: Any) -> None:
    with refused("4.00"):
        read({**SIGNED, "body": body})


def test_check_09_more_members_of_a_body_are_read_and_signed() -> None:
    body = {"type": "text/plain", "content": "x", "lang": "en"}
    one, other = signed(body=body), signed(body={**body, "lang": "de"})
    assert one.body == body
    assert one.sha256 != other.sha256
    assert one.sig != other.sig


TEXT = json.dumps(SIGNED)


@pytest.mark.parametrize(
    "data",
    [
        TEXT.replace('"intent"', '"to": [], "intent"').encode(),
        TEXT.replace('"2+2"', '"2+2", "content": "3+3"').encode(),
        TEXT.replace('"2+2"', '"2+2", "n": NaN').encode(),
        TEXT.replace('"2+2"', '"2+2", "n": -Infinity').encode(),
        TEXT.replace('"2+2"', '"2+2", "n": 1e999').encode(),
        TEXT.replace('"2+2"', '"2+2", "n": 9007199254740992').encode(),
        TEXT.replace('"2+2"', '"2+2", "n": 9007199254740992.0').encode(),
        TEXT.replace('"2+2"', '"2+2", "n": -1e20').encode(),
        TEXT.replace('"2+2"', '"2+2", "n": ' + "9" * 9999).encode(),
        TEXT.replace("2+2", r"\ud800").encode(),
        TEXT.replace("2+2", r"\udc00\ud800").encode(),
        TEXT.replace('"2+2"', r'"2+2", "\ud800": 1').encode(),
        TEXT.replace("2+2", "2+2\t").encode(),
        TEXT.encode().replace(b"2+2", b"\xff"),
        TEXT.encode().replace(b"2+2", b"\xed\xa0\x80"),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.encode("utf-16"),
        TEXT.encode() + b"{}",
        b"[" * 500_000,
        b'{"a":' * 100_000,
        b"[]",
        b"null",
        b"",
    ],
    ids=range(23),
)
def test_check_10_a_text_with_no_or_two_readings_is_refused(data: bytes) -> None:
    with refused("4.00"):
        read_envelope(data)


def test_check_10_the_nesting_is_bounded_exactly() -> None:
    def nested(levels: int) -> bytes:
        return b'{"a":' + b"[" * (levels - 1) + b"1" + b"]" * (levels - 1) + b"}"

    assert parse_object(nested(MAX_DEPTH))
    with refused("4.00"):
        parse_object(nested(MAX_DEPTH + 1))


def test_check_10_a_large_text_is_refused_unread() -> None:
    with refused("4.13"):
        read_envelope(b"[" * 1001, max_bytes=1000)


def test_check_10_a_value_that_was_built_is_held_to_the_same() -> None:
    for bad in ("\ud800", float("nan"), 2**53):
        with refused("4.00"):
            envelope_of({**SIGNED, "ext": {"x": [bad]}})


@pytest.mark.parametrize(
    "header",
    [
        *("application/uamp+json", "application/uamp+json;v=1", "application/uamp+json; v=1; charset=UTF-8"),
        'Application/UAMP+JSON ; v="1";',
    ],
)
def test_check_11_the_media_type_is_taken_with_and_without_version(header: str) -> None:
    check_content_type(header)


@pytest.mark.parametrize(
    "header",
    [
        *(
            "application/uamp+json;v=2",
            "text/json",
            "application/json",
            "",
            None,
            "application/uamp+json;charset=latin-1",
        ),
        "application/uamp+json;v",
    ],
)
def test_check_11_another_media_type_is_refused(header: str | None) -> None:
    with refused("4.15"):
        check_content_type(header)


def test_a_secret_of_an_envelope_is_not_repeated_in_an_error() -> None:
    with refused("4.00") as caught:
        read({**SIGNED, "cap_token": {"token": "hush-hush"}})
    assert "hush" not in caught.value.message


def test_a_list_of_very_many_recipients_is_refused_before_it_is_looked_through() -> None:
    with refused("4.00"):
        read({**SIGNED, "to": ["x"] * 100_000})


def test_the_keys_of_the_samples_differ() -> None:
    assert {key.algorithm for key in KEYS} == {"ES256", "EdDSA"}
