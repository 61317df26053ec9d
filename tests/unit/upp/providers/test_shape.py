"""A vendor's JSON, read in the shape that its adapter documents."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONValue
from perdure.upp.providers._shape import read_shape


class Inner(BaseModel):
    count: int


class Outer(BaseModel):
    items: list[Inner]


def failure(value: JSONValue) -> UPPError:
    with pytest.raises(UPPError) as caught:
        read_shape(Outer, value, "acme")
    return caught.value


def test_a_value_is_returned_in_its_shape() -> None:
    assert read_shape(Outer, {"items": [{"count": 1}], "more": True}, "acme") == Outer(items=[Inner(count=1)])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"items": [{"count": 1}, {"count": "secret"}]}, "items.1.count: Input should be a valid integer"),
        ({}, "items: Field required"),
        (None, "the whole: Input should be a valid dictionary"),
    ],
)
def test_another_shape_is_an_invalid_response_that_names_the_first_wrong_field(value: JSONValue, words: str) -> None:
    error = failure(value)
    assert (error.code, error.provider) == (ErrorCode.INVALID_RESPONSE, "acme")
    assert error.message.startswith(f"the answer is not as the vendor documents it: {words}")


def test_the_error_shows_nothing_of_what_the_vendor_said() -> None:
    error = failure({"items": [{"count": "secret"}]})
    assert "secret" not in str(error)
    assert (error.cause, error.__cause__, error.__context__) == (None, None, None)
