"""Events that nobody may see yet: held until the middleware has checked the answer that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure.uap.agent_stream import AgentStreamEvent
from perdure.upp.event_flow import Flow
from perdure.upp.messages import AssistantMessage
from perdure.upp.stream import StreamEvent, StreamEventType, text_delta
from perdure.upp.turn import Turn

_SAYS_IT = (StreamEventType.REASONING_DELTA, StreamEventType.OBJECT_DELTA)


class HeldFlow(Flow[AgentStreamEvent]):
    """A flow whose events go on to another one when they are released; until then nobody waits for a reader.

    They all wait, so that their order stays. What is never released, as of a run that failed, is never seen.
    """

    def __init__(self, flow: Flow[AgentStreamEvent]) -> None:
        """Takes the flow to which released events go."""
        super().__init__()
        self._flow = flow
        self._held: list[AgentStreamEvent] = []

    async def send(self, events: Iterable[AgentStreamEvent]) -> None:
        self.post(events)

    def post(self, events: Iterable[AgentStreamEvent]) -> None:
        self._held.extend(events)

    def release(self, made: Turn, checked: Turn) -> None:
        """Hands on what is held.

        Args:
            made: the turn of the run.
            checked: the turn that came of it. If its answer is another one, the events of the run's last model call
                tell that one's text, and no reasoning.
        """
        held, self._held = self._held, []
        same = made.response == checked.response
        self._flow.post(held if same else _told_anew(held, checked.response))


def _told_anew(events: Sequence[AgentStreamEvent], answer: AssistantMessage) -> list[AgentStreamEvent]:
    starts = [place for place, event in enumerate(events) if _type(event) is StreamEventType.MESSAGE_START]
    if not starts:
        return list(events)
    told, text = list(events[: starts[-1]]), answer.text
    for event in events[starts[-1] :]:
        kind = _type(event)
        if event.upp is not None and kind is StreamEventType.TEXT_DELTA:
            told.extend(_texts(event.upp, text))
            text = ""
        elif kind not in _SAYS_IT:
            told.append(event)
    return told


def _texts(event: StreamEvent, text: str) -> list[AgentStreamEvent]:
    return [AgentStreamEvent(upp=text_delta(text, event.index))] if text else []


def _type(event: AgentStreamEvent) -> StreamEventType | None:
    return None if event.upp is None or event.path else event.upp.type
