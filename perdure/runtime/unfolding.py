"""Folded events for readers who take a model's answer as it comes, and may have taken a part of it before it was folded."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from typing import Any, cast

from perdure.store.events import Event
from perdure.store.folding import TEXTS, length_of, pieces_of
from perdure.upp.json_value import JSONObject, encode_base64
from perdure.upp.stream import StreamEventType

_FOLDED = "folded"


class Unfolding:
    """What one reader of a run was given of each open content block. It must be shown every event that was read."""

    def __init__(self) -> None:
        self._given: dict[str, dict[tuple[int, str], list[tuple[int, int]]]] = {}

    def new_in(self, event: Event) -> Event:
        """The event, and of a folded one what the reader has not had, as a delta."""
        data = cast("dict[str, Any]", event.data)
        content = _content(event)
        if event.type == StreamEventType.MESSAGE_STOP:
            self._given.pop(data.get("message", ""), None)
        if content is None:
            return event
        places = self._given.setdefault(data["message"], {}).setdefault((data["index"], event.type), [])
        start = event.folded_from
        if start is None:
            places.append((event.seq, length_of(event.type, content)))
            return event
        had = sum(length for seq, length in places if seq >= start)
        return _with(event, _cut(event, content, had, None), None)


def split_at(event: Event, seq: int) -> list[Event]:
    """A folded event that reaches over a number, as two: what came up to that and the rest. Any other event as it is.

    What was folded before the lengths of its deltas were kept cannot be split.
    """
    start = event.folded_from
    if start is None or not start <= seq < event.seq:
        return [event]
    content, pieces = _content(event), pieces_of(event)
    if content is None or not pieces:
        return [event]
    had = sum(piece.length for piece in pieces if piece.seq <= seq)
    told = _with(event, _cut(event, content, 0, had), {"from": start, "to": seq})
    rest = _with(event, _cut(event, content, had, None), {"from": seq + 1, "to": event.seq})
    return [replace(told, seq=seq), rest]


def _content(event: Event) -> str | None:
    """What a delta of a content block adds, media as base64; None of any other event."""
    delta = event.data.get("delta")
    if event.source != "upp" or not isinstance(delta, dict) or "message" not in event.data:
        return None
    content = delta.get(_name(event))
    return content if isinstance(content, str) else None


def _name(event: Event) -> str:
    return TEXTS.get(event.type, "data")


def _cut(event: Event, content: str, first: int, end: int | None) -> str:
    """A part of a content: of text by characters, of media by bytes."""
    return content[first:end] if event.type in TEXTS else encode_base64(b64decode(content)[first:end])


def _with(event: Event, content: str, folded: JSONObject | None) -> Event:
    """The event with another content, and another range, or none."""
    kept = {key: value for key, value in event.data.items() if key != _FOLDED}
    delta: JSONObject = {**cast(JSONObject, event.data["delta"]), _name(event): content}
    span: JSONObject = {} if folded is None else {_FOLDED: folded}
    return replace(event, data={**kept, "delta": delta, **span})
