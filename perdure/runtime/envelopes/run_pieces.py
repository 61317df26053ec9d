"""The events of a run's response as pieces of its stream, and its end as the terminal one. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.protocols.uamp_envelope.delta import DeltaType
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_events.server_events import (
    Progress,
    ResponseDelta,
    ResponseDone,
    ResponseError,
    TextDelta,
    Thinking,
    ToolResultDelta,
)
from perdure.protocols.uamp_events.surrounding_events import PaymentRequired, ResponseEvent
from perdure.runtime.envelopes.media import media_facts
from perdure.runtime.envelopes.pieces import (
    Medium,
    Piece,
    media_pieces,
    plain_object,
    progress,
    text_pieces,
    thinking_pieces,
)
from perdure.upp.json_value import JSONObject

_MOST_CHARS = 256 * 1024
"""Of text that the end says once more."""

_BUSY = ("rate_limit_exceeded", "rate_limited", "provider_error", "timeout")


class RunPieces:
    """Maps the events of one response.

    Usage on the way and the arguments and results of tools are not told: the one who reads is another party.
    """

    def __init__(self, session: str, run: str) -> None:
        """Map for a run."""
        self._of: JSONObject = {"session": session, "run": run}
        self._tools: dict[str, str] = {}

    def of(self, event: ResponseEvent) -> list[Piece]:
        """What an event becomes, unless it is the end."""
        match event:
            case ResponseDelta(delta=TextDelta(text=text)):
                return text_pieces(text)
            case ResponseDelta(delta=ToolResultDelta(tool_result=result)):
                tool = self._tools.get(result.call_id)
                return [progress("tool", tool=tool, call=result.call_id, status=result.status)]
            case Thinking():
                return thinking_pieces(event.content)
            case Progress():
                return [self._progress(event)]
            case PaymentRequired():
                return [progress("waiting", reason="payment")]
            case _:
                return []

    def done(self, event: ResponseDone, text: str, media: Sequence[Medium]) -> list[Piece]:
        """The end of a run that is complete: its media, and what it has said.

        Args:
            event: the end.
            text: all of it.
            media: of its output.
        """
        said: JSONObject = {"text": text} if len(text) <= _MOST_CHARS else {}
        usage: JSONObject = {} if event.response.usage is None else {"usage": event.response.usage.to_json()}
        payload = plain_object({**said, **self._of, **usage, **media_facts(media)})
        chunks = [piece for medium in media for piece in media_pieces(medium)]
        return [*chunks, Piece(DeltaType.DONE, payload)]

    def failed(self, event: ResponseError) -> list[Piece]:
        """The end of one that failed."""
        code = Code.BUSY if event.error.code in _BUSY else Code.INTERNAL
        error = UAMPError(code, event.error.message)
        return [Piece(DeltaType.ERROR, plain_object({**error.to_json(), **self._of}))]

    def cancelled(self) -> list[Piece]:
        """The end of one that was cancelled."""
        return [Piece(DeltaType.CANCEL, dict(self._of))]

    def _progress(self, event: Progress) -> Piece:
        if event.target == "tool":
            call, tool = str(event.target_id), str(event.message)
            self._tools[call] = tool
            return progress("tool", tool=tool, call=call, status=event.stage)
        match event.stage:
            case "step":
                return progress("step", step=event.step)
            case "waiting":
                return progress("waiting", reason=event.message)
            case _:
                return progress(event.stage or event.target, message=event.message)
