"""Whatever a client sends in whatever order, the rules of sessions and responses hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.protocols.uamp_events.commands import (
    AnswerCall,
    CancelResponse,
    OpenSession,
    Reaction,
    StartResponse,
)
from perdure.protocols.uamp_events.server_events import (
    Response,
    ResponseCancelled,
    ResponseCreated,
    ResponseDelta,
    ResponseDone,
    TextDelta,
    ToolCallEvent,
)
from tests.unit.protocols.uamp_events.client_line import ClientLine

TERMINAL = ("response.done", "response.cancelled", "response.error")

MEMBERS: dict[str, dict[str, Any]] = {
    "session.create": {"session": {"modalities": ["text"]}},
    "session.end": {},
    "input.text": {"text": "hi"},
    "response.create": {},
    "response.cancel": {},
    "tool.result": {"call_id": "c1", "result": "1"},
    "ping": {},
    "unheard.of": {},
}
steps = st.tuples(st.sampled_from(sorted(MEMBERS)), st.one_of(st.none(), st.integers(0, 3)))


class Server:
    """Carries out commands at once, but ends a response only at the next event of the client's."""

    def __init__(self) -> None:
        self.line = ClientLine()
        self.known: list[str] = []
        self.running: list[tuple[str, str]] = []
        self.answered: Counter[str] = Counter()

    def take(self, kind: str, place: int | None) -> None:
        """The client sends an event, to a session that it knows."""
        named = {"session_id": self.known[place]} if place is not None and place < len(self.known) else {}
        self.carry_out(self.line.send(kind, **MEMBERS[kind], **({} if kind == "session.create" else named)))

    def carry_out(self, reaction: Reaction) -> None:
        """What the server does about it."""
        for command in reaction.commands:
            match command:
                case OpenSession():
                    self.known.append(command.session_id)
                    self.carry_out(self.line.agree(command.session_id))
                case StartResponse():
                    self.begin(command.session_id, command.response_id)
                case CancelResponse():
                    head = self.line.connection.head(command.session_id)
                    self.line.admit(command.session_id, ResponseCancelled(**head, response_id=command.response_id))
                case AnswerCall():
                    self.answered[command.response_id] += 1
                    self.finish(command.session_id, command.response_id)
                case _:
                    pass

    def begin(self, session: str, response: str) -> None:
        """A response says something, and asks for a tool."""
        head, connection = self.line.connection.head, self.line.connection
        assert session in connection.sessions
        call = ToolCallEvent(**head(session), call_id="c1", name="n", arguments="{}", response_id=response)
        text = ResponseDelta(**head(session), response_id=response, delta=TextDelta(text="x"))
        self.line.admit(session, ResponseCreated(**head(session), response_id=response), text, call)

    def finish(self, session: str, response: str) -> None:
        """A response ends, and what comes too late is told all the same."""
        head = self.line.connection.head
        ended = Response(id=response, status="completed", output=[])
        done = ResponseDone(**head(session), response_id=response, response=ended)
        late = ResponseDelta(**head(session), response_id=response, delta=TextDelta(text="late"))
        self.line.admit(session, done, late, done)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=25))
def test_the_rules_hold_whatever_a_client_sends(sent: list[tuple[str, int | None]]) -> None:
    server = Server()
    for kind, place in sent:
        server.take(kind, place)
    told = server.line.told
    assert len({event["event_id"] for event in told}) == len(told)
    for response in {event["response_id"] for event in told if "response_id" in event}:
        story = [event["type"] for event in told if event.get("response_id") == response]
        assert story[0] == "response.created"
        assert story.count("response.created") == 1
        assert sum(kind in TERMINAL for kind in story) <= 1
        assert not any(kind in TERMINAL for kind in story[:-1])
        assert len({event["session_id"] for event in told if event.get("response_id") == response}) == 1
    assert all(count == 1 for count in server.answered.values())
    assert [kind for kind in server.line.types() if kind == "pong"] == ["pong"] * sum(k == "ping" for k, _ in sent)
