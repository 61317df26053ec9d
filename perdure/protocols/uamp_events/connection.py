"""One connection with its sessions: which event is allowed when, and what follows from it. No I/O, no clock of its own.

The server that holds a connection hands in each frame (`receive`), carries out the commands that come back, and says
what came of them (`opened`, `refused`, `updated`, `capabilities`, `admit`). Events of open sessions come back as a command
too, for a session may be another connection's and another process's as well: who alone has it applies them (`apply`).
Source: UAMP 1.0, sections 5, 10 and 14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perdure.protocols.uamp_events.answer_order import AnswerOrder
from perdure.protocols.uamp_events.capabilities import Capabilities, shows_thinking
from perdure.protocols.uamp_events.client_events import ClientEvent, Ping, SessionCreate, SessionEnd, SessionUpdate
from perdure.protocols.uamp_events.commands import ApplyEvent, Ignored, OpenSession, Reaction, RefreshTokens
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.live_session import LiveSession, new_session
from perdure.protocols.uamp_events.log_row import Head
from perdure.protocols.uamp_events.parsing import Parsed, UnknownEvent, parse_client_event
from perdure.protocols.uamp_events.server_events import (
    CapabilitiesEvent,
    ResponseError,
    SessionCreated,
    SessionError,
    SessionUpdated,
    Thinking,
    WireError,
)
from perdure.protocols.uamp_events.session_config import Session
from perdure.protocols.uamp_events.session_events import SessionEvents
from perdure.protocols.uamp_events.session_table import SessionTable
from perdure.protocols.uamp_events.surrounding_events import Pong, ServerEvent, VoiceAccept
from perdure.protocols.uamp_events.wire import VERSION, speaks
from perdure.upp.json_value import JSONObject

MAX_SESSIONS = 1000
"""How many sessions one connection may hold."""

_MOST_HELD = 1000


class Connection:
    """A client's connection."""

    def __init__(
        self,
        *,
        draw_id: Callable[[], str],
        now_ms: Callable[[], int],
        voice: bool = False,
        max_sessions: int = MAX_SESSIONS,
    ) -> None:
        """Begin without sessions.

        Args:
            draw_id: gives a new UUID.
            now_ms: the time, milliseconds since the epoch.
            voice: whether there is a voice backend; without one, invitations are declined.
            max_sessions: how many sessions it may hold at once.
        """
        self._draw_id = draw_id
        self._now_ms = now_ms
        self._table = SessionTable(max_sessions)
        self._order = AnswerOrder()
        self._session_events = SessionEvents(self.head, draw_id, now_ms, voice=voice)

    @property
    def sessions(self) -> list[str]:
        """Ids of the sessions that it holds, oldest first."""
        return list(self._table.by_id)

    def session(self, session_id: str) -> LiveSession:
        """A session that it holds.

        Raises:
            KeyError: it holds no such session.
        """
        return self._table.by_id[session_id]

    def head(self, session_id: str | None = None) -> Head:
        """What a new event of the server begins with."""
        return Head(event_id=self._draw_id(), timestamp=self._now_ms(), session_id=session_id)

    def receive(self, frame: str | bytes) -> Reaction:
        """What follows from a client's frame. A frame that cannot be used is answered with an error event."""
        try:
            return self.take(parse_client_event(frame, draw_id=self._draw_id))
        except EventRefused as fault:
            return Reaction([self.fault(fault)])

    def take(self, event: Parsed) -> Reaction:
        """What follows from an event that was read."""
        try:
            return self._take(event)
        except EventRefused as fault:
            if fault.event_id is None:
                fault.event_id = event.event_id
            return Reaction([self.fault(fault)])

    def fault(self, fault: EventRefused) -> ServerEvent:
        """The event that tells a client what it did wrong."""
        error = WireError(code=fault.code, message=str(fault), details=fault.details)
        kind = SessionError if fault.is_of_session else ResponseError
        return kind(**self.head(fault.session_id), error=error, in_reply_to=fault.event_id)

    def _take(self, event: Parsed) -> Reaction:
        match event:
            case UnknownEvent():
                return Reaction(commands=[Ignored(event.type, "no event of this type is known")])
            case Ping():
                return Reaction([Pong(**self.head(event.session_id))])
            case SessionCreate():
                return self._create(event)
            case SessionEnd() if self._table.is_over(event):
                return Reaction(commands=[Ignored(event.type, "the session has ended")])
            case SessionUpdate() if event.session_id is None and len(self._table) != 1:
                return self._update_all(event)
            case _:
                session = self._table.route(event.session_id)
                assert not isinstance(event, UnknownEvent), "they are of no session"
                if self._order.is_waiting(session.id):
                    return _held(session, event)
                return Reaction(commands=[ApplyEvent(session.id, event)])

    def apply(self, session_id: str, event: Parsed) -> Reaction:
        """What follows from an event of an open session; the same event a second time is passed over."""
        session = self._table.by_id.get(session_id)
        if session is None or session.is_ending:
            if isinstance(event, SessionEnd):
                return Reaction(commands=[Ignored(event.type, "the session has ended")])
            return Reaction([self.fault(_gone(session_id, event.event_id))])
        if session.saw(event.event_id):
            return Reaction(commands=[Ignored(event.type, "an event of this id was applied before")])
        try:
            reaction = self._session_events.take(session, event)
        except EventRefused as fault:
            fault.session_id, fault.event_id = session.id, event.event_id
            return Reaction([self.fault(fault)])
        session.note(event.event_id)
        return reaction

    def forget(self, session_id: str, event_id: str) -> None:
        """What an event asked for could not be done; it is applied if it comes again."""
        session = self._table.by_id.get(session_id)
        if session is not None:
            session.forget(event_id)

    def adopt(self, session: LiveSession) -> None:
        """Hold a session as it is stored: one that was opened before, or that has changed elsewhere."""
        known = self._table.by_id.get(session.id)
        if known is not None:
            session.gate, session.held = known.gate, known.held
        self._table.by_id[session.id] = session

    def _create(self, event: SessionCreate) -> Reaction:
        if not speaks(event.uamp_version):
            details: JSONObject = {"supported": [VERSION], "received": event.uamp_version}
            raise EventRefused(
                Code.VERSION_MISMATCH, f"this server speaks UAMP {VERSION}, not {event.uamp_version}", details=details
            )
        if any(session.created.event_id == event.event_id for session in self._table.by_id.values()):
            return Reaction(commands=[Ignored(event.type, "an event of this id was applied before")])
        session = new_session(event.session.id or self._draw_id(), event, self._draw_id)
        self._table.add(session)
        self._order.asked(session.id)
        return Reaction(commands=[OpenSession(session.id, event)])

    def _update_all(self, event: SessionUpdate) -> Reaction:
        """A token of the connection is that of all sessions that brought none of their own."""
        if not self._table.by_id:
            raise EventRefused(Code.SESSION_REQUIRED, "send session.create first")
        plain = [session.id for session in self._table.by_id.values() if not session.has_own_token]
        return Reaction(
            commands=[RefreshTokens(plain, event.event_id, event.token, event.payment_token, is_of_connection=True)]
        )

    def opened(
        self, session_id: str, capabilities: Capabilities, *, created_at: int, agent: str | None = None
    ) -> Reaction:
        """A session is open. Answers go out in the order in which sessions were asked for, so it may wait for others'.

        Args:
            session_id: of the command.
            capabilities: the server's, for this session.
            created_at: seconds since the epoch.
            agent: its name, where the client named none or another.
        """
        session = self._table.by_id.get(session_id)
        if session is None:
            return Reaction()  # it was ended meanwhile
        session.server = capabilities
        config = session.config.model_copy(update={"id": None, "last_event_id": None})
        created = SessionCreated(
            **self.head(session_id),
            session=Session(id=session_id, created_at=created_at, config=config),
            chat=session.chat,
            agent=agent or session.created.agent,
            in_reply_to=session.created.event_id,
        )
        told = CapabilitiesEvent(**self.head(session_id), capabilities=capabilities)
        return self._in_order(session_id, Reaction([created, told]))

    def refused(self, session_id: str, code: str, message: str, details: JSONObject | None = None) -> Reaction:
        """A session cannot be opened, for example because its token is not valid (`unauthorized`)."""
        session = self._table.by_id.pop(session_id, None)
        if session is None:
            return Reaction()  # it was ended meanwhile
        error = WireError(code=code, message=message, details=details)
        told = SessionError(**self.head(session_id), error=error, in_reply_to=session.created.event_id)
        return self._in_order(session_id, Reaction([told]))

    def _in_order(self, session_id: str, reaction: Reaction) -> Reaction:
        ready = Reaction()
        for released, answer in self._order.answer(session_id, reaction):
            ready = ready.and_then(answer).and_then(self._take_held(released))
        return ready

    def _take_held(self, session_id: str) -> Reaction:
        """What follows from the events that came before the session was open."""
        session, taken = self._table.by_id.get(session_id), Reaction()
        held = session.held if session is not None else []
        for event in held:
            taken = taken.and_then(self.take(event.model_copy(update={"session_id": session_id})))
        held.clear()
        return taken

    def updated(self, command: RefreshTokens) -> list[ServerEvent]:
        """The new tokens of a command are valid."""
        if command.is_of_connection:
            return [SessionUpdated(**self.head())]
        return [SessionUpdated(**self.head(session_id)) for session_id in command.session_ids]

    def capabilities(self, session_id: str, capabilities: Capabilities) -> list[ServerEvent]:
        """What the server can do, now and from now on: after a query, or because the model has changed."""
        self._table.by_id[session_id].server = capabilities
        return [CapabilitiesEvent(**self.head(session_id), capabilities=capabilities)]

    def admit(self, session_id: str, events: Sequence[ServerEvent]) -> list[ServerEvent]:
        """Those of the events that may be sent in a session now; the rest is dropped.

        A response begins once, ends once, and nothing of it comes after its end. A client that has no use for thinking
        gets none. A session that has gone gets nothing.
        """
        session = self._table.by_id.get(session_id)
        if session is None or self._order.is_waiting(session_id):
            return []
        told: list[ServerEvent] = []
        for event in events:
            if isinstance(event, Thinking) and not shows_thinking(session.client):
                continue
            if isinstance(event, VoiceAccept) and event.call_id is not None:
                session.voice[event.call_id] = self._now_ms()
            if session.gate.admit(event):
                told.append(event)
            if isinstance(event, SessionEnd):
                self._table.end(session_id)
                break
        return told


def _gone(session_id: str, event_id: str) -> EventRefused:
    return EventRefused(
        Code.SESSION_NOT_FOUND, f"session {session_id[:200]!r} has ended", session_id=session_id, event_id=event_id
    )


def _held(session: LiveSession, event: ClientEvent) -> Reaction:
    """The event waits until the server has agreed to open its session."""
    if len(session.held) >= _MOST_HELD:
        raise EventRefused(
            Code.RATE_LIMITED, f"{_MOST_HELD} events wait for session.created; wait for it", session_id=session.id
        )
    session.held.append(event)
    return Reaction()
