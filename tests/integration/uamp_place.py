"""Clients of UAMP's WebSocket that come back: for tests of sockets, and of what processes that die leave."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.uamp_client import TERMINAL, Event, Line, Talk, text_of
from tests.conformance.uamp_server import UampServer, uamp_server
from tests.integration.stack import Stack

PICK: Event = {
    "type": "function",
    "function": {
        "name": "pick",
        "description": "Have the user pick.",
        "parameters": {"type": "object", "properties": {"of": {"type": "string"}}},
    },
}


@contextmanager
def place(stack: Stack, **environment: str) -> Generator[UampServer]:
    """A server of one's own, with the agents of the checks."""
    with uamp_server(stack, **environment) as served:
        yield served


async def resumed(line: Line, session: str, last: str | None = None) -> Talk:
    """The session on another connection, behind the event that its client had last."""
    config = {"id": session} if last is None else {"id": session, "last_event_id": last}
    event = line.create_event(config=config)
    await line.create(event)
    created = await line.wait(lambda heard: heard.get("in_reply_to") == event["event_id"])
    assert created["type"] == "session.created", created
    talk = Talk(line, session, created, line.of(session).index(created))
    await talk.hear("capabilities")
    return talk


@dataclass
class Story:
    """What one client was told of one response, over all of its connections.

    Attributes:
        response: its id.
        events: in order; an event that asks for something comes again with its own id, and stands here once.
        again: those that came again.
    """

    response: str
    events: list[Event] = field(default_factory=list[Event])
    again: list[Event] = field(default_factory=list[Event])

    def take(self, heard: list[Event]) -> Story:
        """What was heard on one more connection."""
        known = {event["event_id"] for event in self.events}
        for event in heard:
            if event.get("response_id") != self.response:
                continue
            (self.again if event["event_id"] in known else self.events).append(event)
        return self

    @property
    def types(self) -> list[str]:
        """Their types."""
        return [event["type"] for event in self.events]

    @property
    def last(self) -> str:
        """The id of the last event."""
        return str(self.events[-1]["event_id"])

    @property
    def told(self) -> str:
        """The text of the deltas."""
        deltas = [event["delta"] for event in self.events if event["type"] == "response.delta"]
        return "".join(delta["text"] for delta in deltas if delta["type"] == "text")

    @property
    def done(self) -> Any:
        """The response as response.done has it; all of its story must be whole."""
        assert self.types[0] == "response.created", self.types
        assert self.types.count("response.created") == 1
        assert [kind for kind in self.types if kind in TERMINAL] == ["response.done"], self.events[-1]
        ended = self.types.index("response.done")
        assert set(self.types[ended + 1 :]) <= {"payment.balance"}
        return self.events[ended]["response"]

    @property
    def text(self) -> str:
        """The text of its output, which its deltas must have told."""
        said = text_of(self.done["output"])
        assert self.told == said
        return said
