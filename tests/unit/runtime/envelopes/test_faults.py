"""Our errors in UAMP's codes."""

from __future__ import annotations

import pytest

from perdure.errors import (
    DamagedSession,
    InvalidInput,
    PerdureError,
    QueueFull,
    ServerUnavailable,
    SessionGone,
    UnknownAgent,
    WrongAgent,
)
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.runtime.envelopes.faults import uamp_error


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (InvalidInput("no such thing"), "4.00", False),
        (UnknownAgent("no agent x"), "4.04", False),
        (WrongAgent("another agent's"), "4.04", False),
        (SessionGone("going"), "4.04", False),
        (QueueFull("1000 wait"), "5.04", True),
        (ServerUnavailable("PostgreSQL at 10.0.0.3 does not answer"), "5.04", True),
    ],
)
def test_what_the_sender_can_know_has_a_code(error: PerdureError, code: str, retryable: bool) -> None:
    """What may come again says when."""
    told = uamp_error(error)
    assert (told.code, told.retryable, told.retry_after is not None) == (code, retryable, retryable)
    assert "10.0.0.3" not in told.message


@pytest.mark.parametrize("error", [DamagedSession("body f00 lacks its hash"), KeyError("secret"), ValueError("/etc/x")])
def test_what_is_our_own_affair_is_an_internal_error_without_detail(error: Exception) -> None:
    assert uamp_error(error).to_json() == {"code": "5.00", "message": "the server failed", "retryable": False}


def test_an_error_of_the_protocol_stays_as_it_is() -> None:
    error = UAMPError(Code.CONFLICT, "used")
    assert uamp_error(error) is error
