"""Errors over the activity border: one function out, one back. No I/O is imported here; workflow code uses it too."""

from __future__ import annotations

from typing import cast

from temporalio.exceptions import ActivityError, ApplicationError, ApplicationErrorCategory, FailureError

from perdure import errors
from perdure.errors import PerdureError, ProtocolError, RunActive, RunError, SessionLimitReached, StrategyError
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue, well_formed

# Errors of ours are answers, not faults of the worker: its log need not warn of them.
_CATEGORY = {True: ApplicationErrorCategory.BENIGN, False: ApplicationErrorCategory.UNSPECIFIED}


def to_application_error(error: Exception, *, retryable: bool = False) -> ApplicationError:
    """The failure that stands for `error` in Temporal; its type and one JSON detail say all that `from_failure` needs.

    Args:
        error: what the activity raised.
        retryable: the same call may succeed later, with nothing changed. Everything else ends the call at once.
    """
    return ApplicationError(
        cast(str, well_formed(str(error))) or type(error).__name__,  # Temporal's own field takes no lone surrogate
        describe(error),
        type=type(error).__name__,
        non_retryable=not retryable,
        category=_CATEGORY[isinstance(error, PerdureError)],
    )


def describe(error: BaseException) -> JSONObject:
    """An error as a run's row, its terminal event and Temporal's history show it."""
    if isinstance(error, UPPError):
        return {"type": "UPPError", **error.to_json()}
    detail: JSONObject = {"type": type(error).__name__, "message": str(error) or type(error).__name__}
    for name in ("code", "run_id"):
        value = getattr(error, name, None)
        if isinstance(value, str):
            detail[name] = value
    return detail


def from_description(detail: JSONObject) -> PerdureError:
    """The error that `describe` wrote; a type that is not ours comes back as `RunError` with that code."""
    name, message = str(detail.get("type")), str(detail.get("message"))
    code, run = (value if isinstance(value, str) else None for value in (detail.get("code"), detail.get("run_id")))
    kind: object = getattr(errors, name, None)
    if name == "UPPError" and code in tuple(ErrorCode):
        return UPPError.from_json(cast(JSONValue, {**detail}))
    if not isinstance(kind, type) or not issubclass(kind, PerdureError):
        return RunError(f"{name}: {message}", run_id=run, code=name)
    if issubclass(kind, RunError):
        return kind(message, run_id=run, code=code)
    if issubclass(kind, ProtocolError):
        return kind(message, code=code or "")
    if issubclass(kind, RunActive):
        return kind(message, run_id=run or "")
    if issubclass(kind, SessionLimitReached):
        return kind(message, code=code or "")
    return kind(message)


def from_failure(failure: FailureError) -> PerdureError:
    """The error of ours behind a failed activity."""
    cause: BaseException | None = failure.cause if isinstance(failure, ActivityError) else failure
    if isinstance(cause, ApplicationError) and cause.details and isinstance(cause.details[0], dict):
        return from_description(cast(JSONObject, cause.details[0]))
    return StrategyError(str(cause or failure), code=type(cause or failure).__name__)
