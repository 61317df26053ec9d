"""Finding the keys of others: by a real https host on this machine, by a file, and of our own agents."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.runtime.envelopes.configured_keys import ConfiguredKeys
from perdure.runtime.envelopes.did_resolver import DIDResolver
from perdure.runtime.envelopes.key_finder import FRESH, RETRY, KeyFinder
from perdure.runtime.envelopes.own_agents import OwnAgents
from perdure.runtime.envelopes.own_keys import OwnKeys
from perdure.runtime.outbound import trusting
from perdure.store.database import Database
from tests.conformance.did_host import Answer, DIDHost, did_host, path_of, public_of
from tests.conformance.envelope_certificates import EnvelopeCertificates
from tests.conformance.envelope_clock import AdjustableClock
from tests.conformance.envelope_peer import new_key

NOWHERE = Database("postgresql://nobody@127.0.0.1:1/none")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> EnvelopeCertificates:
    return EnvelopeCertificates(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def trust(certificates: EnvelopeCertificates) -> ssl.SSLContext:
    return trusting(certificates.authority, "PERDURE_UAMP_TRUST")


@pytest.fixture
def host(certificates: EnvelopeCertificates) -> Generator[DIDHost]:
    with did_host(certificates.server) as made:
        yield made


@pytest.fixture
def clock() -> AdjustableClock:
    made = AdjustableClock()
    made.stop()
    return made


def finder(
    clock: AdjustableClock, trust: ssl.SSLContext | None, *, allow_private: bool = True, file: Path | None = None
) -> KeyFinder:
    return KeyFinder(
        configured=ConfiguredKeys(file, "PERDURE_UAMP_KEYS"),
        resolver=DIDResolver(trust=trust, allow_private=allow_private),
        own=OwnAgents(NOWHERE, "default", "ours.example"),
        signers=OwnKeys(NOWHERE, "default", clock=clock),
        clock=clock,
    )


def key_of(did: str, name: str = "k1") -> dict[str, Any]:
    return public_of(new_key(), f"{did}#{name}")


async def kids(keys: KeyFinder, did: str, kid: str | None = None) -> list[str]:
    return [key.kid for key in await keys.keys(did, kid=kid)]


async def refusal(keys: KeyFinder, did: str, kid: str | None = None) -> UAMPError:
    with pytest.raises(UAMPError) as caught:
        await keys.keys(did, kid=kid)
    return caught.value


async def test_a_document_is_fetched_once_and_again_after_five_minutes(
    host: DIDHost, clock: AdjustableClock, trust: ssl.SSLContext
) -> None:
    """Ten who ask at once make one request; a key that was dropped verifies no longer than that."""
    did = host.did("agents", "peer")
    host.serve(did, key_of(did))
    keys = finder(clock, trust)
    found = await asyncio.gather(*(kids(keys, did, f"{did}#k1") for _ in range(10)))
    assert found == [[f"{did}#k1"]] * 10
    assert host.count(did) == 1
    host.serve(did, key_of(did, "k2"))
    clock.advance(FRESH.total_seconds() - 10)
    assert await kids(keys, did, f"{did}#k1") == [f"{did}#k1"]
    clock.advance(10)
    assert await kids(keys, did, f"{did}#k1") == [f"{did}#k2"]
    assert host.count(did) == 2


async def test_an_unknown_key_has_the_document_fetched_once_more(
    host: DIDHost, clock: AdjustableClock, trust: ssl.SSLContext
) -> None:
    """Once in a while, however many keys a sender makes up."""
    did = host.did()
    host.serve(did, key_of(did))
    keys = finder(clock, trust)
    assert await kids(keys, did) == [f"{did}#k1"]
    host.serve(did, key_of(did), key_of(did, "k2"))
    assert await kids(keys, did, f"{did}#k2") == [f"{did}#k1", f"{did}#k2"]
    assert host.count(did) == 2
    for number in range(20):
        await kids(keys, did, f"{did}#made-up-{number}")
    assert host.count(did) == 2
    clock.advance(RETRY)
    await asyncio.gather(*(kids(keys, did, f"{did}#made-up-{number}") for number in range(20)))
    assert host.count(did) == 3


async def test_keys_that_are_known_outlive_a_host_that_fails_meanwhile(
    host: DIDHost, clock: AdjustableClock, trust: ssl.SSLContext
) -> None:
    did = host.did()
    host.serve(did, key_of(did))
    keys = finder(clock, trust)
    await kids(keys, did)
    host.answers[path_of(did)] = (500, {}, b"")
    assert await kids(keys, did, f"{did}#k2") == [f"{did}#k1"]
    clock.advance(FRESH)
    assert (await refusal(keys, did)).code == "5.04"


BAD: list[tuple[Answer, str]] = [
    ((404, {}, b""), "5.04"),
    ((302, {"location": "/elsewhere/did.json"}, b""), "5.04"),
    ((200, {}, b" " * 70_000), "5.04"),
    ((200, {}, b"no json"), "4.01"),
    ((200, {}, b'{"id": "did:web:somebody.else"}'), "4.01"),
]


@pytest.mark.parametrize(("answer", "code"), BAD)
async def test_a_document_that_cannot_be_used_gives_no_keys(
    host: DIDHost, clock: AdjustableClock, trust: ssl.SSLContext, answer: Answer, code: str
) -> None:
    """It is not asked for again at once, redirects are not followed, and what was fetched is not repeated."""
    did = host.did("agents", "peer")
    host.answers[path_of(did)] = answer
    host.serve(host.did("elsewhere"), key_of(did))
    keys = finder(clock, trust)
    for _ in range(3):
        error = await refusal(keys, did, f"{did}#k1")
        assert error.code == code
        assert "somebody" not in error.message
    assert host.asked == [path_of(did)]
    host.serve(did, key_of(did))
    clock.advance(RETRY)
    assert await kids(keys, did) == [f"{did}#k1"]


async def test_this_machine_and_private_networks_are_not_asked_unless_allowed(
    host: DIDHost, clock: AdjustableClock, trust: ssl.SSLContext
) -> None:
    did = host.did()
    host.serve(did, key_of(did))
    error = await refusal(finder(clock, trust, allow_private=False), did)
    assert (error.code, host.asked) == ("4.01", [])
    assert "127.0.0.1" not in error.message


async def test_a_host_whose_certificate_is_of_another_authority_is_not_believed(
    host: DIDHost, clock: AdjustableClock
) -> None:
    did = host.did()
    host.serve(did, key_of(did))
    assert (await refusal(finder(clock, None), did)).code == "5.04"
    assert host.asked == []


@pytest.mark.parametrize("did", ["did:key:z6Mk", "https://peer.example", "did:web:127.0.0.1", "did:web:a..b"])
async def test_a_name_that_has_no_document_has_no_keys(clock: AdjustableClock, did: str) -> None:
    assert (await refusal(finder(clock, None), did)).code == "4.01"


async def test_configured_keys_stand_in_the_place_of_a_document(
    host: DIDHost, clock: AdjustableClock, trust: ssl.SSLContext, tmp_path: Path
) -> None:
    """Also of names that have none; the file may change, and a broken one changes nothing."""
    did, other = host.did(), "did:example:9"
    host.serve(did, key_of(did, "served"))
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({did: {"keys": [key_of(did, "written")]}}))
    keys = finder(clock, trust, file=file)
    assert await kids(keys, did, f"{did}#served") == [f"{did}#written"]
    assert (await refusal(keys, other)).code == "4.01"
    file.write_text(json.dumps({other: {"keys": [key_of(other)]}}))
    assert await kids(keys, other) == [f"{other}#k1"]
    assert await kids(keys, did) == [f"{did}#served"]
    file.write_text("{")
    assert await kids(keys, other) == [f"{other}#k1"]


@pytest.mark.parametrize(
    "text",
    [
        None, "[]", '{"did:web:a.example": []}', '{"did:web:a.example": {"keys": []}}',
        '{"did:web:a.example": {"keys": [{"kty": "oct", "k": "AAAA", "kid": "did:web:a.example#k"}]}}', '{"a": 1, "a": 2}',
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused_at_once(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "keys.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InvalidInput, match=r"keys\.json \(PERDURE_UAMP_KEYS\)"):
        ConfiguredKeys(file, "PERDURE_UAMP_KEYS")


def test_a_trust_file_that_cannot_be_used_is_refused_at_once(tmp_path: Path) -> None:
    for text in (None, "no certificate"):
        file = tmp_path / "trust.pem"
        if text is not None:
            file.write_text(text)
        with pytest.raises(InvalidInput, match=r"trust\.pem \(PERDURE_UAMP_TRUST\)"):
            trusting(file, "PERDURE_UAMP_TRUST")
