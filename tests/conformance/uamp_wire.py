"""What every event of UAMP has on the wire, and how a server refuses one; nothing here is of ours."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]

PATIENCE: dict[str, Any] = {"open_timeout": 60, "ping_interval": None}
"""Of a WebSocket to a server on a busy machine: it is waited for, and no silence ends the connection."""

TERMINAL = frozenset({"response.done", "response.error", "response.cancelled"})
SERVER_EVENTS = frozenset(
    {
        "session.created",
        "session.updated",
        "session.error",
        "session.end",
        "capabilities",
        "response.created",
        "response.delta",
        "response.done",
        "response.error",
        "response.cancelled",
        "tool.call",
        "tool.call_done",
        "progress",
        "thinking",
        "audio.delta",
        "audio.done",
        "transcript.delta",
        "transcript.done",
        "usage.delta",
        "rate_limit",
        "payment.required",
        "payment.accepted",
        "payment.balance",
        "payment.error",
        "presence.typing",
        "presence.online",
        "presence.offline",
        "message.created",
        "message.read",
        "voice.accept",
        "voice.decline",
        "voice.end",
        "pong",
    }
)


@dataclass(frozen=True)
class Refusal:
    """What a server said of an event that it did not take.

    Attributes:
        code: of the error.
        message: for people.
        event: the error event; None if the answer to a POST said it.
        status: of that answer; None if an event said it.
    """

    code: str
    message: str
    event: Event | None = None
    status: int | None = None


def new_id() -> str:
    """An event's id."""
    return str(uuid.uuid4())


def text_of(items: list[Event]) -> str:
    """The text of content items."""
    return "".join(item["text"] for item in items if item["type"] == "text")


def check_event(event: Event) -> None:
    """What every server event has."""
    assert event["type"] in SERVER_EVENTS, f"no event of the specification: {event['type']}"
    assert str(uuid.UUID(event["event_id"])) == event["event_id"]
    assert type(event["timestamp"]) is int
    assert abs(event["timestamp"] / 1000 - time.time()) < 86_400, "milliseconds"
    assert None not in event.values(), f"members without a value are left out: {event}"


def is_refusal(event: Event, event_id: str) -> bool:
    """Whether an event says that the server did not take another."""
    return event["type"] in ("response.error", "session.error") and event.get("in_reply_to") == event_id


def refusal_by(event: Event) -> Refusal:
    """What such an event says."""
    return Refusal(event["error"]["code"], event["error"]["message"], event)
