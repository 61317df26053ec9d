"""Compact JWS: signed, taken apart with every check that needs no key, and verified.

What a header says is never obeyed: it may name a key of its signer, and that is all. Source: RFC 7515; RFC 8725.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.keys import SigningKey, VerificationKey
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.upp.json_value import JSONObject

MAX_KEYS_TRIED = 8
MAX_KID_CHARS = 300

_SIGNATURE_BYTES = 64  # of ES256 (R and S, not DER) and of Ed25519
_MAX_HEADER_BYTES = 512
_BASE64URL = re.compile("[A-Za-z0-9_-]+")
_REFUSED_MEMBERS = ("crit", "b64", "jwk", "jku", "x5u", "x5c", "x5t", "x5t#S256")
_NAMES = {"ES256": "ES256", "EdDSA": "EdDSA", "Ed25519": "EdDSA"}


class UnknownKey(UAMPError):
    """No known key has the kid of a signature. Whoever fetches keys may fetch once more, then this stands."""


@dataclass(frozen=True, slots=True)
class CompactJWS:
    """A compact JWS whose header is acceptable and whose signature is not verified yet.

    Attributes:
        header: its members; `alg` is ES256, EdDSA or Ed25519.
        kid: the key that it names; None if it names none.
        payload: the middle part's bytes; empty if detached.
    """

    header: JSONObject
    kid: str | None
    payload: bytes
    protected_part: str
    signature_part: str

    @property
    def algorithm(self) -> str:
        """Of the key that can verify it: ES256 or EdDSA."""
        return _NAMES[cast(str, self.header["alg"])]


def sign_compact(header: JSONObject, payload: bytes, key: SigningKey, *, is_detached: bool = False) -> str:
    """A compact JWS; its middle part is empty if detached (RFC 7515, appendix F).

    Args:
        header: more members than `alg` and `kid`, which come first.
        payload: what is signed.
        key: gives algorithm and kid.
        is_detached: whether to leave the payload out.
    """
    protected = {"alg": key.algorithm, "kid": key.kid, **header}
    token = jws.serialize_compact(protected, payload, key.key, registry=_REGISTRY)
    return jws.detach_content(token) if is_detached else token


def read_compact(token: str) -> CompactJWS:
    """Takes a compact JWS apart and judges its header.

    Raises:
        UAMPError: 4.01 if it is no such thing, or its header asks for what is not done here.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise unauthenticated("a signature must be a compact JWS of three parts")
    header = _header(decode_part(parts[0]))
    alg = header.get("alg")
    if not isinstance(alg, str) or alg not in _NAMES:
        raise unauthenticated(f"the algorithm {alg!s:.32} is not accepted; use ES256 or EdDSA")
    asked = [name for name in _REFUSED_MEMBERS if name in header]
    if asked:
        raise unauthenticated(f"the header member {asked[0]} is not accepted")
    kid = header.get("kid")
    if kid is not None and (not isinstance(kid, str) or not 0 < len(kid) <= MAX_KID_CHARS):
        raise unauthenticated(f"the header's kid must be a text of 1 to {MAX_KID_CHARS} characters")
    if len(decode_part(parts[2])) != _SIGNATURE_BYTES:
        raise unauthenticated(f"the signature must be {_SIGNATURE_BYTES} bytes (for ES256 R and S, not DER)")
    payload = decode_part(parts[1]) if parts[1] else b""
    return CompactJWS(header, kid, payload, parts[0], parts[2])


def verify_compact(token: CompactJWS, payload: bytes, keys: Sequence[VerificationKey]) -> VerificationKey:
    """The key that verifies a JWS over a payload.

    Args:
        token: as read.
        payload: what must have been signed, whatever the token itself carries.
        keys: of the signer only. One is chosen by kid; without a kid at most 8 are tried.

    Raises:
        UnknownKey: 4.01: none has the token's kid.
        UAMPError: 4.01: the signature is not by any of them.
    """
    named = [key for key in keys if token.kid is None or key.kid == token.kid]
    if not named:
        raise UnknownKey(Code.UNAUTHENTICATED, f"the signer has no key {token.kid or 'at all'}")
    fitting = [key for key in named[:MAX_KEYS_TRIED] if key.algorithm == token.algorithm]
    found = next((key for key in fitting if _is_by(token, payload, key)), None)
    if found is None:
        raise unauthenticated("the signature does not verify")
    return found


def decode_part(text: str) -> bytes:
    """The bytes of unpadded base64url in its one right spelling.

    Raises:
        UAMPError: 4.01.
    """
    if _BASE64URL.fullmatch(text) is None:
        raise unauthenticated("a part of the signature is not unpadded base64url")
    try:
        made = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise unauthenticated("a part of the signature is cut off") from error
    if encode_part(made) != text:
        raise unauthenticated("a part of the signature has stray bits at its end")
    return made


def encode_part(data: bytes) -> str:
    """Bytes as unpadded base64url."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unauthenticated(message: str) -> UAMPError:
    """An error 4.01 to raise: nothing shows that the sender is who it says."""
    return UAMPError(Code.UNAUTHENTICATED, message)


def _header(data: bytes) -> JSONObject:
    try:
        return parse_object(data, max_bytes=_MAX_HEADER_BYTES, max_depth=4)
    except UAMPError as error:
        raise unauthenticated(f"the signature's header: {error.message}") from error


def _is_by(token: CompactJWS, payload: bytes, key: VerificationKey) -> bool:
    text = f"{token.protected_part}..{token.signature_part}"
    try:
        jws.deserialize_compact(text, key.key, registry=_REGISTRY, payload=payload)
    except (JoseError, ValueError):
        return False
    return True


class _Registry(JWSRegistry):
    """joserfc's algorithms without its warning that the name EdDSA is deprecated: it is the specification's name."""

    max_payload_length = 1024 * 1024

    def get_alg(self, name: str) -> Any:
        if name not in _NAMES:  # headers have been judged; nothing else may ever get here
            raise unauthenticated(f"the algorithm {name:.32} is not accepted")
        return self.algorithms[name]


_REGISTRY = _Registry(strict_check_header=False)
