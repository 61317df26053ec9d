"""Agent manifests: what an agent takes. Signing and verifying one is `signed_document`'s part, reading it is here.

Source: UAMP envelope 1.0, section 8 and appendix A.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.keys import SigningKey
from perdure.protocols.uamp_envelope.schema import check_schema
from perdure.protocols.uamp_envelope.signed_document import SignedDocument, read_document, sign_document
from perdure.upp.json_value import JSONObject

Auth = Literal["oauth2", "mtls"]

MANIFEST_PATH = "/.well-known/agent-manifest.json"

_AGENT = "uamp/1.0"
_TYPE = "manifest+jws"


def build_manifest(
    *,
    description: str,
    intents: Sequence[Intent],
    body_types: Sequence[str],
    auth: Sequence[Auth],
    max_body_kib: int | None = None,
    rate_per_hour: int | None = None,
) -> JSONObject:
    """A manifest.

    Args:
        description: of the agent, for people.
        intents: that it takes.
        body_types: media types that it takes.
        auth: how callers show who they are.
        max_body_kib: the greatest HTTP body, in KiB; None if unsaid.
        rate_per_hour: envelopes per hour and sender; None if unsaid.
    """
    limits: JSONObject = {"max_body_kb": max_body_kib, "rate_lph": rate_per_hour}
    return {
        "agent": _AGENT,
        "description": description,
        "intents": [intent.value for intent in intents],
        "body_types": [*body_types],
        "auth": [*auth],
        "limits": {name: value for name, value in limits.items() if value is not None},
    }


def sign_manifest(manifest: JSONObject, key: SigningKey) -> str:
    """The manifest as a compact JWS with its payload inside.

    Raises:
        UAMPError: 4.00 if it is no manifest.
    """
    check_schema("manifest", manifest)
    return sign_document(manifest, _TYPE, key)


def read_manifest(data: bytes, *, fetched_from: str) -> SignedDocument:
    """Reads a signed manifest, compact or flattened; `signed_document.verify_document` verifies it.

    Args:
        data: as fetched.
        fetched_from: host, and port if it is not 443, that it came from.

    Raises:
        UAMPError: 4.13 if it is too large, 4.00 if it is no manifest, 4.01 if it is not signed as one, 4.03 if its
            signer is of another host.
    """
    signed = read_document(data, _TYPE, fetched_from=fetched_from)
    check_schema("manifest", signed.value)
    return signed
