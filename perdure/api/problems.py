"""Errors as problem details, with one table of statuses and stable codes. Source: RFC 9457.

What is wrong is a `Fault` first: a door puts it into its own protocol's words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias, cast

import asyncpg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from perdure import errors
from perdure.api.answers import Answer
from perdure.protocols.threadprotocol.problem import InvalidThread
from perdure.protocols.uaip.request import RequestRefused
from perdure.store.database import is_away
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.redaction import known_secrets

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

STATUSES: dict[type[Exception], tuple[int, str]] = {
    errors.InvalidInput: (422, "invalid_input"),
    errors.UnknownAgent: (404, "unknown_agent"),
    errors.UnknownSession: (404, "unknown_session"),
    errors.WrongAgent: (409, "wrong_agent"),
    errors.UnknownRun: (404, "unknown_run"),
    errors.UnknownWait: (404, "unknown_wait"),
    errors.UnknownAction: (404, "unknown_action"),
    errors.UnknownContent: (404, "unknown_content"),
    errors.WaitAnswered: (409, "wait_answered"),
    errors.WaitStale: (409, "wait_stale"),
    errors.KeyConflict: (409, "key_conflict"),
    errors.ActionOpen: (409, "action_open"),
    errors.RunActive: (409, "run_active"),
    errors.QueueFull: (429, "queue_full"),
    errors.SessionLimitReached: (409, "session_limit_reached"),
    errors.PaymentNeeded: (402, "payment_required"),
    errors.SessionGone: (410, "session_gone"),
    errors.UserError: (400, "bad_request"),
    InvalidThread: (422, "invalid_thread"),
    errors.LimitExceeded: (409, "limit_exceeded"),
    errors.DamagedSession: (500, "damaged_session"),
    errors.RunError: (409, "run_failed"),
    errors.SchemaOutdated: (503, "schema_outdated"),
    errors.FilterIncomplete: (503, "filter_incomplete"),
    errors.KeyMissing: (503, "key_missing"),
    errors.ServerUnavailable: (503, "server_unavailable"),
    errors.ServerError: (503, "server_error"),
    UPPError: (422, "model_refused"),
}
"""Status and code of each error; of an error's classes the nearest counts."""

_CODES = {
    400: "bad_request",
    401: "unauthenticated",
    402: "payment_required",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "too_large",
    415: "unsupported_media_type",
    421: "misdirected",
    422: "invalid_input",
    429: "too_many_requests",
}
RETRY_AFTER = {"Retry-After": "2"}


class Refused(Exception):
    """A request that is refused before it reaches the runtime.

    Attributes:
        status: HTTP's.
        code: stable.
        detail: for people.
        headers: of the response.
    """

    def __init__(self, status: int, code: str, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a request, or with the server, in no protocol's words yet.

    Attributes:
        status: HTTP's.
        code: stable, for programs.
        detail: for people.
        extra: members of this kind of fault.
        headers: of the response.
    """

    status: int
    code: str
    detail: str
    extra: JSONObject = field(default_factory=dict[str, JSONValue])
    headers: dict[str, str] = field(default_factory=dict[str, str])


Shape: TypeAlias = Callable[[Fault], JSONResponse]
"""How a protocol tells a fault."""

ShapeOf: TypeAlias = Callable[[str], Shape]
"""Which shape the faults of a path have."""


def problem(fault: Fault) -> JSONResponse:
    """A response of problem details, without secrets that this process knows."""
    body: JSONObject = {
        "type": f"urn:perdure:problem:{fault.code}",
        "title": HTTPStatus(fault.status).phrase,
        "status": fault.status,
        "code": fault.code,
        "detail": fault.detail,
        **fault.extra,
    }
    return Answer(known_secrets.json(body), fault.status, fault.headers, media_type=MEDIA_TYPE)


def everywhere_a_problem(_: str) -> Shape:
    """The shape of an app without doors."""
    return problem


def fault_of(error: Exception) -> Fault:
    """What an error of ours, or a refusal, says is wrong."""
    if isinstance(error, Refused):
        return Fault(error.status, error.code, error.detail, headers=error.headers)
    if isinstance(error, RequestRefused):
        refusal = error.refusal
        return Fault(refusal.status, refusal.reason.value, refusal.detail, refusal.more)
    status, code = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    extra: JSONObject = {}
    run = getattr(error, "run_id", None)
    if run is not None:
        extra["run"] = run
    if isinstance(error, InvalidThread):
        extra["problems"] = [found.to_json() for found in error.problems]
    if isinstance(error, errors.SessionLimitReached):
        extra["limit"] = error.code.removeprefix("session_")
    if isinstance(error, errors.PaymentNeeded):
        accepts = cast("list[JSONValue]", error.accepts)
        extra |= {"reason": error.code, "accepts": accepts, "can_retry": error.can_retry}
    return Fault(status, code, str(error), extra, RETRY_AFTER if status in (429, 503) else {})


def install(app: FastAPI, shape_of: ShapeOf = everywhere_a_problem) -> None:
    """Have an app answer every error, each path in its shape."""

    def tell(request: Request, fault: Fault) -> JSONResponse:
        return shape_of(request.scope["path"])(fault)

    async def ours(request: Request, error: Exception) -> JSONResponse:
        return tell(request, fault_of(error))

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        found = [_invalid(item) for item in cast(RequestValidationError, error).errors()]
        detail = "; ".join(f"{item['pointer']}: {item['detail']}" for item in found)
        return tell(request, Fault(422, "invalid_input", detail, {"errors": cast("list[JSONValue]", found)}))

    async def http(request: Request, error: Exception) -> JSONResponse:
        given = cast(HTTPException, error)
        code = _CODES.get(given.status_code, "http_error")
        headers = dict(given.headers or {})
        return tell(request, Fault(given.status_code, code, str(given.detail), headers=headers))

    async def away(request: Request, error: Exception) -> JSONResponse:
        if not is_away(error):
            raise error
        detail = "PostgreSQL does not answer; try again"
        return tell(request, Fault(503, "server_unavailable", detail, headers=RETRY_AFTER))

    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        logger.error("request.failed", extra={"path": request.url.path}, exc_info=error)
        return tell(request, Fault(500, "internal_error", "the server failed; its log says how"))

    app.add_exception_handler(errors.PerdureError, ours)
    app.add_exception_handler(Refused, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    for kind in (SQLAlchemyError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, EOFError):
        app.add_exception_handler(kind, away)
    app.add_exception_handler(Exception, unforeseen)


def _invalid(item: dict[str, object]) -> JSONObject:
    """Where a request is wrong, by JSON Pointer, and how. What stood there is never told: it may be a secret."""
    where, *path = cast("tuple[str | int, ...]", item["loc"])
    detail = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "json_invalid":
        return {"pointer": "#", "detail": f"{detail} at character {path[0]}"}
    names = [known_secrets.text(str(part)) for part in path]  # before a pointer's escapes, in which none would be found
    pointer = "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
    return {"pointer": f"{'#' if where == 'body' else where}{pointer}", "detail": detail}
