"""Another agent that talks to the server under test: it makes and signs envelopes by jwcrypto and rfc8785, not by our code."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import rfc8785
from jwcrypto import jwk, jws

MEDIA_TYPE = "application/uamp+json;v=1"
_KINDS: dict[str, dict[str, Any]] = {
    "ES256": {"kty": "EC", "crv": "P-256"},
    "EdDSA": {"kty": "OKP", "crv": "Ed25519"},
    "ES384": {"kty": "EC", "crv": "P-384"},
    "RS256": {"kty": "RSA", "size": 2048},
}

Envelope = dict[str, Any]


def new_id() -> str:
    """An envelope's id."""
    return f"urn:uuid:{uuid.uuid4()}"


def utc_text(moment: datetime) -> str:
    """A time as envelopes have it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def sha256_of(envelope: Envelope) -> str:
    """The hash of an envelope's canonical form without its signature."""
    bare = {name: value for name, value in envelope.items() if name != "sig"}
    return hashlib.sha256(rfc8785.dumps(bare)).hexdigest()


def payload_of(envelope: Envelope) -> bytes:
    """What a signature of an envelope is over."""
    return f'{{"sha256":"{sha256_of(envelope)}"}}'.encode()


def new_key(alg: str = "ES256") -> jwk.JWK:
    """A private key for an algorithm."""
    made: jwk.JWK = cast(Any, jwk.JWK).generate(**_KINDS[alg])
    return made


class Peer:
    """An agent elsewhere.

    Attributes:
        did: its own.
        alg: of its key.
        key: its private key.
        kid: names its key.
        to: whom its envelopes are for, unless it is said.
        now: its clock.
    """

    def __init__(
        self,
        did: str,
        *,
        to: str,
        alg: str = "ES256",
        key: jwk.JWK | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.did, self.alg, self.to, self.now = did, alg, to, now
        self.key = key or new_key(alg)
        self.kid = f"{did}#k1"

    @property
    def public(self) -> dict[str, Any]:
        """Its public key as a JWK, with the kid."""
        return {**json.loads(self.key.export_public()), "kid": self.kid, "alg": self.alg, "use": "sig"}

    def unsigned(self, content: str = "hello", **members: Any) -> Envelope:
        """An ask, or what the members say; a member that is None is left out, `from_` stands for `from`."""
        made: Envelope = {
            "id": new_id(),
            "ts": utc_text(self.now()),
            "from": self.did,
            "to": [self.to],
            "intent": "ask",
            "body": {"type": "text/plain", "content": content},
        }
        made |= {name.removesuffix("_"): value for name, value in members.items()}
        return {name: value for name, value in made.items() if value is not None}

    def signed(self, content: str = "hello", **members: Any) -> Envelope:
        """The same, signed."""
        return self.sign(self.unsigned(content, **members))

    def ack(self, ask: Envelope, stream_id: str, seq: int) -> Envelope:
        """An ACK of all frames up to one."""
        body = {"type": "application/json", "content": json.dumps({"ack": seq})}
        return self.signed(intent="progress", reply_to=ask["id"], stream_id=stream_id, body=body)

    def cancel(self, ask: Envelope, **members: Any) -> Envelope:
        """A cancel of an ask."""
        return self.signed("never mind", intent="cancel", reply_to=ask["id"], **members)

    def sign(self, unsigned: Envelope, *, attached: bool = False, **header: Any) -> Envelope:
        """An envelope with its signature; members of the header may be said, one that is None is left out."""
        return {**unsigned, "sig": self.signature(payload_of(unsigned), attached=attached, **header)}

    def signature(self, payload: bytes, *, attached: bool = False, key: jwk.JWK | None = None, **header: Any) -> str:
        """A compact JWS over a payload, detached unless said."""
        protected = {"alg": self.alg, "kid": self.kid, **header}
        protected = {name: value for name, value in protected.items() if value is not None}
        token = jws.JWS(payload)
        token.allowed_algs = [*_KINDS, "HS256", "HS512"]
        cast(Any, token).add_signature(key or self.key, None, json.dumps(protected), None)
        compact = token.serialize(compact=True)
        first, _, last = compact.split(".")
        return compact if attached else f"{first}..{last}"


def wire(envelope: Envelope) -> bytes:
    """An envelope as it is sent, in whatever order its members are."""
    return json.dumps(envelope, ensure_ascii=False).encode()
