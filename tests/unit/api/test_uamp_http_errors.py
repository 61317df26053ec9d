"""Faults in UAMP's words over HTTP: an error object with a code of the protocol's, and the status that fits it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import errors
from perdure.api.doors.uamp import http_errors
from perdure.api.principal import Principal, Scope
from perdure.api.problems import Refused, fault_of
from perdure.api.requirement import check_scope
from perdure.api.tokens import refused as worthless
from perdure.protocols.uamp_events.faults import Code, EventRefused


def told(error: Exception) -> tuple[int, Any, dict[str, str]]:
    response = http_errors.error(fault_of(error))
    return response.status_code, json.loads(bytes(response.body))["error"], dict(response.headers)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.INVALID_JSON, 400), (Code.INVALID_EVENT, 400), (Code.SESSION_REQUIRED, 400), (Code.VERSION_MISMATCH, 400),
        (Code.UNAUTHORIZED, 401), (Code.AGENT_OFFLINE, 404), (Code.SESSION_NOT_FOUND, 404), (Code.INPUT_TOO_LARGE, 413),
        (Code.RATE_LIMITED, 429),
    ],
)  # fmt: skip
def test_a_refused_event_keeps_its_code(code: Code, status: int) -> None:
    found, error, headers = told(http_errors.refused(EventRefused(code, "because")))
    assert (found, error["code"], error["message"]) == (status, code, "because")
    assert ("www-authenticate" in headers) is (status == 401)


@pytest.mark.parametrize(
    ("error", "status", "code", "kind"),
    [
        (errors.UnknownAgent("no agent is named 'x'"), 404, "agent_offline", "not_found_error"),
        (errors.SessionGone("it is being deleted"), 404, "session_not_found", "not_found_error"),
        (errors.InvalidInput("no cursor"), 400, "invalid_event", "invalid_request_error"),
        (errors.ServerUnavailable("PostgreSQL does not answer"), 503, "server_unavailable", "server_error"),
        (Refused(413, "too_large", "too much"), 413, "input_too_large", "invalid_request_error"),
        (Refused(429, "too_many_requests", "slower", {"Retry-After": "3"}), 429, "rate_limited", "rate_limit_error"),
        (worthless("the token has expired"), 401, "unauthorized", "authentication_error"),
    ],
)
def test_faults_of_the_house_are_told_in_the_protocols_words(
    error: Exception, status: int, code: str, kind: str
) -> None:
    found, said, headers = told(error)
    assert (found, said["code"], said["type"], said["message"]) == (status, code, kind, fault_of(error).detail)
    assert "retry-after" in headers or status not in (429, 503)


def test_a_missing_scope_is_forbidden() -> None:
    """A5 of the compliance facts: type forbidden."""
    with pytest.raises(Refused) as caught:
        check_scope(Principal("reader", "acme", frozenset({Scope.READ})), Scope.RUN)
    assert told(caught.value)[:2] == (
        403, {"type": "forbidden", "code": "forbidden", "message": "'reader' lacks the scope 'run'"},
    )  # fmt: skip
