"""The shared state as a task sees it: values come out as they went in, and the diff is what changed."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.uaip import State
from perdure.uaip.json_form import from_json, to_json
from perdure.uaip.keys import key_problem
from perdure.uaip.state import StateDiff
from perdure.uaip.state_change import MAX_STATE_BYTES, MAX_STATE_KEYS, StateChange, size_of, too_large
from perdure.upp.json_value import JSONObject, dumps
from tests.unit.upp.strategies import json_values

KEYS = st.sampled_from(["a", "a.b", "user.email", "cart.items", "ä", "x" * 256])
VALUES = st.dictionaries(KEYS, json_values(4), max_size=4)


@dataclass(frozen=True)
class Step:
    """One thing that a task does: set, delete or update."""

    kind: str
    values: dict[str, Any]


STEPS = st.lists(st.builds(Step, st.sampled_from(["set", "delete", "update"]), VALUES), max_size=5)


def walk(state: State, steps: list[Step]) -> None:
    for step in steps:
        if step.kind == "update":
            state.update(step.values)
        for key, value in step.values.items():
            if step.kind == "set":
                state.set(key, value)
            elif step.kind == "delete":
                state.delete(key)


def same(one: object, other: object) -> bool:
    """Equality that keeps 1, 1.0 and true apart."""
    return dumps(one) == dumps(other)  # pyright: ignore[reportArgumentType] - both are JSON


@given(VALUES, STEPS, st.integers(0, 9))
def test_a_diff_leads_from_the_state_before_to_the_state_after(
    before: JSONObject, steps: list[Step], version: int
) -> None:
    state, kept = State(before, version=version), copy.deepcopy(before)
    walk(state, steps)
    diff = state.diff()
    after = diff.apply(before)
    assert {key: dumps(value) for key, value in after.items()} == {
        key: dumps(value) for key, value in state.to_json().items()
    }
    assert diff.version == version
    assert before == kept


@given(VALUES, STEPS)
def test_a_diff_has_nothing_that_did_not_change(before: JSONObject, steps: list[Step]) -> None:
    state = State(before)
    walk(state, steps)
    diff = state.diff()
    assert not [key for key, value in diff.values.items() if key in before and same(before[key], value)]
    assert set(diff.deleted) <= set(before)
    assert not set(diff.deleted) & set(diff.values)


@given(VALUES, STEPS)
def test_the_machine_knows_the_same_keys_and_sizes(before: JSONObject, steps: list[Step]) -> None:
    """A change without values leads to the sizes that the values have."""
    state = State(before)
    sizes = state.sizes()
    walk(state, steps)
    assert state.diff().change().apply(sizes) == state.sizes()


@given(VALUES, VALUES)
def test_a_diff_is_the_same_after_its_json_form(before: JSONObject, values: JSONObject) -> None:
    state = State(before, version=3)
    state.update({key: value for key, value in values.items() if _is_unicode(value)})
    change = state.diff().change()
    assert from_json(StateChange, to_json(change), "change") == change


def _is_unicode(value: object) -> bool:
    try:
        dumps(value).decode()  # pyright: ignore[reportArgumentType] - it is JSON
    except UnicodeDecodeError:
        return False
    return True


def test_keys_are_flat() -> None:
    """A dot makes no object."""
    state = State({"user.email": "a@b.c"})
    assert state.get("user.email") == "a@b.c"
    assert state.get("user") is None
    assert not state.has("user")


def test_null_is_a_value() -> None:
    state = State({"a": None})
    assert state.has("a")
    assert state.get("a", 3) is None
    assert state.get("b", 3) == 3


def test_a_value_that_was_changed_in_place_is_a_change() -> None:
    state = State({"cart.items": [1]})
    state.get("cart.items").append(2)
    assert state.diff() == StateDiff(0, {"cart.items": [1, 2]})


def test_true_and_one_are_two_values() -> None:
    """They are equal in Python, and not in JSON."""
    state = State({"a": 1})
    state.set("a", True)
    assert state.diff().values == {"a": True}


def test_a_key_that_is_deleted_and_written_again_has_not_changed() -> None:
    state = State({"a": 1})
    assert state.delete("a")
    assert not state.delete("a")
    assert state.diff().deleted == ("a",)
    state.set("a", 1)
    assert state.diff().is_empty


def test_what_was_written_is_a_copy() -> None:
    items = [1]
    state = State()
    state.set("items", items)
    items.append(2)
    assert state.get("items") == [1]


def test_a_value_without_a_json_form_is_refused_with_its_key() -> None:
    state = State({"a": {}})
    with pytest.raises(InvalidInput, match=r"the value of 'b' must be JSON: \$\[0\]"):
        state.set("b", [object()])
    state.get("a")["x"] = object()
    with pytest.raises(InvalidInput, match="the value of 'a' must be JSON"):
        state.diff()


def test_an_update_that_cannot_be_written_whole_writes_nothing() -> None:
    state = State()
    with pytest.raises(InvalidInput, match="reserved"):
        state.update({"a": 1, "events": 2})
    assert state.diff().is_empty


@pytest.mark.parametrize("key", ["events", "perdure.stage", "", "a\nb", "\ud83c", "x" * 257])
def test_a_key_that_is_refused(key: str) -> None:
    assert key_problem(key) is not None
    with pytest.raises(InvalidInput):
        State().set(key, 1)


def test_a_state_is_too_large_from_a_megabyte_on() -> None:
    """And from a thousand keys on; the key counts too."""
    full = MAX_STATE_BYTES - size_of("a", "")
    assert too_large({"a": size_of("a", "x" * full)}) is None
    over = too_large({"a": size_of("a", "x" * (full + 1))})
    assert over is not None
    assert over.status == 413
    assert "1,000,001 bytes; a session's state has at most 1,000,000" in over.detail
    assert too_large(dict.fromkeys(map(str, range(MAX_STATE_KEYS)), 1)) is None
    assert too_large(dict.fromkeys(map(str, range(MAX_STATE_KEYS + 1)), 1)) is not None
