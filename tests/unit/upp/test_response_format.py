"""The neutral response format."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.response_format import ResponseFormat, read_response_format

SCHEMA: JSONObject = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, ResponseFormat("json_object")),
        ({"type": "json_schema", "schema": SCHEMA}, ResponseFormat("json_schema", SCHEMA)),
        (
            {"type": "json_schema", "schema": SCHEMA, "name": "count", "description": "How many.", "strict": True},
            ResponseFormat("json_schema", SCHEMA, "count", "How many.", True),
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": SCHEMA, "name": "count", "strict": False}},
            ResponseFormat("json_schema", SCHEMA, "count", None, False),
        ),
    ],
)
def test_the_forms_are_read(given: Any, read: ResponseFormat | None) -> None:
    assert read_response_format(given, None) == read


def test_a_structure_is_a_schema() -> None:
    assert read_response_format(None, SCHEMA) == ResponseFormat("json_schema", SCHEMA)
    assert read_response_format({"type": "text"}, SCHEMA) == ResponseFormat("json_schema", SCHEMA)


@pytest.mark.parametrize(
    ("given", "structure", "said"),
    [
        ({"type": "xml"}, None, "must be"),
        ({}, None, "must be"),
        ({"type": "json_schema"}, None, "must be"),
        ({"type": "json_schema", "schema": []}, None, "must be"),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, None, "must be"),
        ({"type": "json_object"}, SCHEMA, "not both"),
    ],
)
def test_what_is_none_of_them_is_refused(given: Any, structure: JSONObject | None, said: str) -> None:
    with pytest.raises(UPPError, match=said) as raised:
        read_response_format(given, structure)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
