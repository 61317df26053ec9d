"""Documents of discovery as an attached JWS: manifest and hub are signed, read and verified alike.

A document speaks for its own host only: its signer's DID must be of the host that it was fetched from.
Source: UAMP envelope 1.0, section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.canonical import canonical_json
from perdure.protocols.uamp_envelope.did_web import read_web_did, split_did_url
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.protocols.uamp_envelope.jws import CompactJWS, read_compact, sign_compact, unauthenticated, verify_compact
from perdure.protocols.uamp_envelope.keys import SigningKey, VerificationKey
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.upp.json_value import JSONObject, sha256_hex

DocumentType = Literal["manifest+jws", "hub+jws"]

MAX_DOCUMENT_BYTES = 64 * 1024

_PARTS = ("payload", "protected", "signature")


@dataclass(frozen=True, slots=True)
class SignedDocument:
    """A document whose signature is not verified yet.

    Attributes:
        did: who signed it, if the signature verifies.
        kid: the key that it names.
        value: what it says, if the signature verifies.
        sha256: of the signed bytes: 64 hexadecimal digits.
    """

    did: str
    kid: str
    value: JSONObject
    sha256: str
    jws: CompactJWS = field(repr=False)


def sign_document(value: JSONObject, type: DocumentType, key: SigningKey) -> str:
    """A document as a compact JWS with its payload inside."""
    return sign_compact({"typ": type, "cty": "json"}, canonical_json(value), key)


def flattened(compact: str) -> JSONObject:
    """The flattened JSON form of a compact JWS, for clients that ask for `application/jose+json`."""
    protected, payload, signature = compact.split(".")
    return {"payload": payload, "protected": protected, "signature": signature}


def read_document(data: bytes, type: DocumentType, *, fetched_from: str) -> SignedDocument:
    """Reads a signed document, compact or flattened, to learn whose key must verify it.

    Args:
        data: as fetched.
        type: what it must be signed as; a document without a `typ` is taken too.
        fetched_from: host, and port if it is not 443, that it came from.

    Raises:
        UAMPError: 4.13 if it is too large, 4.00 if it is no JSON, 4.01 if it is not signed as one, 4.03 if its signer
            is of another host.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise UAMPError(Code.TOO_LARGE, f"a signed document has at most {MAX_DOCUMENT_BYTES} bytes")
    jws = read_compact(_compact(data))
    if jws.kid is None or jws.header.get("typ") not in (None, type, f"application/{type}"):
        raise unauthenticated(f"the document's header must have a kid, and {type} as its typ")
    did = _signer(jws.kid, fetched_from)
    return SignedDocument(did, jws.kid, parse_object(jws.payload), sha256_hex(jws.payload), jws)


def verify_document(signed: SignedDocument, keys: Sequence[VerificationKey]) -> JSONObject:
    """What a document says, once its signature verifies.

    Args:
        signed: as read.
        keys: those of `signed.did` that may sign.

    Raises:
        UnknownKey: 4.01: none of them is the one it names.
        UAMPError: 4.01: it is not signed by that key.
    """
    verify_compact(signed.jws, signed.jws.payload, keys)
    return signed.value


def _compact(data: bytes) -> str:
    if data.lstrip()[:1] != b"{":
        try:
            return data.decode("ascii").strip()
        except UnicodeDecodeError as error:
            raise malformed("the document is no JWS") from error
    value = parse_object(data)
    parts = {name: value.get(name) for name in _PARTS}
    if set(value) != set(_PARTS) or not all(isinstance(part, str) and "." not in part for part in parts.values()):
        raise malformed(f"a flattened JWS has exactly the members {', '.join(_PARTS)}")
    return ".".join(cast(str, parts[name]) for name in ("protected", "payload", "signature"))


def _signer(kid: str, fetched_from: str) -> str:
    try:
        did, _ = split_did_url(kid)
        authority = read_web_did(did).authority
    except InvalidInput as error:
        raise unauthenticated(f"the document's kid: {error}") from error
    if authority.lower() != fetched_from.lower():
        raise UAMPError(Code.UNAUTHORIZED, f"a document from {fetched_from[:80]} cannot be signed by {did[:80]}")
    return did
