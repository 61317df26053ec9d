"""The end of a producer's patience with a consumer that has left its window full.

Source: UAMP envelope 1.0, section 5: no more than `delta_window` frames without an ACK, and no word of how long.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from perdure.protocols.uamp_envelope.error import Code, UAMPError

STALL_TIMEOUT = timedelta(seconds=30)
"""How long a closed window is waited for."""

_RETRY_AFTER = timedelta(seconds=5)


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
