"""Checks 1 to 9 of UAMP's envelope over real sockets: what an envelope must be.

Envelopes are made and signed by jwcrypto and rfc8785. An `inform` stands for every envelope where no answer matters.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import jsonschema
import pytest
from joserfc.util import urlsafe_b64decode
from jwcrypto import jwk, jws

from tests.conformance.envelope_lines import HttpLine, problem_of
from tests.conformance.envelope_peer import new_id, payload_of, sha256_of
from tests.conformance.envelope_server import EnvelopeServer
from tests.conformance.uamp_agents import call, plan

ID = "(urn:uuid:)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
INTENTS = ("ask", "inform", "propose", "confirm", "deny", "progress", "cancel", "subscribe", "notify", "error")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "ts", "from", "to", "intent", "body", "sig"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "pattern": f"^{ID}$"},
        "ts": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"},
        "from": {"type": "string", "pattern": "^[a-z]+:"},
        "to": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+:"}, "minItems": 1},
        "intent": {"enum": [*INTENTS]},
        "reply_to": {"type": "string", "pattern": f"^{ID}$"},
        "context": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "hash"],
                "properties": {
                    "id": {"type": "string", "pattern": f"^{ID}$"},
                    "hash": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
                },
            },
        },
        "stream_id": {"type": "string"},
        "delta_window": {"type": "integer", "minimum": 1},
        "body": {
            "type": "object",
            "required": ["type", "content"],
            "properties": {name: {"type": "string"} for name in ("type", "content", "encoding", "compression")},
        },
        "cap_token": {"type": "string"},
        "sig": {"type": "string"},
        "ext": {"type": "object"},
    },
}
"""Appendix A.1 with `format` replaced by patterns, written down here from the specification."""

HASH = "sha256:" + "0a" * 32
BODY = {"type": "text/plain", "content": "x"}


@pytest.fixture
async def ann(envelopes: EnvelopeServer) -> AsyncGenerator[HttpLine]:
    async with envelopes.http("ann") as line:
        yield line


async def told(line: HttpLine, content: str = "x", **members: Any) -> None:
    """Have an inform accepted."""
    await line.send(line.peer.signed(content, intent="inform", **members))


async def not_told(line: HttpLine, code: str = "4.00", status: int = 400, **members: Any) -> dict[str, Any]:
    """Have an inform refused that is signed as it is."""
    return await line.refused(line.peer.signed(intent="inform", **members), code, status)


async def test_e01_what_the_server_emits_obeys_the_schema_and_is_signed(envelopes: EnvelopeServer) -> None:
    """Its receipts by WebSocket are envelopes; the key is in the DID document, the hash is rfc8785's, the judge jwcrypto."""
    async with envelopes.http("ann") as http:
        document = (await http.http.get("/.well-known/did.json")).json()
    async with envelopes.socket("ann") as line:
        sent = line.peer.signed(intent="inform")
        await line.send(sent)
        receipt = await line.receive()
    validator: Any = jsonschema.Draft202012Validator(SCHEMA)
    validator.validate(receipt)
    assert re.fullmatch("urn:uuid:" + ID.removeprefix("(urn:uuid:)?"), receipt["id"])
    assert uuid.UUID(receipt["id"]).version == 4
    assert (receipt["from"], receipt["to"], receipt["reply_to"]) == (envelopes.did, [line.peer.did], sent["id"])
    header = json.loads(urlsafe_b64decode(receipt["sig"].split(".")[0].encode()))
    assert sorted(header) == ["alg", "kid"]
    methods = {str(one["id"]): one["publicKeyJwk"] for one in document["verificationMethod"]}
    key = next(jwk.JWK(**value) for name, value in methods.items() if header["kid"].endswith(name.rpartition("#")[2]))
    judge: Any = jws.JWS()
    judge.deserialize(receipt["sig"])
    judge.verify(key, detached_payload=payload_of(receipt))


@pytest.mark.parametrize("name", SCHEMA["required"])
async def test_e02_each_required_member_is_required(ann: HttpLine, name: str) -> None:
    sent = ann.peer.sign({key: value for key, value in ann.peer.unsigned(intent="inform").items() if key != name})
    if name == "sig":
        del sent["sig"]
    await ann.refused(sent, "4.00", 400)


async def test_e02_an_unknown_member_of_the_top_level_is_refused(ann: HttpLine) -> None:
    problem = await not_told(ann, priority=1)
    assert "priority" in problem["message"]


@pytest.mark.parametrize("to", [[], "did:web:worker.example", ["worker"], ["not a uri:x"], [1], [None], {}, 7])
async def test_e03_recipients_that_are_none_are_refused(ann: HttpLine, to: Any) -> None:
    await not_told(ann, to=to)


@pytest.mark.parametrize("intent", ["request", "ASK", "", "ask ", 1, ["ask"], True])
async def test_e04_an_intent_outside_the_ten_is_refused(ann: HttpLine, intent: Any) -> None:
    await ann.refused(ann.peer.signed(intent=intent), "4.00", 400)


async def test_e05_an_id_is_a_uuid_with_its_prefix_or_without(ann: HttpLine) -> None:
    """Whichever way and in whichever case it is written, it is the same id, and is told back as it was written."""
    value = uuid.uuid4()
    for text in (f"urn:uuid:{uuid.uuid4()}", str(uuid.uuid4()), str(uuid.uuid4()).upper(), f"URN:UUID:{uuid.uuid4()}"):
        response = await ann.send(ann.peer.signed(intent="inform", id=text))
        assert response.json()["id"] == text
    for text in ("urn:uuid:1111", "urn:uuid:imgreq", "", "x" * 36, f"uuid:{value}", f"urn:uuid:{value}\n", value.hex):
        await not_told(ann, id=text)
    first = ann.peer.signed(intent="inform", id=str(value))
    await ann.send(first)
    await ann.refused(ann.peer.signed("other", intent="inform", id=f"urn:uuid:{str(value).upper()}"), "4.22", 409)


async def test_e06_a_time_is_utc_and_in_the_calendar(envelopes: EnvelopeServer, ann: HttpLine) -> None:
    now = envelopes.clock()
    stem = now.strftime("%Y-%m-%dT%H:%M:%S")
    for text in (f"{stem}Z", f"{stem}.1Z", f"{stem}.123456789Z"):
        await told(ann, ts=text)
    refused = (stem, f"{stem}+00:00", f"{stem}-05:00", f"{stem}z", f"{stem}.Z", stem.replace("T", " ") + "Z", "now")
    for text in (*refused, "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-13-01T00:00:00Z"):
        await not_told(ann, ts=text)
    odd: tuple[Any, ...] = (1767225600, None, [], f"{stem}.1234567890Z")
    for value in odd:
        await ann.refused(ann.peer.sign({**ann.peer.unsigned(intent="inform"), "ts": value}), "4.00", 400)


@pytest.mark.parametrize("window", [0, -1, 1.5, "64", True, [4], {}])
async def test_e07_a_window_that_is_no_positive_integer_is_refused(ann: HttpLine, window: Any) -> None:
    await not_told(ann, delta_window=window)


async def test_e07_an_absent_window_is_not_in_the_hash(ann: HttpLine) -> None:
    """It counts as 64, but what was signed without it is another envelope than the one with it."""
    bare = ann.peer.unsigned(intent="inform")
    said = {**bare, "delta_window": 64}
    assert sha256_of(bare) != sha256_of(said)
    await ann.refused({**said, "sig": ann.peer.sign(bare)["sig"]}, "4.01", 401)
    await ann.refused({**bare, "sig": ann.peer.sign(said)["sig"]}, "4.01", 401)
    await ann.send(ann.peer.sign(bare))
    await told(ann, delta_window=1)
    await told(ann, delta_window=2.0)


async def test_e07_an_absent_window_is_64(ann: HttpLine) -> None:
    """Of some hundred frames 64 come without an ACK, and no more until one does."""
    calls = [call("weather", city=f"city {number}") for number in range(10)]
    asked = await ann.ask(plan(*({"calls": calls} for _ in range(8)), {"say": "the end"}))
    async with aclosing(ann.follow(asked.location)) as coming:
        first = [await anext(coming) for _ in range(64)]
        assert [delta["delta_seq"] for delta in first] == list(range(64))
        next_one = asyncio.ensure_future(anext(coming))
        assert not (await asyncio.wait([next_one], timeout=0.7))[0]
        await ann.send(ann.peer.ack(asked.envelope, asked.stream_id, 63))
        assert (await next_one)["delta_seq"] == 64


async def test_e08_a_hash_of_context_is_lower_case_sha256(ann: HttpLine) -> None:
    await told(ann, context=[{"id": new_id(), "hash": HASH, "note": "more members are taken"}])
    for wrong in (HASH.upper(), HASH[:-1], HASH + "0", HASH.replace("sha256", "sha512"), HASH[7:], HASH + "\n", 5):
        await not_told(ann, context=[{"id": new_id(), "hash": wrong}])
    for item in ({"hash": HASH}, {"id": new_id()}, {"id": "urn:uuid:1", "hash": HASH}, "x"):
        await not_told(ann, context=[item])


async def test_e09_a_body_has_type_and_content_and_may_have_more(ann: HttpLine) -> None:
    refused: tuple[Any, ...] = (
        {"type": "text/plain"},
        {"content": "x"},
        {},
        "x",
        [],
        {**BODY, "content": 1},
        {**BODY, "type": 1},
    )
    for body in refused:
        await not_told(ann, body=body)
    sent = ann.peer.signed(intent="inform", body={**BODY, "language": "en", "more": {"deep": [1]}})
    sent["body"]["more"]["deep"] = [2]
    await ann.refused(sent, "4.01", 401)
    sent["body"]["more"]["deep"] = [1]
    await ann.send(sent)


async def test_an_error_names_the_envelope_that_it_is_about(ann: HttpLine) -> None:
    sent = ann.peer.signed(intent="inform", delta_window=0)
    problem = problem_of(await ann.post(sent), "4.00", 400)
    assert problem["ref"] == sent["id"]
