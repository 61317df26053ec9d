"""What a binding does for the client: it delivers envelopes and brings frames. Signing and order are not its part."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.keys import VerificationKey

Binding = Literal["h2", "h3", "ws", "grpc"]
BINDINGS: tuple[Binding, ...] = ("h2", "h3", "ws", "grpc")

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Of what has come and nobody has taken yet: a server that keeps to the windows does not get there."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """That an envelope was taken.

    Attributes:
        stream_id: of the stream that it opened; None if it opened none.
        location: where that stream is, if the binding says so.
    """

    stream_id: str | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """An envelope that the other side has taken.

    Attributes:
        envelope: as it was sent; `signature.envelope_bytes` gives the bytes of a resend.
        stream_id: of the stream that it opened; None if it opened none.
        location: where that stream is, if the binding says so.
    """

    envelope: Envelope
    stream_id: str | None = None
    location: str | None = None

    @property
    def peer(self) -> str:
        """Whom it is for."""
        return self.envelope.recipients[0]


class EnvelopeConnection(Protocol):
    """One binding to one server. Everything may raise `ConnectionBroken`, and `UnsignedError` for a refusal."""

    @property
    def carries_acks(self) -> bool:
        """Whether ACKs go as deltas by `acknowledge`; else each is an envelope."""
        ...

    async def deliver(self, envelope: Envelope) -> Delivered:
        """Send an envelope, for the first time or again."""
        ...

    def stream(self, sent: Sent, *, after: int | None) -> AsyncGenerator[Delta, None]:
        """The frames of a stream as they come, in whatever order and number; ends when the connection does.

        Args:
            sent: what opened it.
            after: the last frame that was taken; None to begin at frame 0.
        """
        ...

    async def acknowledge(self, stream_id: str, seq: int) -> None:
        """Send an ACK on the connection that brings the stream."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...


class PeerKeys(Protocol):
    """Finds the keys of another agent."""

    async def keys(self, did: str, *, kid: str | None = None) -> Sequence[VerificationKey]:
        """The keys that may sign for a DID.

        Args:
            did: whose.
            kid: one that must be among them if there is such a key: what is remembered is fetched anew for it, once.

        Raises:
            UAMPError: 4.01: they cannot be found.
        """
        ...
