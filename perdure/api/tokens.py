"""JWT bearer tokens: who the issuer says the caller is. Sources: RFC 7519, RFC 8725 (best current practices).

The header of a token is the attacker's word: it picks a key of the issuer's by id, and nothing else. The key says the
algorithm; keys and addresses inside a token (`jwk`, `jku`, `x5u`, `x5c`) are not looked at.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from joserfc import jws, jwt
from joserfc.errors import ExpiredTokenError, JoseError, UnsupportedAlgorithmError
from joserfc.jws import JWSRegistry

from perdure.api.jwks import KeySource, algorithms_of, keys_at, keys_in
from perdure.api.principal import Principal, Scope
from perdure.api.problems import Refused
from perdure.config import Settings
from perdure.errors import InvalidInput
from perdure.runtime.outbound import check_url

ALGORITHMS = ("RS256", "ES256", "EdDSA", "Ed25519")
CLOCK_SKEW_SECONDS = 60
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MAX_NAME = 200
"""Characters of a caller's name; a longer subject of a token is cut."""
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="perdure", error="invalid_token"'}


class _Registry(JWSRegistry):
    """Our algorithms only; `EdDSA` is Ed25519 here, so the library's warning that the name says too little is moot."""

    max_header_length = 4096

    def __init__(self) -> None:
        super().__init__(algorithms=ALGORITHMS, strict_check_header=False)

    def get_alg(self, name: str) -> Any:
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError("not one of ours")
        return self.algorithms[name]


@dataclass(frozen=True, slots=True)
class TokenVerifier:
    """Accepts the tokens of one issuer.

    Attributes:
        issuer: the claim `iss`.
        audience: the claim `aud`, or one of it.
        keys: the issuer's.
        tenant_claim: where the tenant stands.
        scope_claim: where the scopes stand, in a text with blanks between or a list.
        clock: seconds since 1970.
    """

    issuer: str
    audience: str
    keys: KeySource
    tenant_claim: str = "tenant"
    scope_claim: str = "scope"
    clock: Callable[[], float] = time.time

    async def verify(self, token: str) -> Principal:
        """Who a token is of.

        Raises:
            Refused: it is not the issuer's, not for us, not valid now, or names no tenant (401).
            ServerUnavailable: the issuer's keys are not there.
        """
        try:
            claims = await self._claims(token)
        except ExpiredTokenError:
            raise refused("the token has expired; ask its issuer for a new one") from None
        except (JoseError, ValueError, TypeError, RecursionError):
            # What is wrong in particular is told to nobody who may be trying.
            raise refused(
                f"the token cannot be used: it must be signed by {self.issuer} ({', '.join(ALGORITHMS)}), be meant for "
                f"{self.audience} and have the claims iss, aud, exp and sub"
            ) from None
        return self._principal(claims)

    async def _claims(self, token: str) -> dict[str, Any]:
        registry = _Registry()
        header = jws.extract_compact(token.encode("ascii"), registry=registry).headers()
        kid: object = header.get("kid")
        key = await self.keys.key(kid) if isinstance(kid, str | None) else None
        if key is None or header.get("alg") not in algorithms_of(key):
            raise UnsupportedAlgorithmError("the key is not there, or is for another algorithm")
        claims = jwt.decode(token, key, registry=registry).claims
        jwt.JWTClaimsRegistry(
            now=int(self.clock()),
            leeway=CLOCK_SKEW_SECONDS,
            iss={"essential": True, "value": self.issuer},
            aud={"essential": True, "value": self.audience},
            exp={"essential": True},
            sub={"essential": True},
        ).validate(claims)
        return claims

    def _principal(self, claims: dict[str, Any]) -> Principal:
        tenant: object = claims.get(self.tenant_claim)
        if not isinstance(tenant, str) or _TENANT.fullmatch(tenant) is None:
            raise refused(f"the token's claim {self.tenant_claim!r} is no tenant's id; its issuer must add it")
        expires_at = datetime.fromtimestamp(int(claims["exp"]) + CLOCK_SKEW_SECONDS, UTC)
        return Principal(str(claims["sub"])[:MAX_NAME], tenant, read_scopes(claims.get(self.scope_claim)), expires_at)


def read_scopes(claim: object) -> frozenset[Scope]:
    """The scopes of ours in a claim; an issuer may list others beside them."""
    words: list[Any] = []
    if isinstance(claim, str):
        words = claim.split()
    elif isinstance(claim, list):
        words = cast("list[Any]", claim)
    return frozenset(scope for scope in Scope if scope.value in words)


def token_verifier(settings: Settings) -> TokenVerifier | None:
    """The verifier that the settings ask for, or None.

    Raises:
        InvalidInput: they ask for one but do not say enough.
    """
    given = (settings.jwt_issuer, settings.jwt_audience, settings.jwks_url, settings.jwks_file)
    if given == (None, None, None, None):
        return None
    url, file = settings.jwks_url, settings.jwks_file
    if settings.jwt_issuer is None or settings.jwt_audience is None or (url is None) == (file is None):
        raise InvalidInput(
            "tokens need PERDURE_JWT_ISSUER, PERDURE_JWT_AUDIENCE and one of PERDURE_JWKS_URL and PERDURE_JWKS_FILE"
        )
    if url is not None:
        keys = keys_at(check_url(url, "PERDURE_JWKS_URL"), allow_private=settings.jwks_allow_private)
    else:
        assert file is not None
        keys = keys_in(file)
    return TokenVerifier(
        settings.jwt_issuer, settings.jwt_audience, keys, settings.jwt_tenant_claim, settings.jwt_scope_claim
    )


def refused(detail: str) -> Refused:
    """A 401 for a credential that was given and is worth nothing."""
    return Refused(401, "unauthenticated", detail, CHALLENGE)
