"""A signature over a whole stream, in the payload of its terminal delta: deltas themselves carry none.

The hash is SHA-256 over the canonical JSON of every frame, each with a line feed; of the terminal one without its transcript.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from perdure.protocols.uamp_envelope.canonical import signature_payload
from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.error import malformed
from perdure.protocols.uamp_envelope.jws import read_compact, sign_compact, unauthenticated, verify_compact
from perdure.protocols.uamp_envelope.keys import SigningKey, VerificationKey

TRANSCRIPT = "transcript"


class Transcript:
    """The running hash of a stream's frames."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, delta: Delta) -> None:
        """Takes the next frame in; not the terminal one, which carries the result."""
        self._hash.update(_line(delta))

    def signed(self, terminal: Delta, key: SigningKey) -> Delta:
        """The terminal frame with its transcript: the hash over all frames, this one too, and the signature over that."""
        sha256 = self._sha256(terminal)
        jws = sign_compact({}, signature_payload(sha256), key, is_detached=True)
        return replace(terminal, payload={**terminal.payload, TRANSCRIPT: {"sha256": sha256, "jws": jws}})

    def verify(self, terminal: Delta, keys: Sequence[VerificationKey]) -> None:
        """Checks a terminal delta that has a transcript, and the frames that came before it.

        Raises:
            UAMPError: 4.00 if it has none, 4.01 if frames were changed or it is not signed by one of the keys.
        """
        value = terminal.payload.get(TRANSCRIPT)
        if not isinstance(value, dict) or not isinstance(value.get("jws"), str):
            raise malformed("the terminal delta has no transcript")
        sha256 = self._sha256(terminal)
        if value.get("sha256") != sha256:
            raise unauthenticated("the frames that came are not those that were signed")
        verify_compact(read_compact(str(value["jws"])), signature_payload(sha256), keys)

    def _sha256(self, terminal: Delta) -> str:
        """Of all frames with a terminal one: 64 hexadecimal digits."""
        whole = self._hash.copy()
        payload = {name: item for name, item in terminal.payload.items() if name != TRANSCRIPT}
        whole.update(_line(replace(terminal, payload=payload)))
        return whole.hexdigest()


def _line(delta: Delta) -> bytes:
    return delta.to_bytes() + b"\n"
