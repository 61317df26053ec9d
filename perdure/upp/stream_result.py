"""`StreamResult`: the events of an inference as they come, and the turn at its end.

Source: UPP-1.2, StreamResult; awaiting it without iterating is UPP-1.3's.
"""

from __future__ import annotations

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.stream import StreamEvent
from perdure.upp.turn import Turn
from perdure.upp.turn_stream import TurnStream, Work


class StreamResult(TurnStream[StreamEvent]):
    """An inference that starts when it is first read: iterated, awaited, or both at once; see `TurnStream`.

    `abort` cancels the model call and running tools and skips tools not yet started. Once all has stopped, reading on
    raises UPPError CANCELLED, as does the turn.
    """

    def __init__(self, work: Work[StreamEvent], provider: str) -> None:
        """Takes what sends the events and returns the turn; it is called once, and cancelled to end it early."""

        def cancelled(made: Turn | BaseException | None) -> UPPError:
            cause = made if isinstance(made, BaseException) else None
            return UPPError("the stream was aborted", ErrorCode.CANCELLED, provider, cause=cause)

        super().__init__(work, cancelled)
