"""Typed reading of one field of a JSON object that came from outside.

Every function takes the object, the field's name and `what` is being read, and raises `UPPError` INVALID_REQUEST
that names all three when the field has another type. Fields that nobody asks for are ignored.
"""

from __future__ import annotations

import base64
import binascii

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue


def invalid(what: str, problem: str) -> UPPError:
    """Returns the error for JSON that cannot be read as `what`."""
    return UPPError(f"{what}: {problem}", ErrorCode.INVALID_REQUEST)


def read_object(value: JSONValue, what: str) -> JSONObject:
    """Returns the value itself, known to be an object."""
    if not isinstance(value, dict):
        raise invalid(what, f"expected a JSON object, got {_kind(value)}")
    return value


def read_str(source: JSONObject, field: str, what: str) -> str:
    """Returns a required string."""
    value = source.get(field)
    if not isinstance(value, str):
        raise _wrong(source, field, what, "a string")
    return value


def read_optional_str(source: JSONObject, field: str, what: str) -> str | None:
    """Returns a string, or None if the field is absent or null."""
    return None if source.get(field) is None else read_str(source, field, what)


def read_optional_int(source: JSONObject, field: str, what: str) -> int | None:
    """Returns an integer, or None if the field is absent or null."""
    value = source.get(field)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise _wrong(source, field, what, "an integer")
    return value


def read_int(source: JSONObject, field: str, what: str, default: int) -> int:
    """Returns an integer, or the default if the field is absent or null."""
    value = read_optional_int(source, field, what)
    return default if value is None else value


def read_optional_number(source: JSONObject, field: str, what: str) -> float | None:
    """Returns a number (an int stays an int), or None if the field is absent or null."""
    value = source.get(field)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise _wrong(source, field, what, "a number")
    return value


def read_optional_bool(source: JSONObject, field: str, what: str) -> bool | None:
    """Returns a boolean, or None if the field is absent or null."""
    value = source.get(field)
    if value is not None and not isinstance(value, bool):
        raise _wrong(source, field, what, "a boolean")
    return value


def read_list(source: JSONObject, field: str, what: str) -> list[JSONValue]:
    """Returns a list; empty if the field is absent or null."""
    value = source.get(field)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(source, field, what, "a list")
    return value


def read_optional_object(source: JSONObject, field: str, what: str) -> JSONObject | None:
    """Returns an object, or None if the field is absent or null."""
    value = source.get(field)
    if value is not None and not isinstance(value, dict):
        raise _wrong(source, field, what, "an object")
    return value


def read_bytes(source: JSONObject, field: str, what: str) -> bytes:
    """Returns the bytes of a required base64 string."""
    text = read_str(source, field, what)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(what, f"field '{field}' is not base64: {error}") from error


def _wrong(source: JSONObject, field: str, what: str, expected: str) -> UPPError:
    found = f"got {_kind(source[field])}" if field in source else "it is missing"
    return invalid(what, f"field '{field}' must be {expected}, {found}")


def _kind(value: JSONValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a string"
        case _:
            return "a number"
