"""Answers as they are stored."""

from __future__ import annotations

import pytest

from perdure.errors import InvalidInput
from perdure.runtime.wait_answers import checked_answer
from perdure.upp.json_value import JSONObject, dumps, sha256_hex

RIGHT: list[tuple[str, JSONObject]] = [
    ("approval", {"decision": "approve"}),
    ("approval", {"decision": "reject", "reason": "no"}),
    ("approval", {"decision": "answer", "result": None, "isError": True}),
    ("client_tool", {"result": [1]}),
    ("remote", {"result": "four", "isError": False}),
    ("outcome", {"outcome": "happened", "result": 1}),
    ("outcome", {"outcome": "stop"}),
]
WRONG: list[tuple[str, JSONObject]] = [
    ("approval", {"outcome": "happened"}),
    ("approval", {"decision": "expired"}),
    ("approval", {"decision": ["approve"]}),
    ("approval", {"decision": "reject", "reason": 1}),
    ("client_tool", {"isError": True}),
    ("client_tool", {"result": 1, "decision": "approve"}),
    ("remote", {"outcome": "happened"}),
    ("outcome", {"outcome": "ended"}),
    ("outcome", {"outcome": "happened", "isError": 1}),
]


@pytest.mark.parametrize(("kind", "answer"), RIGHT, ids=[str(place) for place in range(len(RIGHT))])
def test_an_answer_is_stored_as_it_is(kind: str, answer: JSONObject) -> None:
    """If it is one of its kind."""
    assert checked_answer(kind, answer) == (answer, None)


@pytest.mark.parametrize(("kind", "answer"), WRONG, ids=[str(place) for place in range(len(WRONG))])
def test_an_answer_of_another_kind_is_refused(kind: str, answer: JSONObject) -> None:
    """The message says what is needed."""
    with pytest.raises(InvalidInput):
        checked_answer(kind, answer)


def test_an_edit_is_stored_with_its_hash() -> None:
    """And the hash of what was looked at is not part of the answer."""
    edit: JSONObject = {"b": 1, "a": [1.5]}
    made, seen = checked_answer("approval", {"decision": "approve", "arguments": edit, "args_sha256": "seen"})
    assert (made["arguments"], made["arguments_sha256"], seen) == (edit, sha256_hex(dumps(edit)), "seen")
    assert "args_sha256" not in made
