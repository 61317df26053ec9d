"""Which agents a client certificate is of."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from perdure.runtime.envelopes.callers import PeerCaller, caller_of_certificate
from tests.conformance.envelope_certificates import EnvelopeCertificates

URI, DNS = x509.UniformResourceIdentifier, x509.DNSName


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> EnvelopeCertificates:
    return EnvelopeCertificates(tmp_path_factory.mktemp("authority"))


def der_of(authority: EnvelopeCertificates, *names: x509.GeneralName) -> bytes:
    made = authority.issue("client", [*names], ExtendedKeyUsageOID.CLIENT_AUTH)
    return x509.load_pem_x509_certificate(Path(made.cert).read_bytes()).public_bytes(Encoding.DER)


def test_a_certificate_is_of_the_dids_and_hosts_in_its_san(authority: EnvelopeCertificates) -> None:
    """DIDs first, each once; what is no agent's name is passed over."""
    names = [
        DNS("agents.example"),
        URI("https://agents.example/"),
        URI("did:web:agents.example:agents:b"),
        URI("did:web:agents.example:agents:a"),
        URI("did:web:agents.example:agents:a"),
        DNS("*.example"),
        x509.RFC822Name("ann@agents.example"),
    ]
    assert caller_of_certificate(der_of(authority, *names)) == [
        "did:web:agents.example:agents:b",
        "did:web:agents.example:agents:a",
        "did:web:agents.example",
    ]


def test_a_certificate_without_such_a_name_is_of_nobody(authority: EnvelopeCertificates) -> None:
    assert caller_of_certificate(der_of(authority, x509.RFC822Name("ann@agents.example"))) == []
    assert caller_of_certificate(b"no certificate") == []


def test_a_caller_speaks_for_its_own_dids_only() -> None:
    caller = PeerCaller("did:web:a.example", "a", ("did:web:b.example",))
    assert [caller.speaks_for(f"did:web:{name}.example") for name in ("a", "b", "c")] == [True, True, False]
