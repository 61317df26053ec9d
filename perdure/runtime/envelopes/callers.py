"""Who the transport says has sent something: an agent, by its DID. Whether an envelope is really its own its signature says."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography import x509

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.did_web import web_did


@dataclass(frozen=True, slots=True)
class PeerCaller:
    """A caller whose credential was judged and who may send envelopes.

    Attributes:
        did: the DID of the token or key; of a certificate with several the first.
        name: for records.
        others: more DIDs that its certificate names.
    """

    did: str
    name: str
    others: tuple[str, ...] = ()

    @property
    def dids(self) -> tuple[str, ...]:
        """All DIDs that it may speak for."""
        return (self.did, *self.others)

    def speaks_for(self, did: str) -> bool:
        """Whether it may send what is from a DID, and read what is for it."""
        return did in self.dids


def caller_of_certificate(der: bytes) -> list[str]:
    """The DIDs that a client certificate is of: its URIs that are DIDs, and did:web of each host that it names.

    Args:
        der: of a certificate that the transport has verified.

    Returns:
        Each once, URIs first; none if it names no agent.
    """
    try:
        extensions = x509.load_der_x509_certificate(der).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):  # the transport takes certificates whose extensions are damaged
        return []
    uris = [uri for uri in names.get_values_for_type(x509.UniformResourceIdentifier) if uri.startswith("did:")]
    hosts = [did for name in names.get_values_for_type(x509.DNSName) if (did := _did_of_host(name)) is not None]
    return [*dict.fromkeys([*uris, *hosts])]


def _did_of_host(name: str) -> str | None:
    try:
        return web_did(name)
    except InvalidInput:  # a wildcard names no agent
        return None
