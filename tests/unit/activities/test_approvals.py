"""What is done with a call of which something is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure.activities.approvals import EXPIRED, UNKNOWN, Approved, Told, decide
from perdure.activities.contracts import CallToolInput, CallToolResult
from perdure.errors import OutcomeUnknown
from perdure.store.tool_calls import CallState
from perdure.upp.json_value import JSONObject
from perdure.upp.tool_call import ToolCall

CALL = ToolCall("c", "pay", {})
YES: JSONObject = {"decision": "approve"}


def decided(effect: str, known: CallState, *, approval: str = "human", again: bool = True) -> Any:
    """What is decided of a call."""
    given = CallToolInput("t", "s", "r", "a", 1, "m", 0, "sha", effect, 1.0, approval=approval)
    return decide(given, CALL, known, may_have_run=again)


def taken(answer: JSONObject, *, now: bool, state: str = "pending") -> CallState:
    """An approval that this attempt has taken, or one before."""
    known = CallState(state, approval=answer, approval_sha256="shown")
    return replace(known, answer=answer, wait="approval") if now else known


@pytest.mark.parametrize("effect", ["none", "idempotent", "at_most_once", "once"])
def test_an_approval_lets_a_call_run_once(effect: str) -> None:
    """The attempt that takes it runs the call with the arguments that were asked about."""
    assert decided(effect, taken(YES, now=True)) == Approved(None, None, "shown")


EFFECTS: list[tuple[str, str, Any]] = [
    ("none", "pending", Approved(None, None, "shown")),
    ("idempotent", "pending", Approved(None, None, "shown")),
    ("at_most_once", "pending", Told(UNKNOWN, approved=True)),
    ("once", "pending", Approved(None, None, "shown")),
    ("once", "running", CallToolResult(kind="parked", wait="outcome")),
]


@pytest.mark.parametrize(
    ("effect", "state", "expected"), EFFECTS, ids=[f"{effect}-{state}" for effect, state, _ in EFFECTS]
)
def test_a_taken_approval_counts_again_only_where_the_effect_allows_it(effect: str, state: str, expected: Any) -> None:
    """The attempt that took it may have run the call; a `once` call that is pending was not run."""
    assert decided(effect, taken(YES, now=False, state=state)) == expected


@pytest.mark.parametrize("now", [True, False])
def test_what_is_no_approval_is_told_to_the_model(now: bool) -> None:
    """However often it is asked what became of it."""
    assert decided("at_most_once", taken({"decision": "expired"}, now=now)) == Told(EXPIRED, approved=False)
    answer = taken({"decision": "answer", "result": 7}, now=now)
    assert decided("at_most_once", answer) == Told(7, is_error=False, approved=False)
    rejected = decided("at_most_once", taken({"decision": "reject", "reason": "too much"}, now=now))
    assert (rejected.is_error, "too much" in rejected.result) == (True, True)


def test_a_call_that_a_person_must_approve_has_not_run_before() -> None:
    """Without an approval it begins anew; where a function may have let it run, the outcome is unknown."""
    assert decided("at_most_once", CallState("pending")) is None
    assert decided("at_most_once", CallState("pending"), approval="predicate") == Told(UNKNOWN)
    assert decided("at_most_once", CallState("pending"), approval="predicate", again=False) is None


def test_an_open_wait_is_waited_for() -> None:
    """Whatever else is known."""
    known = CallState("pending", open="approval", expires_s=3.0)
    assert decided("once", known) == CallToolResult(kind="parked", wait="approval", expires_s=3.0)


def test_a_settled_outcome_counts() -> None:
    """Not run: it runs now, as it was approved. Stopped: the run ends, and the error names the call."""
    edited: JSONObject = {**YES, "arguments": {"x": 1}, "arguments_sha256": "sha"}
    known = replace(taken(edited, now=False, state="running"), answer={"outcome": "not_run"}, wait="outcome")
    assert decided("once", known) == Approved({"x": 1}, "sha", "shown")
    stopped = CallState("running", answer={"outcome": "stop"}, wait="outcome", by="Ada")
    with pytest.raises(OutcomeUnknown, match=r"'c'.*'pay'.*Ada"):
        decided("once", stopped)
