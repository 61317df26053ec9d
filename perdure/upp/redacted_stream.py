"""A model's stream without secrets, also where one is split over deltas."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.upp.redaction import Redaction
from perdure.upp.stream import StreamEvent, StreamEventType

_FIELDS = {
    StreamEventType.TEXT_DELTA: "text",
    StreamEventType.REASONING_DELTA: "text",
    StreamEventType.OBJECT_DELTA: "text",
    StreamEventType.TOOL_CALL_DELTA: "arguments_json",
}


@dataclass(slots=True)
class _Held:
    """The end of a block's text so far, in which a secret may have begun, and the event that brought it."""

    event: StreamEvent
    text: str


class RedactedStream:
    """The events of one answer. A delta's end is held back as long as a secret may have begun in it, and no longer."""

    def __init__(self, secrets: Redaction) -> None:
        """Take `secrets` out; what becomes known on the way counts from then on."""
        self._secrets = secrets
        self._held: dict[tuple[StreamEventType, int], _Held] = {}

    def take(self, event: StreamEvent) -> list[StreamEvent]:
        """What may be told now that this event has come."""
        if self._secrets.is_empty:
            return [event]
        if event.type is StreamEventType.MESSAGE_STOP:
            return [*self.rest(), event]
        if event.type is StreamEventType.CONTENT_BLOCK_STOP:
            return [*self._rest_of(event.index), event]
        name = _FIELDS.get(event.type)
        text = None if name is None else getattr(event.delta, name)
        if not text:
            return [event]
        held = self._held.pop((event.type, event.index), None)
        told, kept = self._secrets.told(text if held is None else held.text + text)
        if kept:
            self._held[event.type, event.index] = _Held(event, kept)
        return [_with_text(event, told)] if told else []

    def rest(self) -> list[StreamEvent]:
        """What is still held back: the answer is whole, and it was no secret's beginning."""
        held = [self._held.pop(key) for key in [*self._held]]
        return [_with_text(item.event, self._secrets.text(item.text)) for item in held]

    def _rest_of(self, index: int) -> list[StreamEvent]:
        held = [self._held.pop(key) for key in [*self._held] if key[1] == index]
        return [_with_text(item.event, self._secrets.text(item.text)) for item in held]


def _with_text(event: StreamEvent, text: str) -> StreamEvent:
    name = _FIELDS[event.type]
    if text == getattr(event.delta, name):
        return event
    return replace(event, delta=replace(event.delta, **{name: text}))
