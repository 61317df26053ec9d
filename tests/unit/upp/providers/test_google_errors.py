"""What Gemini's errors mean; whole error answers are in the wire tests."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.upp.errors import ErrorCode
from perdure.upp.providers.google.errors import classify


def error(message: str = "", status: str = "RESOURCE_EXHAUSTED", *details: dict[str, Any]) -> dict[str, Any]:
    return {"message": message, "status": status, "details": [*details]}


def quota(*ids: str) -> dict[str, Any]:
    return {"violations": [{"quotaId": id_} for id_ in ids]}


RETRY = {"retryDelay": "3s"}
USED_UP = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (429, error("", "X", quota("TokensPerMinute")), ErrorCode.RATE_LIMITED),
        (429, error(USED_UP, "X", quota("InputTokensPerModelPerMinute")), ErrorCode.RATE_LIMITED),
        (429, error("", "X", quota("RequestsPerMinute", "RequestsPerDay"), RETRY), ErrorCode.QUOTA_EXCEEDED),
        (429, error(USED_UP, "X", RETRY), ErrorCode.RATE_LIMITED),
        (429, error(USED_UP), ErrorCode.QUOTA_EXCEEDED),
        (429, error("Your prepayment credits are depleted."), ErrorCode.QUOTA_EXCEEDED),
        (429, error("Resource has been exhausted (e.g. check quota)."), ErrorCode.RATE_LIMITED),
        (429, {}, ErrorCode.RATE_LIMITED),
        (None, error(USED_UP), ErrorCode.QUOTA_EXCEEDED),
        (None, error("slow down"), ErrorCode.RATE_LIMITED),
        (400, error("API key expired. Please renew it.", "INVALID_ARGUMENT"), ErrorCode.AUTHENTICATION_FAILED),
        (400, error("x", "INVALID_ARGUMENT", {"reason": "API_KEY_INVALID"}), ErrorCode.AUTHENTICATION_FAILED),
        (400, error("billing is not set up", "FAILED_PRECONDITION"), None),
        (503, error("The model is overloaded.", "UNAVAILABLE"), None),
    ],
)
def test_an_error_means(status: int | None, said: dict[str, Any], code: ErrorCode | None) -> None:
    assert classify(status, said) == code


@pytest.mark.parametrize("details", ["x", [1], [{"violations": "x"}], [{"violations": [1, {"quotaId": 7}]}], None])
def test_details_of_another_form_are_passed_over(details: object) -> None:
    assert classify(429, {"details": details}) == ErrorCode.RATE_LIMITED  # pyright: ignore[reportArgumentType]
