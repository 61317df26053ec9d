"""A session as a client of UAMP has it, and a response in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.conformance.uamp_wire import TERMINAL, Event, Refusal, new_id, text_of

if TYPE_CHECKING:
    from tests.conformance.uamp_line import Line


@dataclass
class Talk:
    """A session.

    Attributes:
        created: its session.created.
        place: how many of its events were read; `hear` reads on from there.
        capabilities: the first that it was told.
    """

    line: Line
    id: str
    created: Event
    place: int = 0
    capabilities: Event = field(default_factory=dict[str, Any])

    @property
    def heard(self) -> list[Event]:
        """All of its events."""
        return self.line.of(self.id)

    @property
    def types(self) -> list[str]:
        """Their types."""
        return [event["type"] for event in self.heard]

    async def send(self, kind: str, *, event_id: str | None = None, **fields: Any) -> str:
        """Send an event of this type; its id."""
        ident = event_id or new_id()
        await self.line.send({"type": kind, "event_id": ident, **fields}, session=self.id)
        return ident

    async def hear(self, *kinds: str, where: Callable[[Event], bool] = lambda _: True) -> Event:
        """The next event of one of these types that matches; those before it count as read."""

        def look() -> tuple[int, Event] | None:
            events = enumerate(self.heard)
            return next(
                (
                    (place, event)
                    for place, event in events
                    if place >= self.place and (not kinds or event["type"] in kinds) and where(event)
                ),
                None,
            )

        place, event = await self.line.until(look, f"{' or '.join(kinds)} in session {self.id}")
        self.place = place + 1
        return event

    async def refusal(self, event_id: str) -> Refusal:
        """What the server says of an event that it does not take."""
        return await self.line.refusal(event_id)

    async def pause(self) -> None:
        """Return once all that was sent before has been applied, and what follows from it at once was told."""
        await self.send("capabilities.query")
        await self.hear("capabilities")

    async def text(self, text: str, **fields: Any) -> str:
        """Send text."""
        return await self.send("input.text", text=text, **fields)

    async def begin(self, text: str | None = None, **fields: Any) -> str:
        """Send text, if any, and ask for a response; its id, once it is there."""
        if text is not None:
            await self.text(text)
        await self.send("response.create", **fields)
        return str((await self.hear("response.created"))["response_id"])

    async def end_of(self, response: str) -> Answer:
        """A response with all of its events, once it has ended."""
        await self.line.wait(
            lambda event: (
                event.get("response_id") == response and event["type"] in TERMINAL and event["session_id"] == self.id
            )
        )
        return Answer([event for event in self.heard if event.get("response_id") == response])

    async def ask(self, text: str | None = None, **fields: Any) -> Answer:
        """Send text and have it answered."""
        return await self.end_of(await self.begin(text, **fields))


@dataclass
class Answer:
    """The events of a response, in order."""

    events: list[Event]

    @property
    def types(self) -> list[str]:
        """Their types."""
        return [event["type"] for event in self.events]

    @property
    def id(self) -> str:
        """The response's."""
        return str(self.events[0]["response_id"])

    @property
    def end(self) -> Event:
        """The terminal event."""
        (end,) = [event for event in self.events if event["type"] in TERMINAL]
        return end

    @property
    def done(self) -> Event:
        """The response as response.done has it; it must have ended so."""
        assert self.end["type"] == "response.done", self.end
        return self.end["response"]

    @property
    def deltas(self) -> list[Event]:
        """Of all kinds."""
        return [event["delta"] for event in self.events if event["type"] == "response.delta"]

    @property
    def told(self) -> str:
        """The text of its deltas."""
        return "".join(delta["text"] for delta in self.deltas if delta["type"] == "text")

    @property
    def text(self) -> str:
        """The text of its output."""
        return text_of(self.done["output"])

    @property
    def json(self) -> Any:
        """The value of that as JSON."""
        return json.loads(self.text)
