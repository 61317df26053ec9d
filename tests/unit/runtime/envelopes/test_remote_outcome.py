"""What an ask came to, as the model is told it, and when it is tried again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.errors import RunCancelled
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.runtime.envelopes.client.answer import Answer, Medium
from perdure.runtime.envelopes.client.errors import ConnectionBroken, UnsignedError
from perdure.runtime.envelopes.remote_outcome import TryLater, agent_failed, answered, failed
from perdure.uap.remote_agent import UNSIGNED
from perdure.upp.json_value import JSONObject, JSONValue

MEDIA: JSONValue = [{"mime": "image/png", "size_bytes": 3}, {"mime": None, "size_bytes": 1}]


@pytest.mark.parametrize(
    ("answer", "needs_signature", "result", "is_error"),
    [
        (Answer("four", (), {}, True), True, "four", False),
        (Answer("four", (), {}, False), True, UNSIGNED, True),
        (Answer("four", (), {}, False), False, "four", False),
        (Answer("", (Medium("image/png", b"png"), Medium(None, b"x")), {}, True), True, MEDIA, False),
        (Answer("", (), {"answer": 4, "transcript": {}}, False), False, {"answer": 4}, False),
        (Answer("", (), {"answer": 4, "transcript": {}}, True), True, "", False),
    ],
)
def test_only_what_may_be_used_is_told(
    answer: Answer, needs_signature: bool, result: JSONValue, is_error: bool
) -> None:
    """The last frame's own members are signed by nobody."""
    assert answered(answer, needs_signature=needs_signature) == {"result": result, "isError": is_error}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (agent_failed(UAMPError(Code.INTERNAL, "oops")), "The agent failed (5.00): oops"),
        (failed(UnsignedError(Code.UNAUTHORIZED, "no")), "The agent's server refused this (4.03): no"),
        (failed(UAMPError(Code.UNAUTHENTICATED, "changed")), "The agent's answer cannot be used (4.01): changed"),
        (failed(RunCancelled("gone")), "The agent's work on this was cancelled on its side."),
    ],
)
def test_who_failed_is_told(told: JSONObject, words: str) -> None:
    assert told == {"result": words, "isError": True}


def test_pauses_grow_and_are_as_long_as_the_other_side_asks() -> None:
    later = TryLater.of(ConnectionBroken("away"))
    assert later.problem == {"type": "ConnectionBroken", "message": "away"}
    longest = timedelta(seconds=30)
    assert later.pause(0, longest) <= timedelta(seconds=0.5)
    assert timedelta(seconds=2) <= later.pause(3, longest) <= timedelta(seconds=4)
    assert timedelta(seconds=15) <= later.pause(1000, longest) <= longest
    busy = TryLater.of(UAMPError(Code.BUSY, "busy", retry_after=timedelta(minutes=5)))
    assert busy.pause(0, longest) == timedelta(minutes=5)
    hostile = TryLater.of(UAMPError(Code.BUSY, "busy", retry_after=timedelta(days=400)))
    assert hostile.pause(0, longest) == timedelta(hours=1)
