"""What Gemini's errors mean beyond what any vendor's do. Source: google.rpc's ErrorInfo, QuotaFailure, RetryInfo."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.upp.errors import ErrorCode
from perdure.upp.json_value import JSONObject, JSONValue

_BAD_KEY = ("api key not valid", "api key expired")
_USED_UP = ("exceeded your current quota", "credits are depleted", "billing")


def classify(status: int | None, error: JSONObject) -> ErrorCode | None:
    """Returns the code of one of Gemini's errors, or None if they are read like any vendor's.

    Too many requests or tokens in a minute are RATE_LIMITED, which is retryable; a day's quota or the account's is
    QUOTA_EXCEEDED. The quota's id says which; a day's comes with a `RetryInfo` too, so that only counts without an id.

    Args:
        status: the HTTP status; None inside a stream.
        error: the error, without what is around it.
    """
    message = str(error.get("message", "")).lower()
    if "API_KEY_INVALID" in _details(error, "reason") or any(text in message for text in _BAD_KEY):
        return ErrorCode.AUTHENTICATION_FAILED
    if status == 429 or error.get("status") == "RESOURCE_EXHAUSTED":
        return _limit(error, message)
    return None


def _limit(error: JSONObject, message: str) -> ErrorCode:
    quotas = [str(violation.get("quotaId", "")) for violation in _violations(error)]
    if any("PerDay" in quota for quota in quotas):
        return ErrorCode.QUOTA_EXCEEDED
    if any("PerMinute" in quota for quota in quotas) or _details(error, "retryDelay"):
        return ErrorCode.RATE_LIMITED
    return ErrorCode.QUOTA_EXCEEDED if any(text in message for text in _USED_UP) else ErrorCode.RATE_LIMITED


def _violations(error: JSONObject) -> Iterator[JSONObject]:
    for violations in _details(error, "violations"):
        yield from (each for each in (violations if isinstance(violations, list) else ()) if isinstance(each, dict))


def _details(error: JSONObject, field: str) -> list[JSONValue]:
    details = error.get("details")
    found = [detail.get(field) for detail in (details if isinstance(details, list) else ()) if isinstance(detail, dict)]
    return [value for value in found if value is not None]
