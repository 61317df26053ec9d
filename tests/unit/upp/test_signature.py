"""Signatures as JSON Schema."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from hypothesis import given
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.signature import Signature, read_signature
from perdure.upp.tools import ToolContext
from tests.unit.upp import strategies as upp

if TYPE_CHECKING:
    from decimal import Decimal


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    city: str
    title: str = "none"


class Options(TypedDict):
    deep: bool


@dataclass
class Point:
    x: int


def signature(function: Callable[..., object]) -> Signature:
    return read_signature(function, {})


def properties(function: Callable[..., object]) -> JSONValue:
    return signature(function).schema["properties"]


def test_a_schema_is_a_closed_object() -> None:
    """Required parameters are listed, and others than the declared ones are not welcome."""

    def function(title: str, count: int = 3) -> None: ...

    assert signature(function).schema == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "count": {"type": "integer", "default": 3}},
        "required": ["title"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_has_an_empty_object() -> None:
    """Providers want properties, even none."""

    def function() -> None: ...

    assert signature(function).schema == {"type": "object", "properties": {}, "additionalProperties": False}


def test_descriptions_come_from_fields_and_docstrings() -> None:
    """Field wins over Args."""

    def function(
        a: Annotated[int, Field(description="from field", ge=1)], b: str, c: Annotated[int, Field(le=2)]
    ) -> None:
        """Do.

        Args:
            a: from args
            b: from args
            c: from args
        """

    assert properties(function) == {
        "a": {"type": "integer", "description": "from field", "minimum": 1},
        "b": {"type": "string", "description": "from args"},
        "c": {"type": "integer", "description": "from args", "maximum": 2},
    }


def test_types_of_the_language_have_schemas() -> None:
    """Enums, literals, options, lists, dates, dataclasses and JSON itself."""

    def function(
        a: Colour, b: Literal["x", "y"], c: int | None, d: list[str], e: date, f: dict[str, int], g: Options, h: Point
    ) -> None: ...

    schema = signature(function).schema
    found = schema["properties"]
    assert isinstance(found, dict)
    assert found["a"] == {"$ref": "#/$defs/Colour"}
    assert found["b"] == {"type": "string", "enum": ["x", "y"]}
    assert found["c"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert found["d"] == {"type": "array", "items": {"type": "string"}}
    assert found["e"] == {"type": "string", "format": "date"}
    assert schema["required"] == ["a", "b", "c", "d", "e", "f", "g", "h"]


def test_models_are_built_from_arguments() -> None:
    """The function gets objects of its own types, coerced."""

    def function(place: Place, point: Point, colour: Colour, n: int) -> None: ...

    bound = signature(function).bind({"place": {"city": "x"}, "point": {"x": 1}, "colour": "red", "n": "5"})
    assert bound == {"place": Place(city="x"), "point": Point(1), "colour": Colour.RED, "n": 5}


@pytest.mark.parametrize("name", ["schema", "json", "copy", "model_dump", "_hidden", "self_", "p0", "fields"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    """Names that pydantic uses itself are no trouble."""

    def function(x: int) -> None: ...

    renamed = inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=int)
    function.__signature__ = inspect.Signature([renamed])  # pyright: ignore[reportFunctionMemberAccess]
    read = signature(function)
    assert read.schema["required"] == [name]
    assert read.bind({name: 3}) == {name: 3}


def test_left_out_parameters_are_left_to_python() -> None:
    """A default is the function's own object, not a copy."""

    def function(a: int = 1, b: list[int] = []) -> None: ...  # noqa: B006  # what users write

    assert signature(function).bind({}) == {}


def test_a_default_inside_field_is_filled_in() -> None:
    """Python does not know those defaults, so they are passed."""

    def function(a: int = Field(default=3), b: Annotated[int, Field(default=4)] = 5) -> None: ...

    assert signature(function).bind({}) == {"a": 3}


def test_a_users_alias_is_what_the_model_sees() -> None:
    """The function still gets its own parameter."""

    def function(from_: Annotated[str, Field(alias="from")], to: str = Field(alias="To")) -> None: ...

    read = signature(function)
    assert read.schema["required"] == ["from", "To"]
    assert read.bind({"from": "a", "To": "b"}) == {"from_": "a", "to": "b"}


def test_a_default_without_json_form_is_not_shown() -> None:
    """The parameter is optional all the same."""

    def function(marker: Any = object()) -> None: ...  # noqa: B008  # what users write

    assert properties(function) == {"marker": {}}


@pytest.mark.parametrize("optional", [False, True])
def test_the_context_is_hidden_from_the_model(optional: bool) -> None:
    """A ToolContext parameter is no part of the schema."""

    def plain(x: int, context: ToolContext) -> None: ...

    def or_none(x: int, context: ToolContext | None = None) -> None: ...

    read = signature(or_none if optional else plain)
    assert read.context_parameters == ("context",)
    assert read.schema["properties"] == {"x": {"type": "integer"}}


def test_every_misfit_is_listed() -> None:
    """The model can mend all of it at once."""

    def function(place: Place, n: int) -> None: ...

    with pytest.raises(InvalidInput) as caught:
        signature(function).bind({"place": {}, "n": "x", "more": 1})
    message = str(caught.value)
    assert "place.city: Field required" in message
    assert "n: Input should be a valid integer" in message
    assert "more: Extra inputs are not permitted" in message


def test_wrapped_functions_are_seen_through() -> None:
    """Decorators that keep __wrapped__ keep the signature."""

    def function(place: Place) -> None: ...

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> object:
        return (args, kwargs)

    assert signature(wrapper).schema["required"] == ["place"]


def test_the_return_annotation_need_not_exist() -> None:
    """A type that is imported for the checker only may be returned."""

    def function(x: int) -> Decimal: ...

    assert signature(function).schema["required"] == ["x"]


def positional(x: int, /) -> None: ...


def variadic(*x: int) -> None: ...


def keywords(**x: int) -> None: ...


bare: Callable[[int], None] = lambda x: None  # noqa: E731  # a lambda has no annotations


def unknown(x: Decimal) -> None: ...


def opaque(x: Callable[[], None]) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (positional, "'x' is positional-only"),
        (variadic, "'x' is variadic"),
        (keywords, "'x' is variadic"),
        (bare, "'x' has no annotation"),
        (unknown, "cannot be resolved: name 'Decimal' is not defined"),
        (opaque, "no JSON Schema"),
    ],
)
def test_a_function_that_cannot_be_described_is_refused(function: Callable[..., object], problem: str) -> None:
    """The message names the function and the parameter."""
    with pytest.raises(InvalidInput, match=problem):
        signature(function)


@given(upp.json_objects())
def test_json_arrives_untouched(value: JSONObject) -> None:
    """A parameter of JSON type takes NUL, and lone surrogates wherever pydantic takes them."""

    def function(value: dict[str, Any], json: JSONValue) -> None: ...

    bound = signature(function).bind({"value": value, "json": "\ud83c\x00"})
    assert bound["json"] in ("\ud83c\x00", "\ufffd\x00")


@given(upp.texts())
def test_text_with_lone_surrogates_does_not_crash(text: str) -> None:
    """Plain strings arrive as they are; where pydantic refuses, they are repaired."""

    def plain(x: str) -> None: ...

    def constrained(x: Annotated[str, Field(max_length=100)]) -> None: ...

    assert signature(plain).bind({"x": text}) == {"x": text}
    repaired = signature(constrained).bind({"x": text})["x"]
    assert isinstance(repaired, str)
    repaired.encode()


@given(upp.json_objects())
def test_misfits_never_crash(arguments: JSONObject) -> None:
    """Whatever a model writes is bound or refused as InvalidInput."""

    def function(x: int, y: Literal["a"], z: dict[str, int]) -> None: ...

    with pytest.raises(InvalidInput):
        signature(function).bind(arguments)
