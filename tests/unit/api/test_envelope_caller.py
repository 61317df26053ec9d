"""Who calls the door of envelopes, by what is shown; no server and no database is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from perdure.api.authentication import Authenticator
from perdure.api.doors.envelope.caller import peer_by
from perdure.api.principal import Principal, Scope
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.runtime.envelopes.callers import PeerCaller
from perdure.store.database import Database
from tests.conformance.envelope_certificates import EnvelopeCertificates

NOWHERE = Database("postgresql://nobody@127.0.0.1:1/none")
ANN, BOB = "did:web:ann.example", "did:web:bob.example"


class Knows(Authenticator):
    """Knows one credential, and whose it is."""

    def __init__(self, name: str = ANN) -> None:
        super().__init__(NOWHERE, tenant="default", may_be_open=True)
        self._principal = Principal(name, "default", frozenset({Scope.RUN}))

    async def principal_of(self, credential: str) -> Principal:
        assert credential == "known"
        return self._principal


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> EnvelopeCertificates:
    return EnvelopeCertificates(tmp_path_factory.mktemp("authority"))


def der_of(authority: EnvelopeCertificates, did: str) -> bytes:
    file: Path = authority.client(did).cert
    return x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(Encoding.DER)


async def code_of(authorization: str | None, certificate: bytes | None, *, name: str = ANN) -> str:
    with pytest.raises(UAMPError) as caught:
        await peer_by(Knows(name), "default", authorization=authorization, certificate=certificate)
    return caught.value.code


async def test_a_credential_is_needed_also_where_the_api_asks_for_none() -> None:
    """This machine's own server may let everybody in elsewhere, not here."""
    assert Knows().is_open
    for shown in (None, "", "Bearer", "Bearer ", "Basic known", "known", "Bearer kn\u00f6wn"):
        assert await code_of(shown, None) == "4.01", shown


async def test_a_certificate_will_do(authority: EnvelopeCertificates) -> None:
    caller = await peer_by(Knows(), "default", authorization=None, certificate=der_of(authority, BOB))
    assert caller == PeerCaller(BOB, BOB)
    assert await code_of(None, b"of nobody") == "4.03"


async def test_a_token_and_a_certificate_must_agree(authority: EnvelopeCertificates) -> None:
    """The token says who it is then; a stolen one is worth nothing on another's connection."""
    mine, other = der_of(authority, ANN), der_of(authority, BOB)
    assert await peer_by(Knows(), "default", authorization="bearer known", certificate=mine) == PeerCaller(ANN, ANN)
    assert await code_of("Bearer known", other) == "4.03"
    assert await code_of("Bearer known", b"of nobody") == "4.03"


@pytest.mark.parametrize("name", ["robot", "web:ann.example", "did:web:" + "a" * 192])
async def test_a_name_that_is_no_did_or_was_cut_is_nobodys(name: str) -> None:
    assert await code_of("Bearer known", None, name=name) == "4.03"
