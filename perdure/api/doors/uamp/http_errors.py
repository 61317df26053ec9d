"""What is wrong with a request of UAMP over HTTP, as its error events tell it. Source: UAMP 1.0, sections 6.3, 6.8, 13.2."""

from __future__ import annotations

from fastapi.responses import JSONResponse

from perdure.api.answers import Answer
from perdure.api.problems import Fault, Refused
from perdure.api.tokens import CHALLENGE
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets

EVENTS = "/events"
STREAM = "/events/stream"
CAPABILITIES = "/capabilities"
KEYS = "/.well-known/jwks.json"
SOCKET = "/ws"
GUARDED = (CAPABILITIES,)
"""Beginnings of the paths whose callers must be known."""
OPEN_TO_STRANGERS = frozenset({EVENTS, STREAM, SOCKET})
"""Paths that somebody may call who shows nothing: the token of session.create says who it is."""
PATHS = frozenset({EVENTS, STREAM, CAPABILITIES, KEYS})

_STATUSES: dict[str, int] = {
    Code.UNAUTHORIZED: 401,
    Code.AGENT_OFFLINE: 404,
    Code.SESSION_NOT_FOUND: 404,
    Code.INPUT_TOO_LARGE: 413,
    Code.RATE_LIMITED: 429,
    Code.RATE_LIMIT_EXCEEDED: 429,
}
"""Of refused events; the others are the client's mistakes: 400."""

_CODES: dict[str, str] = {
    "unauthenticated": Code.UNAUTHORIZED,
    "too_many_requests": Code.RATE_LIMITED,
    "queue_full": Code.RATE_LIMITED,
    "unknown_agent": Code.AGENT_OFFLINE,
    "unknown_session": Code.SESSION_NOT_FOUND,
    "session_gone": Code.SESSION_NOT_FOUND,
    "too_large": Code.INPUT_TOO_LARGE,
    "invalid_input": Code.INVALID_EVENT,
    "bad_request": Code.INVALID_EVENT,
}
"""UAMP's words for faults of the house; others keep their own."""

_UNREADABLE = 422
_TYPES = {401: "authentication_error", 403: "forbidden", 404: "not_found_error", 429: "rate_limit_error"}


def serves(path: str) -> bool:
    """Whether a path is one of UAMP's over HTTP."""
    return path in PATHS


def error(fault: Fault) -> JSONResponse:
    """A response that tells a fault, without secrets that this process knows."""
    code = str(_CODES.get(fault.code, fault.code))
    status = _STATUSES.get(code, 400 if fault.status == _UNREADABLE else fault.status)
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    told: JSONObject = {"type": kind, "code": code, "message": fault.detail}
    body: JSONObject = {"error": {**told, "details": fault.extra} if fault.extra else told}
    return Answer(known_secrets.json(body), status, fault.headers)


def refused(fault: EventRefused) -> Refused:
    """An event that is refused before anything of it is applied, as a refused request."""
    lacks_scope = fault.code == Code.UNAUTHORIZED and "scope" in (fault.details or {})
    status = 403 if lacks_scope else _STATUSES.get(fault.code, 400)
    return Refused(status, fault.code, str(fault), CHALLENGE if status == 401 else None)
