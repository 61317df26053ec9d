"""Fetching DID documents of `did:web`, from public addresses only if the operator does not say otherwise.

Source: the did:web method specification, 3.2. No redirects, 64 KiB and 5 seconds at most. Nothing is kept here.
"""

from __future__ import annotations

import ssl

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.did_document import MAX_DOCUMENT_BYTES, DIDDocument, read_did_document
from perdure.protocols.uamp_envelope.did_web import read_web_did
from perdure.runtime.outbound import check_url, fetch, is_loopback_name


class DIDResolver:
    """Finds DID documents."""

    def __init__(self, *, trust: ssl.SSLContext | None = None, allow_private: bool = False) -> None:
        """Prepare.

        Args:
            trust: judges the servers' certificates; None for the usual authorities.
            allow_private: fetch from private networks and from this machine too.
        """
        self._trust = trust
        self._allow_private = allow_private

    async def resolve(self, did: str) -> DIDDocument:
        """The DID document of an agent.

        Raises:
            InvalidInput: the name is none of did:web, leads to an address that is refused, or the document is damaged.
            ServerUnavailable: the document was not there in time, or is no 200.
        """
        name = read_web_did(did)
        if is_loopback_name(name.host) and not self._allow_private:
            raise InvalidInput(f"{name.host} is this machine, where no DID document is fetched from")
        data = await fetch(
            check_url(name.document_url, "a DID document"),
            max_bytes=MAX_DOCUMENT_BYTES,
            allow_private=self._allow_private,
            trust=self._trust,
        )
        return read_did_document(data, did)
