"""Errors over the activity border: one function out, one back. No I/O is imported here; workflow code uses it too."""

from __future__ import annotations

from typing import cast

from temporalio.exceptions import ActivityError, ApplicationError, ApplicationErrorCategory, FailureError

from perdure import errors
from perdure.errors import PerdureError, RunError, StrategyError
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject, JSONValue

# Errors of ours are answers, not faults of the worker: its log need not warn of them.
_CATEGORY = {True: ApplicationErrorCategory.BENIGN, False: ApplicationErrorCategory.UNSPECIFIED}


def to_application_error(error: Exception, *, retryable: bool = False) -> ApplicationError:
    """The failure that stands for `error` in Temporal; its type and one JSON detail say all that `from_failure` needs.

    Args:
        error: what the activity raised.
        retryable: the same call may succeed later, with nothing changed. Everything else ends the call at once.
    """
    return ApplicationError(
        str(error) or type(error).__name__,
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
    code = getattr(error, "code", None)
    return {**detail, "code": code} if isinstance(code, str) else detail


def from_description(detail: JSONObject) -> PerdureError:
    """The error that `describe` wrote; a type that is not ours comes back as `RunError` with that code."""
    name = str(detail.get("type"))
    message = str(detail.get("message"))
    code = detail.get("code")
    if name == "UPPError":
        return UPPError.from_json(cast(JSONValue, {**detail}))
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, RunError):
        return kind(message, code=code if isinstance(code, str) else None)
    if (
        isinstance(kind, type)
        and issubclass(kind, PerdureError)
        and kind not in (errors.RunActive, errors.ProtocolError)
    ):
        return kind(message)
    return RunError(f"{name}: {message}", code=name)


def from_failure(failure: FailureError) -> PerdureError:
    """The error of ours behind a failed activity."""
    cause: BaseException | None = failure.cause if isinstance(failure, ActivityError) else failure
    if isinstance(cause, ApplicationError) and cause.details and isinstance(cause.details[0], dict):
        return from_description(cast(JSONObject, cause.details[0]))
    return StrategyError(str(cause or failure), code=type(cause or failure).__name__)
