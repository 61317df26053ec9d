"""DID documents: the keys that one gives for signing statements, and a document built for keys of ours.

Source: W3C DID Core 1.0; verification methods with `publicKeyJwk` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.did_web import split_did_url
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.keys import VerificationKey, algorithm_of, verification_key
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.upp.json_value import JSONObject, JSONValue

DID_MEDIA_TYPE = "application/did+json"
MAX_DOCUMENT_BYTES = 64 * 1024
MAX_KEYS = 32

_CONTEXT: list[JSONValue] = ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/jws-2020/v1"]
_KEY_TYPES = ("JsonWebKey2020", "JsonWebKey")


@dataclass(frozen=True, slots=True)
class DIDDocument:
    """What a DID document says that counts here.

    Attributes:
        did: whose it is.
        keys: those that may sign, in the document's order: listed under `assertionMethod`, or under `authentication`
            where the document has no `assertionMethod`. Keys of other kinds are left out.
    """

    did: str
    keys: tuple[VerificationKey, ...]


def read_did_document(data: bytes, did: str) -> DIDDocument:
    """Reads a DID document.

    Args:
        data: its JSON.
        did: whose it must be: the name under which it was looked up.

    Raises:
        InvalidInput: it is no DID document of that name, or holds a damaged or private key that may sign.
    """
    try:
        document = parse_object(data, max_bytes=MAX_DOCUMENT_BYTES)
    except UAMPError as error:
        raise InvalidInput(f"the DID document of {did}: {error.message}") from error
    if document.get("id") != did:
        raise InvalidInput(f"the DID document of {did} is of {document.get('id')!s:.80}")
    purpose = "assertionMethod" if "assertionMethod" in document else "authentication"
    listed = _items(document, purpose)
    methods = {_absolute(did, item.get("id")): item for item in _objects(_items(document, "verificationMethod"))}
    chosen = [methods.get(_absolute(did, item)) if isinstance(item, str) else item for item in listed]
    return DIDDocument(did, tuple(key for item in _objects(chosen) if (key := _key(did, item)) is not None))


def build_did_document(did: str, keys: Sequence[VerificationKey], service_url: str | None = None) -> JSONObject:
    """The DID document of an agent of ours.

    Args:
        did: whose it is.
        keys: all that peers may verify with; a retired key stays until its signatures no longer matter.
        service_url: where the agent takes envelopes; None to leave it out.

    Raises:
        InvalidInput: a key is of another DID.
    """
    for key in keys:
        if split_did_url(key.kid)[0] != did:
            raise InvalidInput(f"the key {key.kid} is not of {did}")
    names: list[JSONValue] = [key.kid for key in keys]
    document: JSONObject = {
        "@context": [*_CONTEXT],
        "id": did,
        "verificationMethod": [
            {"id": key.kid, "type": "JsonWebKey2020", "controller": did, "publicKeyJwk": {**key.jwk}} for key in keys
        ],
        "assertionMethod": names,
        "authentication": [*names],
    }
    if service_url is not None:
        document["service"] = [{"id": f"{did}#uamp", "type": "UAMPAgent", "serviceEndpoint": service_url}]
    return document


def _key(did: str, method: JSONObject) -> VerificationKey | None:
    """The key of a verification method; None if it is of another DID or kind."""
    kid, jwk = _absolute(did, method.get("id")), method.get("publicKeyJwk")
    if kid is None or method.get("type") not in _KEY_TYPES or not isinstance(jwk, dict):
        return None
    is_ours = method.get("controller", did) == did and algorithm_of(jwk) is not None
    return verification_key(kid, jwk) if is_ours else None


def _absolute(did: str, name: JSONValue) -> str | None:
    """The DID URL of a key of this DID, which a document may write as its fragment only; else None."""
    if not isinstance(name, str):
        return None
    full = did + name if name.startswith("#") else name
    try:
        return full if split_did_url(full)[0] == did else None
    except InvalidInput:
        return None


def _items(document: JSONObject, name: str) -> list[JSONValue]:
    value = document.get(name, [])
    if not isinstance(value, list) or len(value) > MAX_KEYS:
        raise InvalidInput(f"the DID document's {name} must be a list of at most {MAX_KEYS}")
    return value


def _objects(items: Sequence[JSONValue]) -> list[JSONObject]:
    return [item for item in items if isinstance(item, dict)]
