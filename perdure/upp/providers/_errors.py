"""Which failure of a vendor becomes which UPPError: one table, for whole answers and for errors inside a stream.

Source: UPP-1.2, HTTP mapping; what a body says beyond its status is read from the vendors' documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue, loads, well_formed
from perdure.upp.providers._redaction import redact
from perdure.upp.retry_after import read_retry_after, read_seconds

Classify: TypeAlias = Callable[[int | None, JSONObject], ErrorCode | None]
"""Given the status (None inside a stream) and the error's JSON, the code that they mean; None leaves it to the table.

The error's JSON is the object under "error" if the body has one, else the body itself.
"""

_LONGEST_RAW = 200
_LONGEST_MESSAGE = 2000

_BY_STATUS = {
    400: ErrorCode.INVALID_REQUEST,
    401: ErrorCode.AUTHENTICATION_FAILED,
    402: ErrorCode.QUOTA_EXCEEDED,
    403: ErrorCode.AUTHENTICATION_FAILED,
    404: ErrorCode.MODEL_NOT_FOUND,
    408: ErrorCode.TIMEOUT,
    409: ErrorCode.INVALID_REQUEST,
    413: ErrorCode.CONTEXT_LENGTH_EXCEEDED,
    422: ErrorCode.INVALID_REQUEST,
    429: ErrorCode.RATE_LIMITED,
    451: ErrorCode.CONTENT_FILTERED,
}

# Words in `code`, `type` or `status` that say more than any status.
_BY_WORD = {
    "context_length_exceeded": ErrorCode.CONTEXT_LENGTH_EXCEEDED,
    "string_above_max_length": ErrorCode.CONTEXT_LENGTH_EXCEEDED,
    "exceed_context_size_error": ErrorCode.CONTEXT_LENGTH_EXCEEDED,
    "request_too_large": ErrorCode.CONTEXT_LENGTH_EXCEEDED,
    "insufficient_quota": ErrorCode.QUOTA_EXCEEDED,
    "billing_hard_limit_reached": ErrorCode.QUOTA_EXCEEDED,
    "billing_not_active": ErrorCode.QUOTA_EXCEEDED,
    "billing_error": ErrorCode.QUOTA_EXCEEDED,
    "content_filter": ErrorCode.CONTENT_FILTERED,
    "content_policy_violation": ErrorCode.CONTENT_FILTERED,
    "model_not_found": ErrorCode.MODEL_NOT_FOUND,
    "overloaded_error": ErrorCode.PROVIDER_ERROR,
    "rate_limit_error": ErrorCode.RATE_LIMITED,
}

# Words that say less than a status, and more than nothing: inside a stream there is no status.
_BY_WORD_IN_STREAM = {
    "authentication_error": ErrorCode.AUTHENTICATION_FAILED,
    "permission_error": ErrorCode.AUTHENTICATION_FAILED,
    "invalid_api_key": ErrorCode.AUTHENTICATION_FAILED,
    "not_found_error": ErrorCode.MODEL_NOT_FOUND,
    "rate_limit_exceeded": ErrorCode.RATE_LIMITED,
    "invalid_request_error": ErrorCode.INVALID_REQUEST,
    "invalid_prompt": ErrorCode.INVALID_REQUEST,
    "timeout_error": ErrorCode.TIMEOUT,
}

# By the statuses with which the text counts; None is a stream.
_BY_TEXT = (
    (
        re.compile(
            r"prompt is too long|input is too long|maximum context length|exceeds? (the )?(model'?s )?context"
            r"|exceed(s|ed)?\b[^.;]{0,40}\bcontext length|context length (was |is )?exceeded"
            r"|exceeds the maximum number of tokens|(available|model'?s) context size|context window"
        ),
        (400, 413, 422, 500, None),
        ErrorCode.CONTEXT_LENGTH_EXCEEDED,
    ),
    (
        re.compile(r"credit balance is too low|api usage limits|insufficient credits|key limit exceeded"),
        (400, 403, 429, None),
        ErrorCode.QUOTA_EXCEEDED,
    ),
    (re.compile(r"content filtering policy"), (400, None), ErrorCode.CONTENT_FILTERED),
    (re.compile(r"\b(dead)?lock"), (409,), ErrorCode.PROVIDER_ERROR),  # of another request: it passes
)


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """What the errors of one request need to know of it.

    Attributes:
        provider: named in the errors.
        secrets: what they must not show.
        classify: the adapter's own reading; it goes first.
        longest_wait: the longest wait that the vendor may ask for.
    """

    provider: str
    secrets: Sequence[str]
    classify: Classify | None
    longest_wait: timedelta


def error_of_answer(
    context: ErrorContext, status: int, reason: str, headers: Mapping[str, str], body: bytes
) -> UPPError:
    """Returns the error that an answer other than 2xx stands for.

    Args:
        context: the request's.
        status: the HTTP status.
        reason: its phrase.
        headers: by their names in lower case; they may say when to try again.
        body: of any kind, and perhaps not whole.
    """
    text = body.decode("utf-8", "replace")
    value = _json(body)
    raw = text.strip() if len(text.strip()) < _LONGEST_RAW else ""
    message = _message(value) or raw or f"HTTP {status}: {reason}"
    wait = read_retry_after(headers, context.longest_wait, datetime.now(UTC))
    return _error(context, status, value, message, text if value is None else message, wait)


def error_from_event(context: ErrorContext, error: JSONValue) -> UPPError:
    """Returns the error that a vendor sent inside a good answer: the event, or what stands under its "error"."""
    value: JSONValue = {"message": error} if isinstance(error, str) else error
    message = _message(value) or "the vendor sent an error without a text"
    return _error(context, None, value, message, message, None)


def _error(
    context: ErrorContext, status: int | None, value: JSONValue, message: str, text: str, wait: timedelta | None
) -> UPPError:
    error = _error_object(value)
    return UPPError(
        _cut(redact(message, context.secrets)),
        _code(context.classify, status, error, text.lower()),
        context.provider,
        status_code=status if status is not None else _known_status(error),
        retry_after=_retry_delay(error, context.longest_wait) if wait is None else wait,
    )


def _code(classify: Classify | None, status: int | None, error: JSONObject, text: str) -> ErrorCode:
    own = classify(status, error) if classify else None
    if own is not None:
        return own
    words = list(_words(error))
    known = next((_BY_WORD[word] for word in words if word in _BY_WORD), None)
    if known is not None:
        return known
    for pattern, statuses, code in _BY_TEXT:
        if status in statuses and pattern.search(text):
            return code
    if status is None:
        in_stream = next((_BY_WORD_IN_STREAM[word] for word in words if word in _BY_WORD_IN_STREAM), None)
        return in_stream or _BY_STATUS.get(_status_inside(error), ErrorCode.PROVIDER_ERROR)
    return _BY_STATUS.get(status, ErrorCode.PROVIDER_ERROR)


def _words(error: JSONObject) -> Iterator[str]:
    for name in ("code", "type", "status"):
        word = error.get(name)
        if isinstance(word, str):
            yield word.lower()


def _status_inside(error: JSONObject) -> int:
    """Returns the HTTP status that some vendors write into the error itself; 0 if there is none."""
    code = error.get("code")
    return code if isinstance(code, int) else int(code) if isinstance(code, str) and code.isdecimal() else 0


def _known_status(error: JSONObject) -> int | None:
    status = _status_inside(error)
    return status if 400 <= status < 600 else None


def _error_object(value: JSONValue) -> JSONObject:
    match value:
        case {"error": dict(inner)} | [{"error": dict(inner)}, *_]:
            return inner
        case dict():
            return value
        case _:
            return {}


def _message(value: JSONValue) -> str | None:
    match value:
        case [dict(first), *_]:
            return _message(first)
        case {"error": {"message": str(text)}} if text:
            return text
        case {"message": str(text)} if text:
            return text
        case {"error": {"error": {"message": str(text)}}} if text:
            return text
        case {"detail": str(text)} if text:
            return text
        case {"error": str(text)} if text:
            return text
        case _:
            return None


def _retry_delay(error: JSONObject, longest: timedelta) -> timedelta | None:
    """Returns the wait in google.rpc.RetryInfo, as "34.5s", which other vendors pass on too."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else []:
        match detail:
            case {"retryDelay": str(text)} if text.endswith("s"):
                return read_seconds(text[:-1], longest)
            case _:
                continue
    return None


def _json(body: bytes) -> JSONValue:
    try:
        return well_formed(loads(body))
    except ValueError:
        return None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"
