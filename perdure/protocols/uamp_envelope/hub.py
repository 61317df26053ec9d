"""Hubs: a list of other agents' manifests and of what to trust. Signed like a manifest.

The specification names a hub and gives no schema; this shape is ours. Source: UAMP envelope 1.0, section 8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.protocols.uamp_envelope.key_set import build_key_set
from perdure.protocols.uamp_envelope.keys import SigningKey, VerificationKey
from perdure.protocols.uamp_envelope.signed_document import SignedDocument, sign_document
from perdure.upp.json_value import JSONObject, JSONValue

HUB_PATH = "/.well-known/agent-hub.json"
MAX_CHILDREN = 256
MAX_DEPTH = 2
"""Levels of hubs below the first one that a reader follows."""

_TYPE = "hub+jws"
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Child:
    """An agent that a hub lists.

    Attributes:
        did: of the agent.
        url: of its manifest, or of a further hub.
        sha256: of the manifest's signed bytes, where the hub vouches for one version.
    """

    did: str
    url: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class TrustAnchor:
    """What a hub trusts: a DID, or a certificate."""

    type: Literal["did", "x509"]
    value: str


@dataclass(frozen=True, slots=True)
class Hub:
    """What a hub says."""

    children: tuple[Child, ...]
    anchors: tuple[TrustAnchor, ...]


def build_hub(hub: Hub, keys: Sequence[VerificationKey] = ()) -> JSONObject:
    """The hub's document.

    Args:
        hub: what it says.
        keys: of the hub's own, published with it.
    """
    children: list[JSONValue] = [
        {"did": child.did, "url": child.url, **({} if child.sha256 is None else {"sha256": child.sha256})}
        for child in hub.children
    ]
    anchors: list[JSONValue] = [{"type": anchor.type, "value": anchor.value} for anchor in hub.anchors]
    return {"manifests": children, "trust_anchors": anchors, "jwks": build_key_set(keys)}


def sign_hub(document: JSONObject, key: SigningKey) -> str:
    """The hub's document as a compact JWS; `signed_document.read_document` reads it as "hub+jws".

    Raises:
        UAMPError: 4.00 if it is no hub.
    """
    read_hub(document)
    return sign_document(document, _TYPE, key)


def read_hub(value: JSONObject) -> Hub:
    """What a hub's document says. Members that are not known are passed over.

    Raises:
        UAMPError: 4.00 if it is no hub, or lists more than 256 children.
    """
    listed, anchors = _objects(value, "manifests"), _objects(value, "trust_anchors")
    return Hub(tuple(_child(item) for item in listed), tuple(_anchor(item) for item in anchors))


def check_child(child: Child, signed: SignedDocument) -> None:
    """Checks that a manifest is the one that a hub lists.

    Raises:
        UAMPError: 4.03.
    """
    if signed.did != child.did:
        raise UAMPError(Code.UNAUTHORIZED, f"the hub lists {child.did[:80]} and the manifest is of {signed.did[:80]}")
    if child.sha256 not in (None, signed.sha256):
        raise UAMPError(Code.UNAUTHORIZED, f"the manifest of {child.did[:80]} is not the version that the hub lists")


def may_follow(trail: Sequence[str], url: str) -> bool:
    """Whether a reader goes on to a hub: not in a circle, and not too deep.

    Args:
        trail: URLs of the hubs that led here, the first one first.
        url: of the next.
    """
    return url not in trail and len(trail) <= MAX_DEPTH


def _child(item: JSONObject) -> Child:
    did, url, sha256 = item.get("did"), item.get("url"), item.get("sha256")
    if not isinstance(did, str) or not isinstance(url, str) or not url.startswith("https://"):
        raise malformed("a hub's manifest needs 'did' and an https 'url'")
    if sha256 is not None and (not isinstance(sha256, str) or _SHA256.fullmatch(sha256) is None):
        raise malformed("a hub's 'sha256' must be 64 lower-case hexadecimal digits")
    return Child(did, url, sha256)


def _anchor(item: JSONObject) -> TrustAnchor:
    kind, value = item.get("type"), item.get("value")
    if kind not in ("did", "x509") or not isinstance(value, str):
        raise malformed("a hub's trust anchor needs 'type' (did or x509) and 'value'")
    return TrustAnchor(kind, value)


def _objects(value: JSONObject, name: str) -> list[JSONObject]:
    items = value.get(name, [])
    if not isinstance(items, list) or len(items) > MAX_CHILDREN:
        raise malformed(f"a hub's {name!r} must be a list of at most {MAX_CHILDREN}")
    found = [item for item in items if isinstance(item, dict)]
    if len(found) != len(items):
        raise malformed(f"a hub's {name!r} must hold objects")
    return found
