"""How callers write what a session's metadata must have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.runtime.filterable import read_filter


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("web", "web"), ("", ""), ("a:b", "a:b"), ("7", 7), ('"7"', "7"), ("1.5", 1.5), ("true", True), ('"true"', "true"),
        ("True", "True"), ("007", "007"), ("NaN", "NaN"), ("-Infinity", "-Infinity"), ("1e999", "1e999"), ("{", "{"),
        ("9" * 5000, "9" * 5000), ('"', '"'),
    ],
)  # fmt: skip
def test_a_value_is_json_where_it_is_and_else_a_text(value: str, expected: object) -> None:
    wanted = read_filter([f"key:{value}"], ":", "metadata")
    assert wanted == {"key": expected}
    assert type(wanted["key"]) is type(expected)


@given(st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text())
def test_any_value_can_be_asked_for_by_its_json(value: Any) -> None:
    assert read_filter([f"key={json.dumps(value)}"], "=", "--metadata") == {"key": value}


@pytest.mark.parametrize("pairs", [["team"], [":web"], [""], ["a:1", "a:1"], ["a:null"], ["a:[]"], ["a:{}"]])
def test_anything_else_is_refused(pairs: list[str]) -> None:
    with pytest.raises(InvalidInput, match=r"^metadata"):
        read_filter(pairs, ":", "metadata")
