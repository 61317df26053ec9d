"""The sessions of one connection, and which of them an event is for. Source: UAMP 1.0, section 10."""

from __future__ import annotations

from perdure.protocols.uamp_events.client_events import SessionEnd
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.live_session import LiveSession

_REMEMBERED = 1000


class SessionTable:
    """Sessions by id, oldest first."""

    def __init__(self, max_sessions: int) -> None:
        """Begin with none; hold at most so many."""
        self._max_sessions = max_sessions
        self._ended: dict[str, None] = {}
        self.by_id: dict[str, LiveSession] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self.by_id)

    def add(self, session: LiveSession) -> None:
        """One more session.

        Raises:
            EventRefused: there are too many, or one of this id.
        """
        if len(self.by_id) >= self._max_sessions:
            raise EventRefused(Code.RATE_LIMITED, f"a connection may hold {self._max_sessions} sessions; end one first")
        if session.id in self.by_id:
            raise EventRefused(Code.INVALID_EVENT, f"this connection already holds session {session.id[:200]!r}")
        self.by_id[session.id] = session

    def route(self, session_id: str | None) -> LiveSession:
        """The session that an event is for: the one it names, else the only one.

        Raises:
            EventRefused: there is no such session, or several and none is named.
        """
        if session_id is not None:
            if session_id not in self.by_id:
                raise EventRefused(
                    Code.SESSION_NOT_FOUND,
                    f"this connection has no session {session_id[:200]!r}",
                    session_id=session_id,
                )
            return self.by_id[session_id]
        if not self.by_id:
            raise EventRefused(Code.SESSION_REQUIRED, "send session.create first")
        if len(self.by_id) > 1:
            raise EventRefused(
                Code.SESSION_ID_REQUIRED, f"this connection has {len(self.by_id)} sessions; name one in 'session_id'"
            )
        return next(iter(self.by_id.values()))

    def end(self, session_id: str) -> None:
        """The session is over; it is remembered that there was one."""
        del self.by_id[session_id]
        self._ended[session_id] = None
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def is_over(self, event: SessionEnd) -> bool:
        """Whether a session.end comes a second time."""
        if event.session_id is None:
            return bool(self._ended) and not self.by_id
        return event.session_id in self._ended and event.session_id not in self.by_id
