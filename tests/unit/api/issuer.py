"""A token issuer for tests: its keys, and what it signs."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

from joserfc import jws, jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

NAME = "https://issuer.example"
AUDIENCE = "perdure"
NOW = 1_800_000_000

RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
BY_ALGORITHM: dict[str, Key] = {"RS256": RSA, "ES256": EC, "EdDSA": ED, "Ed25519": ED}


class _AnyAlgorithm(JWSRegistry):
    """Signs with everything that the library can, as an attacker would."""

    max_header_length = 8192

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name]

    def check_header(self, header: dict[str, Any]) -> None:
        pass


def key_set(*keys: Key) -> bytes:
    """The public document."""
    return json.dumps({"keys": [key.as_dict(private=key.key_type == "oct") for key in keys]}).encode()


def claims(**changed: Any) -> dict[str, Any]:
    """What a good token says, with changes; None takes a claim away."""
    good = {
        "iss": NAME, "aud": AUDIENCE, "sub": "ada", "exp": NOW + 300, "iat": NOW, "tenant": "acme", "scope": "read run",
    }  # fmt: skip
    return {name: value for name, value in {**good, **changed}.items() if value is not None}


def sign(key: Key, algorithm: str, *, header: dict[str, Any] | None = None, **changed: Any) -> str:
    """A token."""
    given = {"alg": algorithm, "kid": key.kid, **(header or {})}
    given = {name: value for name, value in given.items() if value is not None}
    registry = _AnyAlgorithm(strict_check_header=False)
    return jwt.encode(given, claims(**changed), key, registry=registry)


def unsigned(**header: Any) -> str:
    """A token with the algorithm `none` and an empty signature."""
    return f"{_part({'alg': 'none', **header})}.{_part(claims())}."


def sign_bytes(payload: bytes) -> str:
    """A signed text that need not be claims."""
    return jws.serialize_compact({"alg": "RS256", "kid": "rsa"}, payload, RSA, algorithms=["RS256"])


def sign_with_secret(secret: bytes, algorithm: str, *, kid: str) -> str:
    """A token signed with a symmetric key that everyone can read; the library refuses to make one."""
    signed = f"{_part({'alg': algorithm, 'kid': kid})}.{_part(claims())}"
    digest = hmac.digest(secret, signed.encode(), algorithm.replace("HS", "sha"))
    return f"{signed}.{_base64url(digest)}"


def _part(value: dict[str, Any]) -> str:
    return _base64url(json.dumps(value).encode())


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
