"""Capability tokens: what a sender may do here, as a JWT of an issuer that is trusted.

A token that is there must verify; being inside the signed envelope it is bound to the sender, and `sub` keeps others
from using it again. Scopes: `uamp:ask` (any intent) or `uamp:*`, and `uamp-body:text/plain` to narrow the body types.
Source: UAMP envelope 1.0, section 6.2; RFC 7519.
"""

from __future__ import annotations

import math
from base64 import urlsafe_b64decode
from binascii import Error as NoBase64
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.jws import CompactJWS, read_compact, verify_compact
from perdure.protocols.uamp_envelope.keys import VerificationKey
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.upp.json_value import JSONObject, JSONValue

LEEWAY = timedelta(seconds=60)
MAX_TOKEN_CHARS = 8 * 1024

_TYPES = (None, "jwt", "at+jwt", "application/at+jwt")
_CWT_FIRST_BYTES = frozenset({0xD2, 0xD8, 0x84, 0xD1, 0xD0})  # COSE_Sign1 and its kin, tagged and not


@dataclass(frozen=True, slots=True)
class CapToken:
    """A token that is not verified yet.

    Attributes:
        issuer: whose keys must verify it, if it is trusted.
        kid: the key that it names; None if it names none.
    """

    issuer: str
    kid: str | None
    claims: JSONObject
    jws: CompactJWS


@dataclass(frozen=True, slots=True)
class Capability:
    """What a verified token allows.

    Attributes:
        issuer: who says so.
        scopes: as listed.
    """

    issuer: str
    scopes: frozenset[str]

    def check_allows(self, intent: Intent, body_type: str) -> None:
        """Checks an envelope's intent and body type against the scopes.

        Raises:
            UAMPError: 4.03.
        """
        if not self.scopes & {"uamp:*", f"uamp:{intent}"}:
            raise _refused(f"no scope uamp:{intent}")
        kinds = {scope for scope in self.scopes if scope.startswith("uamp-body:")}
        kind = body_type.partition(";")[0].strip().lower()
        if kinds and f"uamp-body:{kind}" not in kinds:
            raise _refused(f"no scope uamp-body:{kind[:60]}")


def read_cap_token(token: str) -> CapToken:
    """Reads a token, to learn whose keys must verify it. Nothing that it says counts yet.

    Raises:
        UAMPError: 4.03 if it is a CWT, or no JWT that could be taken.
    """
    if len(token) > MAX_TOKEN_CHARS:
        raise _refused(f"longer than {MAX_TOKEN_CHARS} characters")
    if token.count(".") != 2 and _is_cwt(token):
        raise _refused("a CWT, which this agent does not read; send a JWT")
    try:
        jws = read_compact(token)
        claims = parse_object(jws.payload, max_bytes=MAX_TOKEN_CHARS)
    except UAMPError as error:
        raise _refused(f"no JWT that is taken here ({error.message})") from error
    kind = jws.header.get("typ")
    if (kind.lower() if isinstance(kind, str) else kind) not in _TYPES:
        raise _refused(f"of typ {kind!s:.32}, not JWT")
    issuer = claims.get("iss")
    if not isinstance(issuer, str) or not issuer:
        raise _refused("without an issuer (iss)")
    return CapToken(issuer, jws.kid, claims, jws)


def verify_cap_token(
    token: CapToken,
    keys: Sequence[VerificationKey],
    *,
    audiences: Collection[str],
    sender: str,
    now: datetime,
    leeway: timedelta = LEEWAY,
) -> Capability:
    """What a token allows.

    Args:
        token: as read.
        keys: of its issuer, if that one is trusted; none if it is not.
        audiences: what we are called: the agent's DID and the server's base URL.
        sender: the envelope's `from`, whom the token must be for (`sub`, or `client_id`).
        now: the time.
        leeway: how far clocks may be apart.

    Raises:
        UAMPError: 4.03; the message says which part failed, and nothing of the token.
    """
    if not keys:
        raise _refused("from an issuer that is not trusted here")
    try:
        verify_compact(token.jws, token.jws.payload, keys)
    except UAMPError as error:
        raise _refused("not signed by its issuer") from error
    claims = token.claims
    named = claims.get("aud")
    listed = named if isinstance(named, list) else [named]
    if not any(isinstance(item, str) and item in audiences for item in listed):
        raise _refused("for another audience")
    if claims.get("sub", claims.get("client_id")) != sender:
        raise _refused("for another sender")
    _check_times(claims, now, leeway)
    scope = claims.get("scope")
    if not isinstance(scope, str) or not scope.split():
        raise _refused("without a scope")
    return Capability(token.issuer, frozenset(scope.split()))


def _check_times(claims: JSONObject, now: datetime, leeway: timedelta) -> None:
    seconds = now.timestamp()
    if _seconds(claims.get("exp"), "exp") <= seconds - leeway.total_seconds():
        raise _refused("expired")
    if "nbf" in claims and _seconds(claims["nbf"], "nbf") > seconds + leeway.total_seconds():
        raise _refused("not valid yet")


def _seconds(value: JSONValue, name: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise _refused(f"without a time in {name}")
    return float(value)


def _is_cwt(token: str) -> bool:
    try:
        data = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (NoBase64, ValueError):
        return False
    return bool(data) and data[0] in _CWT_FIRST_BYTES


def _refused(reason: str) -> UAMPError:
    return UAMPError(Code.UNAUTHORIZED, f"the cap_token is refused: {reason}")
