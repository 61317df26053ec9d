"""Folded events for readers who take a model's answer as it comes, and may have taken a part of it before it was folded."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from typing import Any, cast

from perdure.store.events import Event
from perdure.store.folding import TEXTS
from perdure.upp.json_value import encode_base64
from perdure.upp.stream import StreamEventType


class Unfolding:
    """What one reader of a run was given of each open content block. It must be shown every event that was read."""

    def __init__(self) -> None:
        self._given: dict[str, dict[tuple[int, str], list[tuple[int, int]]]] = {}

    def new_in(self, event: Event) -> Event:
        """The event, and of a folded one what the reader has not had, as a delta."""
        data = cast("dict[str, Any]", event.data)
        if event.source != "upp" or "delta" not in data or "message" not in data:
            return event
        if event.type == StreamEventType.MESSAGE_STOP:
            self._given.pop(data["message"], None)
        name = TEXTS.get(event.type, "data")
        content = data["delta"].get(name)
        if not isinstance(content, str):
            return event
        places = self._given.setdefault(data["message"], {}).setdefault((data["index"], event.type), [])
        start = event.folded_from
        if start is None:
            places.append((event.seq, _length(name, content)))
            return event
        had = sum(length for seq, length in places if seq >= start)
        rest = content[had:] if name != "data" else encode_base64(b64decode(content)[had:])
        kept = {key: value for key, value in data.items() if key != "folded"}
        return replace(event, data={**kept, "delta": {**data["delta"], name: rest}})


def _length(name: str, content: str) -> int:
    return len(b64decode(content)) if name == "data" else len(content)
