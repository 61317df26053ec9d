"""What is wrong with an event that a client sent, and which event says so. Source: UAMP 1.0, sections 6.3, 6.8, 14.2."""

from __future__ import annotations

from enum import StrEnum

from perdure.errors import ProtocolError
from perdure.upp.json_value import JSONObject


class Code(StrEnum):
    """The `error.code` of a response.error or session.error. What the specification does not name is an addition."""

    AGENT_OFFLINE = "agent_offline"
    RATE_LIMITED = "rate_limited"
    UNAUTHORIZED = "unauthorized"
    TIMEOUT = "timeout"
    SESSION_NOT_FOUND = "session_not_found"
    RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
    VERSION_MISMATCH = "version_mismatch"
    PAYMENT_TIMEOUT = "payment_timeout"
    SESSION_REQUIRED = "session_required"
    SESSION_ID_REQUIRED = "session_id_required"
    INVALID_JSON = "invalid_json"
    INVALID_EVENT = "invalid_event"
    INPUT_TOO_LARGE = "input_too_large"
    UNSUPPORTED_MODALITY = "unsupported_modality"
    RESPONSE_IN_PROGRESS = "response_in_progress"
    UNKNOWN_CALL_ID = "unknown_call_id"
    GENERATION_ERROR = "generation_error"
    INTERNAL_ERROR = "internal_error"


_OF_SESSION = frozenset(
    (Code.AGENT_OFFLINE, Code.RATE_LIMITED, Code.UNAUTHORIZED, Code.TIMEOUT, Code.SESSION_NOT_FOUND)
)


class EventRefused(ProtocolError):
    """An event that is refused; the connection lives on.

    Attributes:
        details: for programs.
        event_id: of the refused event, where it has one.
        session_id: the session that it named.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: JSONObject | None = None,
        event_id: str | None = None,
        session_id: str | None = None,
    ) -> None:
        super().__init__(message, code=str(code))
        self.details = details
        self.event_id = event_id
        self.session_id = session_id

    @property
    def is_of_session(self) -> bool:
        """Whether a session.error tells it; else a response.error does."""
        return self.code in _OF_SESSION
