"""An envelope's signature: made, read with every check that needs no key, and verified.

Emitted detached (RFC 7515, appendix F). An attached one is read too, if what it carries is what must have been signed.
Source: UAMP envelope 1.0, section 6.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.canonical import canonical_json, envelope_sha256, signature_payload
from perdure.protocols.uamp_envelope.did_web import split_did_url
from perdure.protocols.uamp_envelope.envelope import Envelope, envelope_of
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.jws import CompactJWS, read_compact, sign_compact, unauthenticated, verify_compact
from perdure.protocols.uamp_envelope.keys import SigningKey, VerificationKey
from perdure.upp.json_value import JSONObject

_TYPES = (None, "JOSE")


@dataclass(frozen=True, slots=True)
class SignatureRules:
    """What a signature may have beyond the strict form.

    Attributes:
        takes_ed25519_name: whether `alg` may be the newer name Ed25519 for EdDSA (RFC 9864).
        takes_jwt_type: whether `typ` may be JWT, as some older senders write it.
    """

    takes_ed25519_name: bool = False
    takes_jwt_type: bool = False


STRICT = SignatureRules()


def sign_envelope(unsigned: JSONObject, key: SigningKey) -> Envelope:
    """The envelope with its signature; `envelope_bytes` gives what is sent.

    Args:
        unsigned: from `build_envelope`.
        key: of the DID in `from`.

    Raises:
        InvalidInput: the key is of another DID than `from`.
        UAMPError: 4.00 if it is no envelope.
    """
    if split_did_url(key.kid)[0] != unsigned.get("from"):
        raise InvalidInput(f"the key {key.kid} cannot sign for {unsigned.get('from')!s:.80}")
    payload = signature_payload(envelope_sha256(unsigned))
    return envelope_of({**unsigned, "sig": sign_compact({}, payload, key, is_detached=True)})


def envelope_bytes(envelope: Envelope) -> bytes:
    """The envelope as it is sent: canonical JSON, with its signature."""
    return canonical_json(envelope.json)


def read_signature(envelope: Envelope, rules: SignatureRules = STRICT) -> CompactJWS:
    """Judges a signature by what needs no key, so that none is fetched for what cannot stand.

    Raises:
        UAMPError: 4.03 if it names a key of another DID than `from`; 4.01 for every other fault.
    """
    token = read_compact(envelope.sig)
    if token.header["alg"] == "Ed25519" and not rules.takes_ed25519_name:
        raise unauthenticated("the algorithm Ed25519 is not accepted; use ES256 or EdDSA")
    kind = token.header.get("typ")
    if kind not in _TYPES and not (kind == "JWT" and rules.takes_jwt_type):
        raise unauthenticated(f"the signature's typ {kind!s:.32} is not accepted; leave it out")
    if token.payload and token.payload != signature_payload(envelope.sha256):
        raise unauthenticated("the signature carries another hash than the envelope's")
    if token.kid is not None:
        _check_signer(token.kid, envelope.sender)
    return token


def verify_signature(
    envelope: Envelope, keys: Sequence[VerificationKey], rules: SignatureRules = STRICT
) -> VerificationKey:
    """The key that signed the envelope.

    Args:
        envelope: as read.
        keys: those of `envelope.sender` that may sign, from its DID document or a configured set.
        rules: what is accepted beyond the strict form.

    Raises:
        UnknownKey: 4.01: none of them has the signature's kid.
        UAMPError: 4.03 if it names a key of another DID than `from`; 4.01 for every other fault.
    """
    token = read_signature(envelope, rules)
    own = [key for key in keys if key.kid.partition("#")[0] == envelope.sender]
    return verify_compact(token, signature_payload(envelope.sha256), own)


def _check_signer(kid: str, sender: str) -> None:
    try:
        did, _ = split_did_url(kid)
    except InvalidInput as error:
        raise unauthenticated(f"the signature's kid: {error}") from error
    if did != sender:
        raise UAMPError(Code.UNAUTHORIZED, f"a key of {did[:80]} cannot sign for {sender[:80]}")
