"""A key that signs responses: RSA, for RS256 and nothing else. Sources: UAMP 1.0, section 6.7; RFC 7517; RFC 7638."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject, JSONValue

ALGORITHM = "RS256"
BITS = 2048
"""Of a new key, and the least that a given one must have."""

_PEM = re.compile(rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.+?-----END \1PRIVATE KEY-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key; its repr shows nothing of it.

    Attributes:
        kid: the thumbprint of its public part, which verifiers find it by.
    """

    kid: str
    key: RSAKey = field(repr=False, compare=False)

    def public(self) -> JSONObject:
        """Its public part, as a key set lists it."""
        members = self.key.as_dict(private=False)
        return {
            "kty": "RSA",
            "n": str(members["n"]),
            "e": str(members["e"]),
            "kid": self.kid,
            "alg": ALGORITHM,
            "use": "sig",
        }

    def sign(self, claims: JSONObject) -> str:
        """A JWT of these claims. The same claims give the same token."""
        header = {"alg": ALGORITHM, "typ": "JWT", "kid": self.kid}
        return jwt.encode(header, cast("dict[str, Any]", claims), self.key, algorithms=[ALGORITHM])

    def to_der(self) -> bytes:
        """All of it, PKCS #8: to be kept where secrets are kept."""
        return self.key.as_der(private=True)


def new_key() -> SigningKey:
    """A random key. It takes a while: about a tenth of a second."""
    return _named(RSAKey.generate_key(BITS, private=True))


def key_of_der(private_key: bytes) -> SigningKey:
    """The key that `to_der` gave.

    Raises:
        InvalidInput: it is no such thing.
    """
    return _read(private_key, "the stored key")


def keys_of_pem(document: bytes, place: str) -> list[SigningKey]:
    """The private keys of a PEM document, in its order.

    Args:
        document: one or several blocks.
        place: where it is from, for the error's text.

    Raises:
        InvalidInput: there is none, or one is no RSA key, too short, or has a password.
    """
    found = [_read(block.group(0), place) for block in _PEM.finditer(document)]
    if not found:
        raise InvalidInput(f"{place} has no private key; make one: openssl genrsa -out FILE {BITS}")
    return found


def key_set(keys: Sequence[SigningKey]) -> JSONObject:
    """The JSON Web Key Set in which verifiers find the public parts."""
    return {"keys": list[JSONValue](key.public() for key in keys)}


def _read(private_key: bytes, place: str) -> SigningKey:
    try:
        with warnings.catch_warnings(action="ignore"):  # of a short key, which is refused below
            key = RSAKey.import_key(private_key)
        named = _named(key)
    except (JoseError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"{place} has a private key that cannot be read ({type(error).__name__}); it must be an RSA key in PEM "
            "without a password"
        ) from None
    if not key.is_private or key.raw_value.key_size < BITS:
        raise InvalidInput(
            f"{place} has a key of {key.raw_value.key_size} bits; RS256 needs an RSA key of {BITS} or more"
        )
    return named


def _named(key: RSAKey) -> SigningKey:
    return SigningKey(key.thumbprint(), key)
