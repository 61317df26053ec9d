"""What OpenAI refuses in JSON Schemas: in any of them, and in those that it enforces ("strict").

Schemas are only looked at, never changed. Source: OpenAI, Structured Outputs, supported schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perdure.upp.json_schema import walk
from perdure.upp.json_value import JSONObject, JSONValue

_COMBINATORS = ("oneOf", "anyOf", "allOf", "enum", "const", "not")
_ENFORCED = frozenset(
    {
        "$defs",
        "$ref",
        "$schema",
        "additionalProperties",
        "anyOf",
        "const",
        "default",
        "definitions",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "multipleOf",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
    }
)
_FORMATS = frozenset({"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"})
_LEVEL = re.compile(r"\.properties[.\[]")
_MAX_LEVELS = 10
_MAX_PROPERTIES = 5000
_MAX_ENUM_VALUES = 1000


def root_problem(schema: JSONObject) -> str | None:
    """Returns why a schema cannot stand at the top, as path and reason; None if it can.

    The top must be an object in its own words: no reference, and no choice between several.
    """
    if schema.get("type") != "object":
        return '$: the top must have "type": "object"'
    found = next((keyword for keyword in _COMBINATORS if keyword in schema), None)
    return None if found is None else f"$: {found!r} cannot stand at the top; put it below a property"


def function_problem(schema: JSONObject) -> str | None:
    """Returns why OpenAI would refuse a tool's schema even unenforced, as path and reason; None if it would not."""
    problem = root_problem(schema)
    if problem is not None:
        return problem
    if not isinstance(schema.get("properties"), dict):
        return '$: an object needs "properties"; say {} for none'
    return next((f'{path}: an array needs "items"' for path, inner in walk(schema) if _is_open_array(inner)), None)


def strict_problem(schema: JSONObject) -> str | None:
    """Returns why OpenAI cannot enforce a schema, as path and reason; None if it can.

    Enforced schemas know no optional properties: what may be missing must be required and nullable.
    """
    return root_problem(schema) or next(_strict_problems(schema), None)


def _strict_problems(schema: JSONObject) -> Iterator[str]:
    properties = values = 0
    for path, inner in walk(schema):
        problem = _own_problem(inner)
        if problem is not None:
            yield f"{path}: {problem}"
        properties += _size(inner.get("properties"))
        values += _size(inner.get("enum"))
        if len(_LEVEL.findall(path)) > _MAX_LEVELS:
            yield f"{path}: more than {_MAX_LEVELS} levels of objects"
    if properties > _MAX_PROPERTIES or values > _MAX_ENUM_VALUES:
        yield f"$: more than {_MAX_PROPERTIES} properties or {_MAX_ENUM_VALUES} enum values"


def _own_problem(schema: JSONObject) -> str | None:
    unknown = next((keyword for keyword in schema if keyword not in _ENFORCED), None)
    if unknown is not None:
        return f"{unknown!r} is not enforced"
    if "$ref" in schema and len(schema.keys() - {"$defs", "definitions", "$schema"}) > 1:
        return "'$ref' must stand alone"
    if schema.get("format", "date") not in _FORMATS:
        return f"the format {schema['format']!r} is not enforced"
    if _is_open_array(schema):
        return 'an array needs "items"'
    return _object_problem(schema) if _has_type(schema, "object") or "properties" in schema else None


def _object_problem(schema: JSONObject) -> str | None:
    if schema.get("additionalProperties") is not False:
        return 'an object needs "additionalProperties": false'
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return 'an object needs "properties"; say {} for none'
    listed = required if isinstance(required, list) else []
    missing = next((name for name in properties if name not in listed), None)
    return None if missing is None else f"the property {missing!r} must be required; make it nullable instead"


def _is_open_array(schema: JSONObject) -> bool:
    return _has_type(schema, "array") and not isinstance(schema.get("items"), dict)


def _has_type(schema: JSONObject, name: str) -> bool:
    given = schema.get("type")
    return given == name or (isinstance(given, list) and name in given)


def _size(value: JSONValue) -> int:
    return len(value) if isinstance(value, dict | list) else 0
