"""Certificates for one machine: an authority of one's own, the server's certificate, and clients' by their DIDs.

For development, and for agents that trust each other by this authority. A public server has its certificate from elsewhere.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from perdure.errors import InvalidInput

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
"""Of this machine, which a server's certificate always has."""

_AUTHORITY_DAYS, _DAYS = 3650, 365
_RENEW_BEFORE = timedelta(days=7)
_BACKDATED = timedelta(hours=1)  # for machines whose clocks are behind
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key.

    Attributes:
        certificate: a PEM file.
        key: a PEM file that its owner alone may read.
    """

    certificate: Path
    key: Path

    @property
    def is_there(self) -> bool:
        """Whether both have been made."""
        return self.certificate.is_file() and self.key.is_file()


class Certificates:
    """The certificates of a folder. What is there and still good is kept; the rest is made when it is asked for."""

    def __init__(self, folder: Path) -> None:
        """Make nothing yet.

        Args:
            folder: where they are, `.perdure/certs`.
        """
        self._folder = folder

    @property
    def authority(self) -> Path:
        """What others trust: a PEM file with the authority's certificate."""
        return self._authority.certificate

    @property
    def _authority(self) -> Pair:
        return self._pair("ca")

    def server(self, names: Sequence[str] = (), *, is_new: bool = False) -> Pair:
        """The server's certificate.

        Args:
            names: host names and addresses besides those of this machine.
            is_new: whether to make another even if the one there is good.

        Raises:
            InvalidInput: a name cannot stand in a certificate, or the files cannot be read or written.
        """
        wanted = [_general_name(name) for name in dict.fromkeys([*LOCAL_NAMES, *names])]
        return self._issued(
            self._pair("server"), names[0] if names else "localhost", wanted, is_client=False, is_new=is_new
        )

    def client(self, did: str, *, is_new: bool = False) -> Pair:
        """The certificate of a client whose name is a DID.

        Args:
            did: of the agent.
            is_new: as of `server`.

        Raises:
            InvalidInput: likewise.
        """
        if not did.startswith("did:") or not did.isascii() or not did.isprintable() or " " in did:
            raise InvalidInput(f"{did[:80]!r} is no DID; it must be such as did:web:agents.example")
        pair = self._pair(f"client-{quote(did, safe='')}")
        return self._issued(pair, did, [x509.UniformResourceIdentifier(did)], is_client=True, is_new=is_new)

    def _pair(self, stem: str) -> Pair:
        return Pair(self._folder / f"{stem}.pem", self._folder / f"{stem}.key")

    def _issued(
        self, pair: Pair, subject: str, names: Sequence[x509.GeneralName], *, is_client: bool, is_new: bool
    ) -> Pair:
        with _explained(self._folder):
            issuer, issuer_key = self._open_authority()
            if not is_new and pair.is_there and _is_good(_read(pair.certificate), issuer, names):
                return pair
            key = ec.generate_private_key(ec.SECP256R1())
            purpose = ExtendedKeyUsageOID.CLIENT_AUTH if is_client else ExtendedKeyUsageOID.SERVER_AUTH
            begun = _begun(subject, issuer.subject, key.public_key(), issuer_key.public_key(), _DAYS)
            certificate = (
                begun.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
                .add_extension(x509.SubjectAlternativeName(names), critical=False)
                .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
                .sign(issuer_key, hashes.SHA256())
            )
            _write(pair, certificate, key)
        return pair

    def _open_authority(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        pair = self._authority
        if not pair.is_there:
            self._make_authority(pair)
        key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InvalidInput(f"{pair.key} is no key of `perdure certs`; remove it and {pair.certificate}")
        return _read(pair.certificate), key

    def _make_authority(self, pair: Pair) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / ".gitignore").write_text("*\n", encoding="utf-8")
        key = ec.generate_private_key(ec.SECP256R1())
        name = "Perdure development authority"
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        certificate = (
            _begun(name, _name(name), key.public_key(), key.public_key(), _AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        _write(pair, certificate, key)


@contextmanager
def _explained(folder: Path) -> Generator[None]:
    """Turn what the files or the operating system say into an InvalidInput."""
    try:
        yield
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(f"the certificates in {folder} cannot be used: {error}") from error


def _begun(
    subject: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, authority: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_LONGEST_NAME])])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    try:
        return x509.DNSName(text)
    except ValueError:
        raise InvalidInput(f"{text[:80]!r} is no host name or address; write other letters as xn--...") from None


def _is_good(certificate: x509.Certificate, issuer: x509.Certificate, names: Sequence[x509.GeneralName]) -> bool:
    """Whether a certificate that is there will do."""
    try:
        certificate.verify_directly_issued_by(issuer)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    lasts = certificate.not_valid_after_utc > datetime.now(UTC) + _RENEW_BEFORE
    return lasts and set(names) <= set(found)


def _read(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    """Put both in their places; the key first, which nobody but its owner can read at any moment."""
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for file, content, mode in (
        (pair.key, secret, 0o600),
        (pair.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644),
    ):
        beside = file.with_name(f"{file.name}.new")
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
            opened.write(content)
        beside.replace(file)
