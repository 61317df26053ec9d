"""Key sets (JWKS): ours to publish, and those that are configured in the place of a DID document. Source: RFC 7517."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.keys import VerificationKey, algorithm_of, verification_key
from perdure.upp.json_value import JSONObject

MAX_KEYS = 32


def build_key_set(keys: Sequence[VerificationKey]) -> JSONObject:
    """The key set of public keys."""
    return {"keys": [{**key.jwk, "kid": key.kid, "alg": key.algorithm, "use": "sig"} for key in keys]}


def read_key_set(value: JSONObject) -> tuple[VerificationKey, ...]:
    """The keys of a set that can be used here; keys of other kinds, and those without a kid, are left out.

    Args:
        value: of a peer, whose kids are DID URLs, or of a tokens' issuer, whose kids are any text.

    Raises:
        InvalidInput: it is no key set, has more than 32 keys, or holds a damaged or private key.
    """
    items = value.get("keys")
    if not isinstance(items, list) or len(items) > MAX_KEYS:
        raise InvalidInput(f"a key set needs 'keys', a list of at most {MAX_KEYS}")
    found: list[VerificationKey] = []
    for item in items:
        kid = item.get("kid") if isinstance(item, dict) else None
        if isinstance(item, dict) and isinstance(kid, str) and algorithm_of(item) and item.get("use", "sig") == "sig":
            found.append(verification_key(kid, item))
    return tuple(found)
