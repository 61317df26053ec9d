"""JSON Web Tokens of an issuer, bearer tokens and capability tokens, and signed documents: by jwcrypto, not by our code."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, cast

from jwcrypto import jwk, jws, jwt

from tests.conformance.envelope_peer import new_key

ISSUER = "https://issuer.example"
KID = "issuer-1"


class Issuer:
    """An issuer and its key.

    Attributes:
        key: its private key.
    """

    def __init__(self) -> None:
        self.key = new_key()

    @property
    def key_set(self) -> dict[str, Any]:
        """Its public key."""
        return {"keys": [{**json.loads(self.key.export_public()), "kid": KID, "use": "sig"}]}

    def token(self, claims: dict[str, Any], *, key: jwk.JWK | None = None, alg: str = "ES256", **header: Any) -> str:
        """A token that is good for five minutes; a claim that is None is left out."""
        now = int(time.time())
        said = {"iss": ISSUER, "iat": now, "exp": now + 300, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        made = cast(Any, jwt).JWT(header={"alg": alg, "kid": KID, **header}, claims=said, algs=[alg])
        made.make_signed_token(key or self.key)
        return made.serialize()

    def write_key_set(self, file: Path) -> Path:
        """Its key set in a file, as PERDURE_JWKS_FILE has it."""
        file.write_text(json.dumps(self.key_set))
        return file

    def write_issuers(self, file: Path) -> Path:
        """Its key set in a file, as PERDURE_UAMP_TOKEN_ISSUERS has it."""
        file.write_text(json.dumps({ISSUER: self.key_set}))
        return file


def sign_compact(payload: bytes, key: jwk.JWK, **header: str) -> str:
    """A compact JWS by ES256."""
    token = cast(Any, jws).JWS(payload)
    token.add_signature(key, None, json.dumps({"alg": "ES256", **header}), None)
    return token.serialize(compact=True)


def verify_compact(compact: str, public: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Header and payload of a compact JWS that the key of a public JWK has signed; else it raises."""
    token = cast(Any, jws).JWS()
    token.deserialize(compact)
    token.verify(jwk.JWK(**public))
    return token.jose_header, token.payload
