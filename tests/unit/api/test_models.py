"""Bodies of requests, and cursors."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from perdure.api.answers import Answer, on_wire
from perdure.api.cursors import read_cursor, read_time_cursor, to_cursor
from perdure.api.inputs import to_history, to_message
from perdure.api.models import CreateSession, Options
from perdure.errors import InvalidInput
from perdure.uap.options import RunOptions
from perdure.upp.json_value import dumps

TEXT = st.text(st.characters(codec=None, exclude_categories=()))
OURS = {"stream", "payment"}  # set by the library, not by a caller


def test_every_option_of_a_run_can_be_sent() -> None:
    """A new option of a run is a new field of the body."""
    assert set(Options.model_fields) == {field.name for field in dataclasses.fields(RunOptions)} - OURS


def test_options_say_only_what_was_given() -> None:
    """What is left out or null is the agent's own."""
    options = Options.model_validate({"max_steps": 3, "max_cost": "0.50", "params": None}).to_options()
    assert options.to_json() == {"max_steps": 3, "max_cost": "0.50"}


@given(TEXT)
def test_l56_any_text_survives_body_and_answer(text: str) -> None:
    """Also NUL and lone surrogates; only a pair of them becomes the character that it is."""
    sent = json.loads(json.dumps({"agent": "a", "title": text, "metadata": {text: [text]}}))
    body = CreateSession.model_validate(sent)
    assert body.title == sent["title"]
    assert json.loads(bytes(Answer(body.metadata).body)) == sent["metadata"]
    assert json.loads(on_wire(dumps(sent)).decode("utf-8")) == json.loads(json.dumps(sent))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**5000], ids=["nan", "infinity", "long"])
def test_numbers_that_json_has_not_are_refused(value: Any) -> None:
    """They would be stored as something else, or not at all."""
    with pytest.raises(ValidationError):
        CreateSession.model_validate({"agent": "a", "metadata": {"x": value}})


@given(st.lists(st.integers(0, 2**53) | st.text(st.characters(codec="utf-8", categories=["L", "N"])), max_size=5))
def test_a_cursor_comes_back_as_it_was(parts: list[int | str]) -> None:
    """Whatever its parts are."""
    assert read_cursor(to_cursor(*parts), *(type(part) for part in parts)) == parts


@pytest.mark.parametrize(
    "text", ["", "x", "é", "W10", "bnVsbA", "WzEsMl0", "A" * 5000], ids=lambda text: str(len(text)) + text[:7]
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    """The message says where to take one from."""
    with pytest.raises(InvalidInput, match="cursor"):
        read_time_cursor(text)
    with pytest.raises(InvalidInput, match="cursor"):
        read_cursor(text, str, int)


def test_messages_of_requests() -> None:
    """Id, time and type may be left out; an input must be the user's."""
    assert to_message("Hello").text == "Hello"
    assert to_message({"content": "Hello"}).text == "Hello"
    assert to_message({"content": [{"type": "text", "text": "Hello"}]}).text == "Hello"
    with pytest.raises(InvalidInput, match="#/input"):
        to_message({"type": "assistant", "content": []})
    with pytest.raises(InvalidInput, match="#/history/1"):
        to_history([{"content": []}, {"type": "robot"}])
