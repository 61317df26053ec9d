"""A connection of a UAMP client: whatever comes on it is checked as it comes, and waited for by whoever needs it."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from tests.conformance.uamp_talk import Talk
from tests.conformance.uamp_wire import Event, Refusal, check_event, is_refusal, new_id, refusal_by

T = TypeVar("T")
_WAIT_S = 90.0


class Line(ABC):
    """A connection.

    Attributes:
        kind: of the transport.
        heard: every event of the server, in order.
        token: what sessions are opened with, unless they bring their own.
    """

    kind: str

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self.token = token
        self.heard: list[Event] = []
        self.refused: dict[str, Refusal] = {}
        self._news = asyncio.Condition()
        self._ids: set[str] = set()
        self._left: str | None = None

    @abstractmethod
    async def connect(self) -> None:
        """Be there for events."""

    @abstractmethod
    async def close(self) -> None:
        """Leave."""

    @abstractmethod
    async def abort(self) -> None:
        """Be cut off, without a word."""

    @abstractmethod
    async def send(self, event: Event, *, session: str | None = None) -> None:
        """Send an event as it is, for a session, or for none."""

    @abstractmethod
    async def refusal_of_raw(self, text: str | bytes, *, session: str | None = None) -> Refusal:
        """Send what may be no event; what the server says of it."""

    async def create(self, event: Event) -> None:
        """Send a session.create; where it is taken, the session's events come."""
        await self.send(event)

    async def open(
        self,
        *,
        modalities: list[str] | None = None,
        agent: str | None = None,
        chat: str | None = None,
        token: str | None = None,
        event_id: str | None = None,
        uamp_version: str | None = "1.0",
        config: Event | None = None,
        **fields: Any,
    ) -> Talk:
        """A new session, once it is open. `config` is more of `session`, `fields` more of the event."""
        event = self.create_event(
            modalities=modalities, agent=agent, chat=chat, token=token, event_id=event_id, uamp_version=uamp_version,
            config=config, **fields,
        )  # fmt: skip
        before = len(self.heard)
        await self.create(event)
        created = await self.wait(
            lambda heard: heard["type"] == "session.created" and heard.get("in_reply_to") == event["event_id"],
            after=before,
        )
        session = str(created["session_id"])
        place = self.of(session).index(created)
        talk = Talk(self, session, created, place)
        talk.capabilities = await talk.hear("capabilities")
        return talk

    def create_event(
        self,
        *,
        modalities: list[str] | None = None,
        agent: str | None = None,
        chat: str | None = None,
        token: str | None = None,
        event_id: str | None = None,
        uamp_version: str | None = "1.0",
        config: Event | None = None,
        **fields: Any,
    ) -> Event:
        """A session.create."""
        named = {"agent": agent, "chat": chat, "token": token or self.token, "uamp_version": uamp_version, **fields}
        return {
            "type": "session.create",
            "event_id": event_id or new_id(),
            "session": {"modalities": modalities or ["text"], **(config or {})},
            **{name: value for name, value in named.items() if value is not None},
        }

    async def refusal(self, event_id: str) -> Refusal:
        """What the server says of an event that it does not take."""

        def told() -> Refusal | None:
            if event_id in self.refused:
                return self.refused[event_id]
            return next((refusal_by(event) for event in self.heard if is_refusal(event, event_id)), None)

        return await self.until(told, f"a refusal of {event_id}")

    async def wait(self, matches: Callable[[Event], bool], *, after: int = 0) -> Event:
        """The first event at or behind a place of `heard` that matches."""
        return await self.until(
            lambda: next((event for event in self.heard[after:] if matches(event)), None), "an event"
        )

    def of(self, session: str) -> list[Event]:
        """The events of a session, in order."""
        return [event for event in self.heard if event.get("session_id") == session]

    async def until(self, look: Callable[[], T | None], what: str) -> T:
        """What is found in what was heard, as soon as it is there."""
        try:
            async with asyncio.timeout(_WAIT_S), self._news:
                while (found := look()) is None:
                    if self._left is not None:
                        raise ConnectionError(f"{what} did not come: {self._left}; heard {self._last()}")
                    await self._news.wait()
                return found
        except TimeoutError:
            raise AssertionError(f"{what} did not come; heard {self._last()}") from None

    def _last(self) -> str:
        return json.dumps(self.heard[-12:])[-3000:]

    async def _hear(self, text: str) -> None:
        event = json.loads(text)
        check_event(event)
        assert event["event_id"] not in self._ids, f"told twice: {text}"
        self._ids.add(event["event_id"])
        async with self._news:
            self.heard.append(event)
            self._news.notify_all()

    async def _leave(self, why: str) -> None:
        async with self._news:
            self._left = why
            self._news.notify_all()
