"""A client on a connection, in memory: it sends events, and the test plays the server that carries out commands."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

from perdure.protocols.uamp_events.capabilities import Capabilities
from perdure.protocols.uamp_events.commands import ApplyEvent, Command, OpenSession, Reaction, StartResponse
from perdure.protocols.uamp_events.connection import Connection
from perdure.protocols.uamp_events.surrounding_events import ServerEvent
from perdure.uap.ids import derive_id

NOW_MS = 1_704_067_200_000
SERVER = Capabilities(id="scripted", provider="openai", modalities=["text", "image"], supports_streaming=True)

C = TypeVar("C", bound="Command")


def uuids() -> Callable[[], str]:
    """A function that gives UUIDs, the same ones in every test."""
    numbers = itertools.count()
    return lambda: derive_id("test", next(numbers))


class ClientLine:
    """One client and its connection; every event that the server sends is kept, as JSON."""

    def __init__(self, **options: Any) -> None:
        self.connection = Connection(draw_id=uuids(), now_ms=lambda: NOW_MS, **options)
        self.told: list[dict[str, Any]] = []
        self.commands: list[Command] = []
        self._numbers = itertools.count(1)

    def send(self, kind: str, **members: Any) -> Reaction:
        """Send an event of the client's; what follows is kept and returned."""
        return self.frame(json.dumps({"type": kind, "event_id": f"evt_{next(self._numbers)}", **members}))

    def frame(self, frame: str | bytes) -> Reaction:
        """Send a frame as it is."""
        return self.keep(self.connection.receive(frame))

    def keep(self, reaction: Reaction) -> Reaction:
        """Keep what follows from something; events of open sessions are applied at once."""
        reaction = self._applied(reaction)
        self.told.extend(shown(event) for event in reaction.events)
        self.commands.extend(reaction.commands)
        return reaction

    def _applied(self, reaction: Reaction) -> Reaction:
        done = Reaction(list(reaction.events))
        for command in reaction.commands:
            if isinstance(command, ApplyEvent):
                done = done.and_then(self._applied(self.connection.apply(command.session_id, command.event)))
            else:
                done.commands.append(command)
        return done

    def open(self, **members: Any) -> str:
        """Open a session; returns its id."""
        members = {"uamp_version": "1.0", "session": {"modalities": ["text"]}, **members}
        opening = only(self.send("session.create", **members), OpenSession)
        self.agree(opening.session_id)
        return opening.session_id

    def agree(self, session_id: str) -> Reaction:
        """The server opens a session that was asked for."""
        return self.keep(self.connection.opened(session_id, SERVER, created_at=NOW_MS // 1000))

    def respond(self, **members: Any) -> StartResponse:
        """Ask for a response; returns the command that starts it."""
        return only(self.send("response.create", **members), StartResponse)

    def respond_code(self, **members: Any) -> str:
        """Ask for a response that is refused; returns the error's code."""
        assert self.send("response.create", **members).commands == []
        assert self.last["type"] == "response.error"
        return str(self.last["error"]["code"])

    def admit(self, session_id: str, *events: ServerEvent) -> list[str]:
        """The server tells events; returns the types of those that went out."""
        told = [shown(event) for event in self.connection.admit(session_id, events)]
        self.told.extend(told)
        return [str(event["type"]) for event in told]

    @property
    def last(self) -> dict[str, Any]:
        """The last event that was sent to the client."""
        return self.told[-1]

    def types(self) -> list[str]:
        """The types of all events that were sent to the client."""
        return [event["type"] for event in self.told]


def shown(event: ServerEvent) -> dict[str, Any]:
    """The event as the client reads it."""
    return cast("dict[str, Any]", event.to_json())


def only(reaction: Reaction, kind: type[C]) -> C:
    """The one command that follows, of this kind."""
    (command,) = reaction.commands
    assert isinstance(command, kind)
    return command
