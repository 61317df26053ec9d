"""Typed reading of fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.upp import json_field
from perdure.upp.errors import ErrorCode, UPPError

OPTIONAL = [
    json_field.read_optional_str,
    json_field.read_optional_int,
    json_field.read_optional_number,
    json_field.read_optional_bool,
    json_field.read_optional_object,
]


@pytest.mark.parametrize("reader", OPTIONAL)
@pytest.mark.parametrize("source", [{}, {"x": None}])
def test_absent_and_null_are_none(reader: Callable[..., object], source: dict[str, Any]) -> None:
    """An optional field may be absent or null."""
    assert reader(source, "x", "thing") is None


@pytest.mark.parametrize(
    ("reader", "wrong"),
    [
        (json_field.read_str, 1),
        (json_field.read_str, None),
        (json_field.read_optional_str, []),
        (json_field.read_optional_int, True),
        (json_field.read_optional_int, 1.5),
        (json_field.read_optional_number, False),
        (json_field.read_optional_number, "1"),
        (json_field.read_optional_bool, 1),
        (json_field.read_optional_object, []),
        (json_field.read_list, {}),
        (json_field.read_bytes, 5),
        (json_field.read_bytes, "a"),
        (json_field.read_bytes, "é"),
    ],
)
def test_a_wrong_type_is_an_invalid_request(reader: Callable[..., object], wrong: object) -> None:
    """A field of another type is refused by name."""
    with pytest.raises(UPPError, match=r"thing: field 'x'") as caught:
        reader({"x": wrong}, "x", "thing")
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_missing_field_says_so() -> None:
    """A required field that is absent is named as missing."""
    with pytest.raises(UPPError, match="it is missing"):
        json_field.read_str({}, "x", "thing")


def test_what_is_no_object_is_refused() -> None:
    """A list is not read as an object."""
    with pytest.raises(UPPError, match="expected a JSON object, got a list"):
        json_field.read_object([], "thing")


def test_an_absent_list_is_empty() -> None:
    """Lists are read leniently."""
    assert json_field.read_list({}, "x", "thing") == []


def test_an_integer_has_a_default() -> None:
    """A count that is absent is what the caller says."""
    assert json_field.read_int({}, "x", "thing", 3) == 3
