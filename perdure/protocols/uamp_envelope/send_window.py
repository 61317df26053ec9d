"""The producer's side of a stream: which sequence number is next, and whether the window lets it out.

Source: UAMP envelope 1.0, section 5: no more than `delta_window` frames without an ACK. A terminal frame always goes
out: it ends the wait of a consumer that has stopped to ACK.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from perdure.protocols.uamp_envelope.delta import DeltaType
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed

STALL_TIMEOUT = timedelta(seconds=30)
"""How long a closed window is waited for."""

_RETRY_AFTER = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class SendWindow:
    """What a producer knows of one stream towards one consumer.

    Attributes:
        size: frames that may be out without an ACK, 1 or more.
        next_seq: of the next frame.
        acked: the greatest sequence number that is ACKed; -1 if none is.
        has_ended: whether the terminal frame is out.
    """

    size: int
    next_seq: int = 0
    acked: int = -1
    has_ended: bool = False

    def __post_init__(self) -> None:
        if self.size < 1 or not -1 <= self.acked <= self.next_seq - 1:
            raise ValueError(f"no window: size {self.size}, next_seq {self.next_seq}, acked {self.acked}")

    @property
    def in_flight(self) -> int:
        """Frames that are out and not ACKed."""
        return self.next_seq - 1 - self.acked

    @property
    def room(self) -> int:
        """Frames, other than a terminal one, that may go out now."""
        return 0 if self.has_ended else max(0, self.size - self.in_flight)

    def may_send(self, type: DeltaType) -> bool:
        """Whether a frame may go out now."""
        return not self.has_ended and (type.is_terminal or self.room > 0)

    def sent(self, type: DeltaType) -> SendWindow:
        """The window after the frame `next_seq` has gone out.

        Raises:
            ValueError: the frame may not go out.
        """
        if not self.may_send(type):
            raise ValueError("the stream has ended" if self.has_ended else f"{self.in_flight} frames are not ACKed")
        return replace(self, next_seq=self.next_seq + 1, has_ended=type.is_terminal)

    def acknowledged(self, seq: int) -> SendWindow:
        """The window after an ACK; an old or repeated one changes nothing.

        Raises:
            UAMPError: 4.00 if the frame has not been sent.
        """
        if seq >= self.next_seq:
            raise malformed(f"delta_seq {seq} has not been sent; the last one is {self.next_seq - 1}")
        return replace(self, acked=max(self.acked, seq))

    def resumed(self, last_seq: int | None) -> SendWindow:
        """The window of a consumer that connects again; frames go out again from `next_seq` of what is returned.

        Args:
            last_seq: its Last-Event-ID, which counts as an ACK; None if it has read nothing or does not say, which
                begins at frame 0.

        Raises:
            UAMPError: 4.00 if that frame has not been sent.
        """
        if last_seq is None:
            return replace(self, next_seq=0, acked=-1, has_ended=False)
        at_end = self.has_ended and last_seq == self.next_seq - 1
        return replace(self.acknowledged(last_seq), next_seq=last_seq + 1, acked=last_seq, has_ended=at_end)


def stall(blocked_since: datetime, now: datetime, timeout: timedelta = STALL_TIMEOUT) -> UAMPError | None:
    """The error that ends a stream whose window has been closed for too long; None while there is time.

    Args:
        blocked_since: when a frame first could not go out.
        now: the time.
        timeout: how long is waited.
    """
    if now - blocked_since < timeout:
        return None
    seconds = int(timeout.total_seconds())
    return UAMPError(Code.BUSY, f"no ACK came for {seconds} s while the window was full", retry_after=_RETRY_AFTER)
