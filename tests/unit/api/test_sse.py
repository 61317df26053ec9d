"""An event on the wire: made once for all who follow it, and anew where something else stands in it."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime

from perdure.api.sse import frame
from perdure.store.events import Event

EVENT = Event(
    "s", 7, "r", 1, 1, "upp", "text_delta", {"delta": {"text": "zwölf \ud800"}}, datetime(2026, 1, 1, tzinfo=UTC)
)


def test_an_event_is_made_once() -> None:
    """A thousand viewers get the same bytes."""
    assert frame(EVENT) is frame(EVENT)
    lines = dict(line.split(": ", 1) for line in frame(EVENT).decode().strip().splitlines())
    assert (lines["id"], lines["event"]) == ("7", "text_delta")
    assert json.loads(lines["data"])["data"] == EVENT.data


def test_another_event_is_made_anew() -> None:
    """What a viewer is told in an event's place has a frame of its own."""
    frame(EVENT)
    other = dataclasses.replace(EVENT, data={"delta": {"text": "rest"}})
    assert b"rest" in frame(other)
    assert b"rest" not in frame(EVENT)
