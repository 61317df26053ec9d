"""What is wrong with a request at the door of envelopes, as problem details with UAMP's codes.

Every error has `code`, `message` and `retryable`. Sources: UAMP envelope 1.0, section 9; RFC 9457.
"""

from __future__ import annotations

from datetime import timedelta

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from perdure.api.answers import Answer
from perdure.api.problems import Fault
from perdure.protocols.uamp_envelope.error import PROBLEM_MEDIA_TYPE, Code, UAMPError
from perdure.protocols.uamp_envelope.identifier import MESSAGES_PATH, STREAM_PATH_PREFIX
from perdure.protocols.uamp_envelope.length_prefix import WEBSOCKET_PATH
from perdure.upp.redaction import known_secrets

CHALLENGE = 'Bearer realm="perdure"'

_CODES: dict[int, Code] = {
    401: Code.UNAUTHENTICATED,
    403: Code.UNAUTHORIZED,
    404: Code.UNKNOWN_STREAM,
    409: Code.CONFLICT,
    410: Code.EXPIRED,
    413: Code.TOO_LARGE,
    415: Code.UNSUPPORTED,
    421: Code.UNAUTHORIZED,
    429: Code.RATE_LIMITED,
    503: Code.BUSY,
}
"""Of statuses that the house answers with; of others below 500 it is 4.00, of the rest 5.00."""

_KEPT = frozenset({405, 421, 426})
"""Statuses that say more than the code's own."""


def serves(path: str) -> bool:
    """Whether a path is one of this door's."""
    return path in (MESSAGES_PATH, WEBSOCKET_PATH) or path.startswith(STREAM_PATH_PREFIX)


def error(fault: Fault) -> JSONResponse:
    """A response that tells a fault of the house."""
    code = _CODES.get(fault.status, Code.MALFORMED if fault.status < 500 else Code.INTERNAL)
    if fault.code == "tls_needed":
        code = Code.UNAUTHENTICATED
    after = fault.headers.get("Retry-After", "")
    told = UAMPError(code, fault.detail, retry_after=timedelta(seconds=int(after)) if after.isdecimal() else None)
    return _response(told, fault.status if fault.status in _KEPT else told.carriage.http_status, fault.headers)


def refusal(told: UAMPError) -> JSONResponse:
    """A response that tells an error of the protocol."""
    return _response(told, told.carriage.http_status, {})


def install(app: FastAPI) -> None:
    """Have an app answer the protocol's errors."""

    async def refused(_: Request, raised: Exception) -> JSONResponse:
        assert isinstance(raised, UAMPError)
        return refusal(raised)

    app.add_exception_handler(UAMPError, refused)


def _response(told: UAMPError, status: int, headers: dict[str, str]) -> JSONResponse:
    sent = dict(headers)
    if status == 401:
        sent.setdefault("WWW-Authenticate", CHALLENGE)
    body = told.to_problem() | {"status": status}
    if "retry_after" in body:
        sent.setdefault("Retry-After", str(body["retry_after"]))
    return Answer(known_secrets.json(body), status, sent, media_type=PROBLEM_MEDIA_TYPE)
