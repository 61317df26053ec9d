"""The keys that sign and verify: P-256 for ES256, Ed25519 for EdDSA, and nothing else.

A key knows its one algorithm, so no header of a sender can choose another for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, cast

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject

Algorithm = Literal["ES256", "EdDSA"]
Key = ECKey | OKPKey

_PUBLIC_MEMBERS = ("kty", "crv", "x", "y")
_CURVES: tuple[tuple[str, str, Algorithm], ...] = (("EC", "P-256", "ES256"), ("OKP", "Ed25519", "EdDSA"))


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key.

    Attributes:
        kid: the DID URL that names it, as `did:web:agent.example#k1`.
        algorithm: the only one that it verifies.
        jwk: its public members.
    """

    kid: str
    algorithm: Algorithm
    jwk: JSONObject = field(repr=False)
    key: Key = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key; its repr shows nothing of it.

    Attributes:
        kid: the DID URL that names its public part.
        algorithm: the only one that it signs with.
    """

    kid: str
    algorithm: Algorithm
    key: Key = field(repr=False, compare=False)

    def public(self) -> VerificationKey:
        """Its public part."""
        jwk = cast(JSONObject, dict(self.key.as_dict(private=False)))
        return verification_key(self.kid, {name: jwk[name] for name in _PUBLIC_MEMBERS if name in jwk})

    def private_jwk(self) -> JSONObject:
        """All of it, to be kept where secrets are kept."""
        members = (*_PUBLIC_MEMBERS, "d")
        jwk = cast(JSONObject, dict(self.key.as_dict(private=True)))
        return {name: jwk[name] for name in members if name in jwk}


def verification_key(kid: str, jwk: JSONObject) -> VerificationKey:
    """The public key of a JWK.

    Args:
        kid: the DID URL that names it.
        jwk: RFC 7517; members that the key does not need are dropped.

    Raises:
        InvalidInput: it is of another kind, is damaged, is not for signatures, or holds a private part, which its
            owner must now think of as lost.
    """
    if "d" in jwk:
        raise InvalidInput(f"the public key {kid} holds a private part; replace the key, it is known to others now")
    if jwk.get("use", "sig") != "sig":
        raise InvalidInput(f"the key {kid} is not for signatures (use={jwk['use']!r})")
    algorithm = _algorithm(kid, jwk)
    public = {name: jwk[name] for name in _PUBLIC_MEMBERS if name in jwk}
    return VerificationKey(kid, algorithm, public, _imported(kid, public))


def signing_key(kid: str, jwk: JSONObject) -> SigningKey:
    """The private key of a JWK.

    Raises:
        InvalidInput: it is of another kind, is damaged, has no private part or that of another key.
    """
    if "d" not in jwk:
        raise InvalidInput(f"the key {kid} has no private part (member 'd'), so it cannot sign")
    members = (*_PUBLIC_MEMBERS, "d")
    key = _imported(kid, {name: jwk[name] for name in members if name in jwk})
    public = verification_key(kid, {name: jwk[name] for name in _PUBLIC_MEMBERS if name in jwk})
    if cast(Any, key.get_op_key("sign")).public_key() != public.key.get_op_key("verify"):
        raise InvalidInput(f"the private part of the key {kid} belongs to another public part")
    return SigningKey(kid, public.algorithm, key)


def generate_key(kid: str, algorithm: Algorithm = "ES256") -> SigningKey:
    """A new private key. ES256 is what most peers verify."""
    made = ECKey.generate_key("P-256") if algorithm == "ES256" else OKPKey.generate_key("Ed25519")
    return SigningKey(kid, algorithm, made)


def algorithm_of(jwk: JSONObject) -> Algorithm | None:
    """The algorithm of a JWK's kind; None if it is of a kind that is not used here."""
    kind = (jwk.get("kty"), jwk.get("crv"))
    return next((algorithm for kty, crv, algorithm in _CURVES if kind == (kty, crv)), None)


def _algorithm(kid: str, jwk: JSONObject) -> Algorithm:
    found = algorithm_of(jwk)
    if found is None:
        kind = f"{jwk.get('kty')!s:.20}/{jwk.get('crv')!s:.20}"
        raise InvalidInput(f"the key {kid} is {kind}; use EC/P-256 or OKP/Ed25519")
    return found


def _imported(kid: str, jwk: JSONObject) -> Key:
    try:
        made = ECKey.import_key(cast(Any, jwk)) if jwk["kty"] == "EC" else OKPKey.import_key(cast(Any, jwk))
        made.get_op_key("sign" if "d" in jwk else "verify")
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"the key {kid} cannot be read: {error}") from error
    return made
