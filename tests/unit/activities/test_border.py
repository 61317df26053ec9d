"""Errors over the activity border: none loses its type, code or message."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    FailureError,
    RetryState,
    TimeoutType,
)
from temporalio.exceptions import TimeoutError as TimedOut

from perdure import errors
from perdure.activities.border import describe, from_description, from_failure, to_application_error
from perdure.activities.convert import PerdurePayloadConverter, data_converter
from perdure.errors import PerdureError, ProtocolError, RunActive, RunError, SessionLimitReached, StrategyError
from perdure.upp.errors import ErrorCode, UPPError
from tests.unit.store.strategies import joined
from tests.unit.upp import strategies as upp

OWN = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, PerdureError)]


def made(kind: type[PerdureError], message: str) -> PerdureError:
    """An error of a kind, with everything that its kind carries."""
    arguments: dict[str, Any] = {}
    if issubclass(kind, RunError | ProtocolError | SessionLimitReached):
        arguments["code"] = "some_code"
    if issubclass(kind, RunActive):
        arguments["run_id"] = "a run"
    return kind(message, **arguments)


def over(error: Exception, *, retryable: bool = False) -> PerdureError:
    """The error as the workflow sees it: through the wire's own form, inside Temporal's `ActivityError`."""
    wire = Failure()
    converter, payloads = data_converter.failure_converter, PerdurePayloadConverter()
    converter.to_failure(to_application_error(error, retryable=retryable), payloads, wire)
    failure = converter.from_failure(Failure.FromString(wire.SerializeToString()), payloads)
    assert isinstance(failure, ApplicationError)
    assert failure.non_retryable is not retryable
    return from_failure(activity_error(failure))


def activity_error(cause: BaseException | None) -> ActivityError:
    """What Temporal raises in a workflow for a failed activity."""
    error = ActivityError(
        "Activity task failed",
        scheduled_event_id=5,
        started_event_id=6,
        identity="worker",
        activity_type="perdure.generate",
        activity_id="1",
        retry_state=RetryState.NON_RETRYABLE_FAILURE,
    )
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
def test_an_error_of_ours_comes_back_as_itself(kind: type[PerdureError]) -> None:
    """With its type, its message and its code."""
    error = made(kind, "no session abc; `perdure sessions list` shows those there are")
    back = over(error)
    assert type(back) is kind
    assert str(back) == str(error)
    assert getattr(back, "code", None) == getattr(error, "code", None)


@given(upp.upp_errors)
@settings(max_examples=40)
def test_a_upp_error_comes_back_as_itself(error: UPPError) -> None:
    """With all that UPP's JSON says; text of any kind."""
    back = over(error)
    assert isinstance(back, UPPError)
    assert back.to_json() == joined(error.to_json())


def test_text_that_utf_8_forbids_comes_back() -> None:
    """A failure that cannot be written would be tried for ever: the model bought again and again."""
    back = over(UPPError("half a pair: \ud800", ErrorCode.INVALID_REQUEST))
    assert isinstance(back, UPPError)
    assert back.message == "half a pair: \ud800"


class Odd(Exception):
    """Not ours."""


FOREIGN = [
    KeyError("a"),
    ValueError("bad value"),
    Odd("odd"),
    RuntimeError(""),
    UnicodeError("\ud800"),
    OSError(2, "x"),
]


@pytest.mark.parametrize("error", FOREIGN, ids=repr)
def test_an_error_of_others_is_a_run_error_that_names_it(error: Exception) -> None:
    """Its type is the code, so that programs can tell."""
    back = over(error)
    assert type(back) is RunError
    assert back.code == type(error).__name__
    assert str(back) == f"{type(error).__name__}: {str(error) or type(error).__name__}"


@pytest.mark.parametrize("name", ["Exception", "annotations", "__doc__", "Nothing", "", "KeyError", "BaseException"])
def test_a_description_of_an_unknown_type_is_a_run_error(name: str) -> None:
    """Also where the name means something else here."""
    back = from_description({"type": name, "message": "m"})
    assert type(back) is RunError
    assert back.code == name


@pytest.mark.parametrize("retryable", [True, False])
def test_whether_it_may_be_tried_again_is_the_callers_word(retryable: bool) -> None:
    """The border maps; it does not judge."""
    assert to_application_error(ValueError("x"), retryable=retryable).non_retryable is not retryable
    assert to_application_error(ValueError("x"), retryable=retryable).type == "ValueError"


def test_an_error_without_words_is_named() -> None:
    """Nobody is shown an empty line."""
    assert describe(RuntimeError()) == {"type": "RuntimeError", "message": "RuntimeError"}
    assert to_application_error(RuntimeError()).message == "RuntimeError"


OTHERS: list[FailureError] = [
    activity_error(None),
    activity_error(TimedOut("heartbeat", type=TimeoutType.HEARTBEAT, last_heartbeat_details=[])),
    activity_error(CancelledError("cancelled")),
    activity_error(ApplicationError("by hand", type="Other")),
    activity_error(ApplicationError("by hand", "not a description", type="Other")),
    ApplicationError("no activity"),
]


@pytest.mark.parametrize("failure", OTHERS, ids=repr)
def test_a_failure_that_nothing_of_ours_made_is_a_strategy_error(failure: FailureError) -> None:
    """A timeout, a cancellation, an activity that somebody failed by hand: the run ends typed all the same."""
    back = from_failure(failure)
    cause = failure.cause if isinstance(failure, ActivityError) else failure
    assert isinstance(back, StrategyError)
    assert back.code == type(cause or failure).__name__
    assert str(back)


def test_a_code_that_upp_does_not_know_still_comes_back() -> None:
    """A newer worker's error does not raise in an older workflow."""
    back = from_description({"type": "UPPError", "message": "m", "code": "FROM_THE_FUTURE"})
    assert isinstance(back, PerdureError)
    assert "FROM_THE_FUTURE" in str(back) or "m" in str(back)


def test_every_code_survives() -> None:
    """UPP's codes, one by one."""
    for code in ErrorCode:
        back = over(UPPError("m", code))
        assert isinstance(back, UPPError)
        assert back.code is code
