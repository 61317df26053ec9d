"""Which events of responses may still be sent: one beginning, one end, nothing after it. Source: UAMP 1.0, section 3."""

from __future__ import annotations

from perdure.protocols.uamp_events.server_events import (
    TERMINAL,
    ResponseCreated,
    ToolCallEvent,
)
from perdure.protocols.uamp_events.surrounding_events import (
    PaymentAccepted,
    PaymentError,
    PaymentRequired,
    ServerEvent,
)

_REMEMBERED = 1000
_OF_PAYMENT = (PaymentRequired, PaymentAccepted, PaymentError)


class ResponseGate:
    """The responses of one session, and the tools that its client is running."""

    def __init__(self) -> None:
        """Begin with none."""
        self._open: dict[str, bool] = {}
        self._ended: dict[str, None] = {}
        self._calls: dict[str, str] = {}
        self._answered: dict[str, None] = {}

    @property
    def current(self) -> str | None:
        """The response that is being made; the latest, where others of the chat have one too."""
        return next(reversed(self._open), None)

    @property
    def open_responses(self) -> list[str]:
        """All that have not ended, oldest first."""
        return list(self._open)

    def reserve(self, response_id: str) -> None:
        """A response was asked for; it has not begun."""
        self._open.setdefault(response_id, False)

    def resume(self, response_id: str) -> None:
        """A response that began in another connection goes on in this one."""
        self._open[response_id] = True

    def is_open(self, response_id: str) -> bool:
        """Whether it was asked for and has not ended."""
        return response_id in self._open

    def admit(self, event: ServerEvent) -> bool:
        """Whether the event may be sent; if so, it is taken as sent."""
        if isinstance(event, ToolCallEvent):
            self._asked_for(event.call_id, event.response_id or "")
        response: str | None = getattr(event, "response_id", None)
        if response is None:
            return True
        if response in self._ended:
            return False
        if isinstance(event, ResponseCreated):
            began = self._open.get(response, False)
            self._open[response] = True
            return not began
        if isinstance(event, _OF_PAYMENT):
            return True
        if isinstance(event, TERMINAL):
            return self._end(response)
        return self._open.get(response, False)

    def answer(self, call_id: str) -> str | None:
        """The response that a tool.result goes to.

        Returns:
            None if it was answered before, or its response has ended.

        Raises:
            KeyError: no such call was made.
        """
        response = self._calls[call_id]
        if call_id in self._answered or (response and response not in self._open):
            return None
        _remember(self._answered, call_id)
        return response

    def _asked_for(self, call_id: str, response: str) -> None:
        """A call is asked for. Some vendors use an id again in every response: then it is another call."""
        if self._calls.get(call_id) != response:
            self._answered.pop(call_id, None)
        self._calls[call_id] = response
        if len(self._calls) > _REMEMBERED:
            del self._calls[next(iter(self._calls))]

    def knows(self, call_id: str) -> bool:
        """Whether a call of this id was asked for."""
        return call_id in self._calls

    def recall(self, call_id: str, response: str, *, is_answered: bool) -> None:
        """A call was asked for through another connection."""
        self._calls[call_id] = response
        if is_answered:
            _remember(self._answered, call_id)

    def reopen(self, call_id: str) -> None:
        """The result could not be taken; the client may send it again."""
        self._answered.pop(call_id, None)

    def _end(self, response: str) -> bool:
        if response not in self._open:
            return False
        del self._open[response]
        _remember(self._ended, response)
        return True


def _remember(known: dict[str, None], ident: str) -> None:
    known[ident] = None
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]
