"""Faults of the house in OpenAI's form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import errors as house
from perdure.api.doors.openai import errors
from perdure.api.problems import Fault, Refused, fault_of
from perdure.protocols.openai_chat.faults import ChatFault


def told(fault: Fault) -> tuple[int, dict[str, Any]]:
    response = errors.error(fault)
    return response.status_code, json.loads(bytes(response.body))["error"]


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (house.InvalidInput("x"), 400, "invalid_request_error", "invalid_value"),
        (house.UnknownAgent("x"), 404, "not_found_error", "model_not_found"),
        (house.UnknownSession("x"), 404, "not_found_error", "unknown_session"),
        (house.WrongAgent("x"), 409, "conflict_error", "wrong_agent"),
        (house.KeyConflict("x"), 409, "conflict_error", "key_conflict"),
        (house.SessionGone("x"), 410, "invalid_request_error", "session_gone"),
        (house.QueueFull("x"), 429, "rate_limit_error", "rate_limit_exceeded"),
        (house.ServerUnavailable("x"), 503, "server_error", "server_unavailable"),
        (Refused(401, "unauthenticated", "x"), 401, "authentication_error", "missing_token"),
        (Refused(403, "forbidden", "x"), 403, "forbidden", "insufficient_scope"),
        (Refused(413, "too_large", "x"), 413, "invalid_request_error", "too_large"),
        (Refused(429, "too_many_requests", "x"), 429, "rate_limit_error", "rate_limit_exceeded"),
    ],
)
def test_each_fault_has_openais_words(error: Exception, status: int, kind: str, code: str) -> None:
    found = told(fault_of(error))
    assert (found[0], found[1]["type"], found[1]["code"]) == (status, kind, code)
    assert found[1]["message"] == "x"
    assert found[1]["param"] == ("model" if code == "model_not_found" else None)


def test_a_credential_that_is_worth_nothing_is_told_apart_from_none() -> None:
    challenge = {"WWW-Authenticate": 'Bearer realm="perdure", error="invalid_token"'}
    assert told(Fault(401, "unauthenticated", "x", headers=challenge))[1]["code"] == "invalid_token"


def test_what_is_to_be_paid() -> None:
    accepts = [{"scheme": "token", "amount": "0.05", "currency": "USD"}]
    response = errors.error(fault_of(house.PaymentNeeded("x", accepts=accepts)))
    body = json.loads(bytes(response.body))
    assert (response.status_code, body["status_code"], body["context"]) == (402, 402, {"accepts": accepts})
    assert body["error"]["code"] == "payment_required"


def test_who_has_a_run_begun_is_told_not_to_begin_another() -> None:
    response = errors.after_its_run(ChatFault("x", status=429), {"X-Run-Id": "r"})
    assert (response.headers["x-should-retry"], response.headers["x-run-id"]) == ("false", "r")


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/models/x", "/agents/a/chat/completions", "/v1/other"])
def test_paths_of_the_door(path: str) -> None:
    assert errors.serves(path)
    assert not errors.serves(f"/api{path}")
