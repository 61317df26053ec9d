"""UPPError."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest
from hypothesis import given

from perdure.errors import PerdureError
from perdure.upp.errors import ErrorCode, Modality, UPPError
from perdure.upp.json_value import JSONValue, dumps, loads
from tests.unit.upp import strategies as upp


@given(upp.upp_errors)
def test_an_error_survives_json(error: UPPError) -> None:
    """Every attribute is read back; the cause as its text."""
    again = UPPError.from_json(loads(dumps(error.to_json())))
    assert again.to_json() == error.to_json()
    assert (again.code, again.retry_after, again.modality) == (error.code, error.retry_after, error.modality)


@given(upp.upp_errors)
def test_an_error_can_be_pickled(error: UPPError) -> None:
    """Errors cross process borders whole."""
    again: UPPError = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
    assert again.to_json() == error.to_json()


def test_the_text_names_code_provider_and_status() -> None:
    """One line says all that a log needs."""
    error = UPPError("slow down", ErrorCode.RATE_LIMITED, "openai", Modality.LLM, 429)
    assert str(error) == "UPPError [RATE_LIMITED]: slow down (provider: openai, modality: llm, status: 429)"
    assert str(UPPError("x", ErrorCode.CANCELLED)) == "UPPError [CANCELLED]: x (provider: upp, modality: llm)"


def test_the_json_has_upps_names() -> None:
    """The cause is its text."""
    error = UPPError("m", ErrorCode.TIMEOUT, "p", status_code=504, cause=OSError("reset"))
    assert error.to_json() == {
        "name": "UPPError",
        "message": "m",
        "code": "TIMEOUT",
        "provider": "p",
        "modality": "llm",
        "statusCode": 504,
        "cause": "reset",
    }


def test_the_cause_is_chained() -> None:
    """A traceback shows what was underneath."""
    cause = OSError("reset")
    assert UPPError("m", ErrorCode.NETWORK_ERROR, cause=cause).__cause__ is cause


def test_codes_compare_as_strings() -> None:
    """The specification's samples compare with literals."""
    assert UPPError("m", ErrorCode.RATE_LIMITED).code == "RATE_LIMITED"


def test_it_is_an_error_of_perdure() -> None:
    """One except clause catches all errors of ours."""
    assert issubclass(UPPError, PerdureError)


@pytest.mark.parametrize("code", ErrorCode)
def test_four_codes_may_succeed_later(code: ErrorCode) -> None:
    """Retrying anything else buys the same error again."""
    expected = code in {"RATE_LIMITED", "NETWORK_ERROR", "TIMEOUT", "PROVIDER_ERROR"}
    assert UPPError("m", code).retryable is expected


def test_the_wait_is_rounded_up() -> None:
    """Nobody asks again too early."""
    error = UPPError("m", ErrorCode.RATE_LIMITED, retry_after=timedelta(microseconds=1500))
    assert error.to_json()["retryAfterMs"] == 2


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"message": "m"},
        {"message": "m", "code": "NO_SUCH"},
        {"message": "m", "code": "TIMEOUT", "modality": "x"},
    ],
)
def test_what_is_no_error_is_an_invalid_request(value: JSONValue) -> None:
    """An unknown code is not read as another one."""
    with pytest.raises(UPPError, match="UPPError's JSON") as caught:
        UPPError.from_json(value)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
