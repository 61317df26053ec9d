"""Who a client is: a DID and the private key that signs for it, kept in a file that only its owner can read.

The file is one JWK (RFC 7517) whose `kid` is the DID URL of the key.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.did_web import split_did_url
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.jws import decode_part
from perdure.protocols.uamp_envelope.keys import Algorithm, SigningKey, generate_key, signing_key
from perdure.protocols.uamp_envelope.strict_json import parse_object

_MAX_FILE_BYTES = 16 * 1024
_SHOWN_THUMBPRINT_CHARS = 8


@dataclass(frozen=True, slots=True)
class Identity:
    """A DID and the key that signs for it.

    Attributes:
        did: what stands in `from`.
        key: signs; its kid is a DID URL of `did`.
    """

    did: str
    key: SigningKey = field(repr=False)

    def __post_init__(self) -> None:
        if split_did_url(self.key.kid)[0] != self.did:
            raise InvalidInput(f"the key {self.key.kid} is not of {self.did}")


def new_identity(did: str, algorithm: Algorithm = "ES256") -> Identity:
    """A DID with a new key.

    Raises:
        InvalidInput: it is no DID.
    """
    drawn = generate_key(f"{did}#new", algorithm)
    split_did_url(drawn.kid)
    name = decode_part(drawn.key.thumbprint()).hex()[:_SHOWN_THUMBPRINT_CHARS]
    return Identity(did, SigningKey(f"{did}#{name}", algorithm, drawn.key))


def write_identity(path: Path, identity: Identity) -> None:
    """Keep an identity in a new file that only its owner can read.

    Raises:
        InvalidInput: the file is there already, or cannot be written.
    """
    text = json.dumps({**identity.key.private_jwk(), "kid": identity.key.kid, "alg": identity.key.algorithm}, indent=2)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidInput(f"{path} is there already; a key is never written over") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def read_identity(path: Path) -> Identity:
    """The identity of a file.

    Raises:
        InvalidInput: it is not there, others can read it, or it holds no private key with a DID URL as its `kid`.
    """
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise InvalidInput(f"others can read the key in {path}; chmod 600 it, or make a new one if it has leaked")
        data = path.read_bytes()[: _MAX_FILE_BYTES + 1]
    except OSError as error:
        raise InvalidInput(f"the key file {path} cannot be read: {error.strerror}") from error
    try:
        jwk = parse_object(data, max_bytes=_MAX_FILE_BYTES)
    except UAMPError as error:
        raise InvalidInput(f"the key file {path} is no JWK: {error.message}") from None
    kid = jwk.get("kid")
    if not isinstance(kid, str):
        raise InvalidInput(f"the JWK in {path} needs a kid such as did:web:agent.example#k1")
    return Identity(split_did_url(kid)[0], signing_key(kid, jwk))
