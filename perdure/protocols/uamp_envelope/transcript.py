"""A signature over a whole stream, in the payload of its terminal delta: deltas themselves carry none.

The running hash is SHA-256 over the canonical JSON of every frame before the terminal one, each with a line feed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from perdure.protocols.uamp_envelope.canonical import signature_payload
from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.error import malformed
from perdure.protocols.uamp_envelope.jws import read_compact, sign_compact, unauthenticated, verify_compact
from perdure.protocols.uamp_envelope.keys import SigningKey, VerificationKey
from perdure.upp.json_value import JSONObject


class Transcript:
    """The running hash of a stream's frames."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, delta: Delta) -> None:
        """Takes the next frame in; not the terminal one, which carries the result."""
        self._hash.update(delta.to_bytes() + b"\n")

    @property
    def sha256(self) -> str:
        """Of the frames so far: 64 hexadecimal digits."""
        return self._hash.hexdigest()

    def signed(self, key: SigningKey) -> JSONObject:
        """The member `transcript` of the terminal delta's payload."""
        return {
            "sha256": self.sha256,
            "jws": sign_compact({}, signature_payload(self.sha256), key, is_detached=True),
        }

    def verify(self, terminal: Delta, keys: Sequence[VerificationKey]) -> None:
        """Checks a terminal delta that has a transcript against the frames that came.

        Raises:
            UAMPError: 4.00 if it has none, 4.01 if frames were changed or it is not signed by one of the keys.
        """
        value = terminal.payload.get("transcript")
        if not isinstance(value, dict) or not isinstance(value.get("jws"), str):
            raise malformed("the terminal delta has no transcript")
        if value.get("sha256") != self.sha256:
            raise unauthenticated("the frames that came are not those that were signed")
        verify_compact(read_compact(str(value["jws"])), signature_payload(self.sha256), keys)
