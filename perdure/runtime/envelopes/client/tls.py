"""The TLS of a client: version 1.3, the server's certificate always checked, a certificate of its own where it has one."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import InvalidInput
from perdure.runtime.outbound import trusting


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What a client shows who it is with (mTLS).

    Attributes:
        certificate: a PEM file with the certificate, and what leads from it to its authority.
        key: a PEM file with its private key.
    """

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Trust:
    """How servers are judged and what they are shown.

    Attributes:
        authorities: a PEM file with authorities besides the usual ones; None for these only.
        client: the client's own certificate; None for none.
    """

    authorities: Path | None = None
    client: ClientCertificate | None = None

    def context(self, protocols: Sequence[str]) -> ssl.SSLContext:
        """A context for connections.

        Args:
            protocols: by ALPN, the best one first; none to leave them to the library.

        Raises:
            InvalidInput: a file cannot be read, or holds something else.
        """
        made = trusting(self.authorities, "the authorities to trust")
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        if protocols:
            made.set_alpn_protocols([*protocols])
        if self.client is not None:
            try:
                made.load_cert_chain(self.client.certificate, self.client.key)
            except OSError as error:  # ssl.SSLError is one
                raise InvalidInput(
                    f"{self.client.certificate} with {self.client.key} cannot be shown: {error}"
                ) from error
        return made

    def pem(self) -> bytes | None:
        """The authorities besides the usual ones as PEM, for a library with a TLS of its own; None for none.

        Raises:
            InvalidInput: the file cannot be read, or holds something else.
        """
        if self.authorities is None:
            return None
        trusting(self.authorities, "the authorities to trust")
        return self.authorities.read_bytes()
