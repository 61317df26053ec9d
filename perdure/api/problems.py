"""Errors as problem details, with one table of statuses and stable codes. Source: RFC 9457."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import cast

import asyncpg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from perdure import errors
from perdure.api.answers import Answer
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
    errors.WaitAnswered: (409, "wait_answered"),
    errors.WaitStale: (409, "wait_stale"),
    errors.KeyConflict: (409, "key_conflict"),
    errors.RunActive: (409, "run_active"),
    errors.QueueFull: (429, "queue_full"),
    errors.SessionLimitReached: (409, "session_limit_reached"),
    errors.SessionGone: (410, "session_gone"),
    errors.UserError: (400, "bad_request"),
    errors.LimitExceeded: (409, "limit_exceeded"),
    errors.DamagedSession: (500, "damaged_session"),
    errors.RunError: (409, "run_failed"),
    errors.SchemaOutdated: (503, "schema_outdated"),
    errors.KeyMissing: (503, "key_missing"),
    errors.ServerUnavailable: (503, "server_unavailable"),
    errors.ServerError: (503, "server_error"),
    UPPError: (422, "model_refused"),
}
"""Status and code of each error; of an error's classes the nearest counts."""

_CODES = {
    400: "bad_request",
    401: "unauthenticated",
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


def problem(
    status: int, code: str, detail: str, *, extra: JSONObject | None = None, headers: dict[str, str] | None = None
) -> JSONResponse:
    """A response of problem details, without secrets that this process knows.

    Args:
        status: HTTP's.
        code: stable, for programs; it is also the end of `type`.
        detail: for people.
        extra: members of this kind of problem.
        headers: of the response.
    """
    body: JSONObject = {
        "type": f"urn:perdure:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        **(extra or {}),
    }
    return Answer(known_secrets.json(body), status, headers, media_type=MEDIA_TYPE)


def of_error(error: Exception) -> JSONResponse:
    """The problem that an error of ours is."""
    status, code = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    extra: JSONObject = {}
    run = getattr(error, "run_id", None)
    if run is not None:
        extra["run"] = run
    if isinstance(error, errors.SessionLimitReached):
        extra["limit"] = error.code.removeprefix("session_")
    return problem(status, code, str(error), extra=extra, headers=RETRY_AFTER if status in (429, 503) else None)


def install(app: FastAPI) -> None:
    """Have an app answer every error with problem details."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        return of_error(error)

    async def refused(_: Request, error: Exception) -> JSONResponse:
        given = cast(Refused, error)
        return problem(given.status, given.code, given.detail, headers=given.headers)

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        found = [_invalid(item) for item in cast(RequestValidationError, error).errors()]
        detail = "; ".join(f"{item['pointer']}: {item['detail']}" for item in found)
        return problem(422, "invalid_input", detail, extra={"errors": cast("list[JSONValue]", found)})

    async def http(_: Request, error: Exception) -> JSONResponse:
        given = cast(HTTPException, error)
        code = _CODES.get(given.status_code, "http_error")
        return problem(given.status_code, code, str(given.detail), headers=dict(given.headers or {}))

    async def away(_: Request, error: Exception) -> JSONResponse:
        if not is_away(error):
            raise error
        return problem(503, "server_unavailable", "PostgreSQL does not answer; try again", headers=RETRY_AFTER)

    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        logger.error("request.failed", extra={"path": request.url.path}, exc_info=error)
        return problem(500, "internal_error", "the server failed; its log says how")

    app.add_exception_handler(errors.PerdureError, ours)
    app.add_exception_handler(Refused, refused)
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
