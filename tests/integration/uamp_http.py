"""A client of UAMP over HTTP for tests: it posts events, and reads the stream as a browser does."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from httpx_sse import aconnect_sse

SESSION = "X-Session-ID"
PATIENCE = httpx.Timeout(30.0, read=60.0)
TERMINAL = frozenset({"response.done", "response.error", "response.cancelled"})

Event = dict[str, Any]


def event(kind: str, **members: Any) -> Event:
    """An event of a client's, with an id of its own."""
    return {"type": kind, "event_id": str(uuid.uuid4()), **members}


def create(**members: Any) -> Event:
    """A session.create."""
    return event("session.create", **{"uamp_version": "1.0", "session": {"modalities": ["text"]}, **members})


def is_a(*kinds: str) -> Callable[[Event], bool]:
    """Whether an event is one of these."""
    return lambda told: told["type"] in kinds


@dataclass
class HttpSession:
    """One session.

    Attributes:
        http: reaches a process, with what shows who calls.
        id: the session's.
        events: what its stream told, in order; and
        ids: the `id` of each.
    """

    http: httpx.AsyncClient
    id: str = ""
    events: list[Event] = field(default_factory=list[Event])
    ids: list[str] = field(default_factory=list[str])

    async def open(self, **members: Any) -> httpx.Response:
        """Open it."""
        response = await self.http.post("/events", json=create(**members))
        assert response.status_code == 202, response.text
        self.id = response.headers[SESSION]
        return response

    async def post(self, given: Event) -> httpx.Response:
        """Send an event."""
        return await self.http.post("/events", json=given, headers={SESSION: self.id})

    async def send(self, kind: str, **members: Any) -> Event:
        """Send an event that must be taken."""
        given = event(kind, **members)
        response = await self.post(given)
        assert response.status_code == 202, response.text
        assert response.json() == {"event_id": given["event_id"], "session_id": self.id}
        return given

    async def say(self, text: str) -> Event:
        """Ask for a response to a text; the event that asks."""
        await self.send("input.text", text=text)
        return await self.send("response.create")

    async def read(
        self,
        until: Callable[[Event], bool],
        *,
        from_start: bool = False,
        headers: dict[str, str] | None = None,
    ) -> list[Event]:
        """Read the stream up to an event, behind what was read before; what was read now.

        Args:
            until: says of an event that it is the last.
            from_start: begin anew.
            headers: instead of those that a reader sends.
        """
        if from_start:
            self.events, self.ids = [], []
        begun = len(self.events)
        sent = {SESSION: self.id} if headers is None else headers
        if self.ids:
            sent = {**sent, "Last-Event-ID": self.ids[-1]}
        async with aconnect_sse(self.http, "GET", "/events/stream", headers=sent, timeout=PATIENCE) as source:
            assert source.response.status_code == 200, await source.response.aread()
            async for message in source.aiter_sse():
                if not message.data:
                    continue  # of `retry:`
                assert message.event == "message"
                assert message.id
                self.events.append(json.loads(message.data))
                self.ids.append(message.id)
                if until(self.events[-1]):
                    break
        return self.events[begun:]

    async def answered(self, text: str) -> list[Event]:
        """Ask, and read up to the response's end."""
        await self.say(text)
        return await self.read(is_a(*TERMINAL))


def text_of(events: list[Event]) -> str:
    """The text of the deltas among events."""
    deltas = [told["delta"] for told in events if told["type"] == "response.delta"]
    return "".join(delta["text"] for delta in deltas if delta["type"] == "text")
