"""Every attack of `envelope_attacks.py` over every binding: it is refused with its code, and what is refused leaves nothing."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest

from perdure.protocols.uamp_envelope.body import encode_body
from perdure.protocols.uamp_envelope.error import CARRIAGE, Code
from tests.conformance.envelope_attacks import ATTACKS
from tests.conformance.envelope_grpc import refused
from tests.conformance.envelope_lines import problem_of
from tests.conformance.envelope_peer import Envelope, Peer, new_id
from tests.conformance.envelope_server import EnvelopeServer
from tests.integration.access_stage import rows

CLOSING = {"4.01": 4401, "4.03": 4403, "4.13": 1009}


def made(name: str, peer: Peer) -> tuple[Envelope | bytes, str]:
    """An attack's envelope and its code."""
    code, make = ATTACKS[name]
    return make(peer), code


async def kept(envelopes: EnvelopeServer, envelope: Envelope | bytes) -> bool:
    """Whether anything is remembered of an envelope."""
    if isinstance(envelope, bytes) or "id" not in envelope:
        return False
    ident = str(envelope["id"]).removeprefix("urn:uuid:")
    return bool(await rows(envelopes.database_url, f"select 1 from perdure.envelopes where id = '{ident}'"))


@pytest.mark.parametrize("name", ATTACKS)
async def test_e20_an_attack_over_http_is_refused_with_its_code(envelopes: EnvelopeServer, name: str) -> None:
    async with envelopes.http("ann") as ann:
        sent, code = made(name, ann.peer)
        problem_of(await ann.post(sent), code, CARRIAGE[Code(code)].http_status)
    assert not await kept(envelopes, sent)


@pytest.mark.parametrize("name", ATTACKS)
async def test_e20_an_attack_over_grpc_is_refused_with_its_code(envelopes: EnvelopeServer, name: str) -> None:
    async with envelopes.grpc("ann") as ann:
        sent, code = made(name, ann.peer)
        await refused(ann.send(sent), code, grpc.StatusCode[CARRIAGE[Code(code)].grpc_status])


@pytest.mark.parametrize("name", ATTACKS)
async def test_e20_an_attack_over_a_websocket_is_refused_with_its_code(envelopes: EnvelopeServer, name: str) -> None:
    """The server tells by a signed error, and hangs up on whom it can believe no longer."""
    async with envelopes.socket("ann") as ann:
        sent, code = made(name, ann.peer)
        await ann.send(sent)
        told = await ann.receive()
        assert told["intent"] == "error"
        error: dict[str, Any] = json.loads(told["body"]["content"])
        assert error["code"] == code, error
        if code in CLOSING:
            await ann.socket.wait_closed()
            assert ann.socket.close_code == CLOSING[code]
        else:
            await ann.send(ann.peer.signed(intent="inform"))
            assert (await ann.receive())["intent"] == "progress"


async def test_e27_what_was_forged_does_not_use_up_the_id_of_its_victim(envelopes: EnvelopeServer) -> None:
    """A replay is judged after the signature, so a forgery cannot stand in the way of the real one."""
    ident = new_id()
    async with envelopes.http("ann") as ann:
        for name in ("forged: another key under our kid", "confusion: alg none with a signature"):
            sent, code = made(name, ann.peer)
            assert isinstance(sent, dict)
            await ann.refused({**sent, "id": ident}, code, 401)
        asked = await ann.ask("the real one", id=ident)
        await ann.refused(ann.peer.signed("again, but other", id=ident), "4.22", 409)
        assert (await ann.opened(asked.envelope)).location == asked.location


async def test_e18_both_algorithms_are_taken(envelopes: EnvelopeServer) -> None:
    """The attacks are refused for what they are, not for their algorithm: the same peers are heard otherwise."""
    for peer in ("ann", "edd"):
        async with envelopes.http(peer) as line:
            assert await line.answer("hello") == "echo: hello"
            await line.send(line.peer.sign(line.peer.unsigned(intent="inform"), attached=True))
            await line.send(line.peer.sign(line.peer.unsigned(intent="inform"), kid=None))
            await line.send(line.peer.sign(line.peer.unsigned(intent="inform"), typ="JOSE"))


async def test_e37_a_compressed_body_is_taken(envelopes: EnvelopeServer) -> None:
    async with envelopes.http("ann") as line:
        for packing in ("gzip", "zstd"):
            body = encode_body("text/plain", "hello " * 50, packing)
            assert await line.answer(body=body) == "echo: " + "hello " * 50
