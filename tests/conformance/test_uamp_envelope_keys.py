"""Checks 21 and 23: whose key it is, by DID documents of a host elsewhere; and that keys in headers are never fetched."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perdure.runtime.envelopes.key_finder import FRESH, RETRY
from tests.conformance.did_host import DIDHost, did_host, method_of, public_of
from tests.conformance.envelope_lines import HttpLine
from tests.conformance.envelope_peer import Peer, new_key, payload_of
from tests.conformance.envelope_server import EnvelopeServer, envelope_server
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def served(stack: Stack) -> Iterator[EnvelopeServer]:
    """A server that fetches DID documents from this machine."""
    with envelope_server(stack, uamp_allow_private=True) as ours:
        yield ours


@pytest.fixture
def host(served: EnvelopeServer) -> Iterator[DIDHost]:
    served.clock.reset()
    served.clock.stop()  # what is asked for at most so often depends on the time
    with did_host(served.certificates.server) as made:
        yield made


@asynccontextmanager
async def line_of(served: EnvelopeServer, did: str) -> AsyncGenerator[HttpLine]:
    async with served.http(served.new_peer(did), bearer=await served.bearer(did)) as line:
        yield line


def informing(peer: Peer, **header: Any) -> dict[str, Any]:
    return peer.sign(peer.unsigned(intent="inform"), **header)


async def test_e21_a_kid_of_another_did_than_from_is_refused(served: EnvelopeServer, host: DIDHost) -> None:
    """Though the key is that one's own, and known; nothing is fetched for it."""
    did, bob = host.did(), served.peers["bob"]
    async with line_of(served, did) as line:
        sent = line.peer.unsigned()
        sig = bob.signature(payload_of(sent))
        await line.refused({**sent, "sig": sig}, "4.03", 403)
        await line.refused(informing(line.peer, kid="k1"), "4.01", 401)
    assert host.asked == []


async def test_e21_an_unknown_kid_is_refused_after_one_refetch(served: EnvelopeServer, host: DIDHost) -> None:
    did = host.did("agents", "peer")
    async with line_of(served, did) as line:
        host.serve(did, line.peer.public)
        await line.send(informing(line.peer))
        assert host.count(did) == 1
        await line.refused(informing(line.peer, kid=f"{did}#other"), "4.01", 401)
        assert host.count(did) == 2
        await line.refused(informing(line.peer, kid=f"{did}#another"), "4.01", 401)
        assert host.count(did) == 2
        served.clock.advance(RETRY)
        await line.refused(informing(line.peer, kid=f"{did}#another"), "4.01", 401)
        assert host.count(did) == 3
        await line.send(informing(line.peer))


async def test_e21_without_a_kid_the_keys_of_from_are_tried(served: EnvelopeServer, host: DIDHost) -> None:
    did = host.did()
    async with line_of(served, did) as line:
        host.serve(did, public_of(new_key(), f"{did}#k0"), line.peer.public)
        await line.send(informing(line.peer, kid=None))
        thief = served.new_peer(did)
        await line.refused(informing(thief, kid=None), "4.01", 401)


async def test_e20_what_a_header_points_to_is_never_fetched(served: EnvelopeServer, host: DIDHost) -> None:
    did = host.did()
    async with line_of(served, did) as line:
        host.serve(did, line.peer.public)
        sent = line.peer.unsigned()
        thief = new_key()
        pointing: list[dict[str, Any]] = [{name: f"https://localhost:{host.port}/keys.json"} for name in ("jku", "x5u")]
        for header in pointing:
            sig = line.peer.signature(payload_of(sent), key=thief, **header)
            await line.refused({**sent, "sig": sig}, "4.01", 401)
    assert "/keys.json" not in host.asked


async def test_e23_a_key_that_is_not_for_assertions_is_refused(served: EnvelopeServer, host: DIDHost) -> None:
    """It is there, and may be used for something else; if nothing is said of assertions, those for authentication do."""
    did = host.did()
    async with line_of(served, did) as line:
        known = public_of(new_key(), f"{did}#k2")
        methods = [method_of(did, line.peer.public), method_of(did, known)]
        host.serve(did, verificationMethod=methods, assertionMethod=[f"{did}#k2"], keyAgreement=[f"{did}#k1"])
        await line.refused(informing(line.peer), "4.01", 401)
        host.serve(did, verificationMethod=methods, assertionMethod=None, authentication=["#k1"])
        served.clock.advance(FRESH)
        await line.send(informing(line.peer))


async def test_e23_a_key_of_another_controller_is_refused(served: EnvelopeServer, host: DIDHost) -> None:
    did = host.did()
    async with line_of(served, did) as line:
        method = {**method_of(did, line.peer.public), "controller": host.did("other")}
        host.serve(did, verificationMethod=[method], assertionMethod=[f"{did}#k1"])
        await line.refused(informing(line.peer), "4.01", 401)


async def test_e23_a_rotated_key_works_and_the_old_one_ends_with_the_cache(
    served: EnvelopeServer, host: DIDHost
) -> None:
    """The new one works at once, since its kid is unknown; one with the same kid once the document is read again."""
    did = host.did()
    async with line_of(served, did) as line:
        old, same, new = line.peer, served.new_peer(did), served.new_peer(did)
        new.kid = f"{did}#k2"
        host.serve(did, old.public)
        await line.send(informing(old))
        host.serve(did, same.public)
        await line.send(informing(old))
        await line.refused(informing(same), "4.01", 401)
        served.clock.advance(FRESH)
        await line.send(informing(same))
        await line.refused(informing(old), "4.01", 401)
        host.serve(did, new.public)
        await line.send(informing(new))
        await line.refused(informing(same), "4.01", 401)


async def test_e21_keys_of_a_host_that_does_not_answer_are_asked_for_later(
    served: EnvelopeServer, host: DIDHost
) -> None:
    """Nothing is known of who signed, so nothing is taken; the sender is told to come again."""
    did = host.did()
    async with line_of(served, did) as line:
        sent = informing(line.peer)
        response = await line.post(sent)
        assert (response.status_code, response.json()["code"]) == (503, "5.04")
        assert response.headers["retry-after"] == str(int(RETRY.total_seconds()))
        host.serve(did, line.peer.public)
        served.clock.advance(RETRY)
        await line.send(sent)
