"""Types of request fields that carry a caller's own text and JSON, whole: also NUL and lone surrogates."""

from __future__ import annotations

from typing import Annotated, cast

from pydantic import PlainValidator

from perdure.upp.json_value import JSONObject, JSONValue, jsonable


def _text(value: object) -> str:
    """Text as it is. pydantic's own check would refuse a lone surrogate, which JSON can carry and we can store."""
    if not isinstance(value, str):
        raise ValueError("Input should be text")
    return value


def _named(value: object) -> str:
    text = _text(value)
    if not text.strip():
        raise ValueError("Input should not be empty")
    return text


def _json(value: object) -> JSONValue:
    try:
        return jsonable(value)
    except TypeError as error:  # NaN, a number of thousands of digits, a nesting of hundreds of levels
        raise ValueError(str(error)) from None


def _object(value: object) -> JSONObject:
    checked = _json(value)
    if not isinstance(checked, dict):
        raise ValueError("Input should be an object")
    return checked


def _objects(value: object) -> list[JSONObject]:
    checked = _json(value)
    if not isinstance(checked, list) or not all(isinstance(item, dict) for item in checked):
        raise ValueError("Input should be a list of objects")
    return cast("list[JSONObject]", checked)


def _text_or_object(value: object) -> str | JSONObject:
    checked = _json(value)
    if not isinstance(checked, str | dict):
        raise ValueError("Input should be text or an object")
    return checked


Text = Annotated[str, PlainValidator(_text, json_schema_input_type=str)]
Name = Annotated[str, PlainValidator(_named, json_schema_input_type=str)]
Json = Annotated[JSONValue, PlainValidator(_json, json_schema_input_type=object)]
Object = Annotated[JSONObject, PlainValidator(_object, json_schema_input_type=dict[str, object])]
Objects = Annotated[list[JSONObject], PlainValidator(_objects, json_schema_input_type=list[dict[str, object]])]
TextOrObject = Annotated[
    str | JSONObject, PlainValidator(_text_or_object, json_schema_input_type=str | dict[str, object])
]
