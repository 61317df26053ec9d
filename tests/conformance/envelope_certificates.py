"""A certificate authority of the tests, the server's certificate for this machine, and client certificates of DIDs.

Made here by `cryptography`, not by `perdure certs`: what is checked does not check itself.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, in PEM files."""

    cert: Path
    key: Path


class EnvelopeCertificates:
    """An authority and what it has signed.

    Args:
        folder: where its files are.
        name: of the authority.
    """

    def __init__(self, folder: Path, name: str = "tests") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority of {name}")])
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        cert = (
            self._begun(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.authority = folder / "authority.pem"
        self.authority.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        self.server = self.issue(
            "server",
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))],
            ExtendedKeyUsageOID.SERVER_AUTH,
        )

    def client(self, did: str) -> Certificate:
        """A client certificate whose SAN URI is a DID."""
        return self.issue(did, [x509.UniformResourceIdentifier(did)], ExtendedKeyUsageOID.CLIENT_AUTH)

    def client_of_host(self, host: str) -> Certificate:
        """A client certificate whose SAN is a DNS name: of did:web of that host."""
        return self.issue(host, [x509.DNSName(host)], ExtendedKeyUsageOID.CLIENT_AUTH)

    def issue(
        self, name: str, names: list[x509.GeneralName], purpose: x509.ObjectIdentifier, *, days: int = 30
    ) -> Certificate:
        """A certificate of these names for a purpose; less than 0 days have it expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert = (
            self._begun(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]), key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        stem = self._folder / re.sub(r"[^A-Za-z0-9.-]", "_", name)
        made = Certificate(stem.with_name(f"{stem.name}.cert.pem"), stem.with_name(f"{stem.name}.key.pem"))
        made.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return made

    def trust(self, client: Certificate | None = None) -> ssl.SSLContext:
        """What a client trusts: this authority and no other; with a client certificate if it shows one."""
        context = ssl.create_default_context(cafile=str(self.authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if client is not None:
            context.load_cert_chain(client.cert, client.key)
        return context

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: int = 30) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        authority = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + min(days, 0) * _DAY - _DAY)
            .not_valid_after(now + days * _DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority), critical=False)
        )
