"""The consumer's side of a stream: frames taken without a gap or a repeat, and when to ACK them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.envelope import DEFAULT_WINDOW
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed


@dataclass(frozen=True, slots=True)
class ReceiveSequence:
    """How far a consumer has read one stream.

    Attributes:
        stream_id: the stream.
        window: what the ask said, 64 if it said nothing.
        next_seq: of the frame that must come next.
        acked: the greatest sequence number that was ACKed; -1 if none was.
        has_ended: whether the terminal frame has come.
    """

    stream_id: str
    window: int = DEFAULT_WINDOW
    next_seq: int = 0
    acked: int = -1
    has_ended: bool = False

    @property
    def last_seq(self) -> int | None:
        """The last frame taken, for Last-Event-ID and for an ACK; None if there is none."""
        return self.next_seq - 1 if self.next_seq else None

    @property
    def is_ack_due(self) -> bool:
        """Whether an ACK of `last_seq` should go out: half the window is read, and the stream goes on."""
        return not self.has_ended and self.next_seq - 1 - self.acked >= max(1, self.window // 2)

    def is_repeat(self, delta: Delta) -> bool:
        """Whether a frame has been taken before: after a reconnect it may come again, and is passed over."""
        return delta.seq < self.next_seq

    def taken(self, delta: Delta) -> ReceiveSequence:
        """The sequence after a frame; the same after a repeat.

        Raises:
            UAMPError: 4.09 if a frame is missing before it: ask again, from after `last_seq`. 4.00 if it is of another
                stream, or comes after the end.
        """
        if delta.stream_id != self.stream_id:
            raise malformed(f"a delta of stream {delta.stream_id[:40]!r} came on {self.stream_id[:40]!r}")
        if self.is_repeat(delta):
            return self
        if self.has_ended:
            raise malformed(f"delta {delta.seq} came after the end of its stream")
        if delta.seq > self.next_seq:
            raise UAMPError(Code.SEQUENCE_GAP, f"delta {self.next_seq} is missing: {delta.seq} came in its place")
        return replace(self, next_seq=delta.seq + 1, has_ended=delta.type.is_terminal)

    def acknowledged(self) -> ReceiveSequence:
        """The sequence after an ACK of `last_seq` has gone out."""
        return replace(self, acked=self.next_seq - 1)
