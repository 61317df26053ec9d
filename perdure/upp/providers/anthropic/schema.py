"""Which schemas and names the Messages API takes: looked at when an agent is defined, and never changed to fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.providers._answer import refuse
from perdure.upp.tools import Tool

PROVIDER = "anthropic"

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMBINATORS = ("oneOf", "anyOf", "allOf")

_KEYWORDS = frozenset(
    {"type", "title", "description", "default", "enum", "const", "format", "pattern", "anyOf", "allOf", "items"}
    | {"minItems", "properties", "required", "additionalProperties", "$ref", "$defs", "definitions"}
)
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"},
)
_HARD_PATTERN = re.compile(r"\(\?|\\[bB1-9]|\{")
_LOCAL_REF = re.compile(r"#/(\$defs|definitions)/[^/]+")
_MOST_OPTIONAL = 24
_MOST_UNIONS = 16


def check_tools(tools: Sequence[Tool]) -> None:
    """Looks at the names and schemas of tools; nested schemas may use every keyword, also recursion.

    Raises:
        UPPError: INVALID_REQUEST if the vendor would refuse one of them, and with it every request.
    """
    for tool in tools:
        if _TOOL_NAME.fullmatch(tool.name) is None:
            raise refuse(f"tool name {tool.name!r} must be 1 to 128 letters, digits, '_' or '-'", PROVIDER)
        problem = why_no_input_schema(tool.parameters)
        if problem is not None:
            raise refuse(f"tool '{tool.name}': {problem}", PROVIDER)


def why_no_input_schema(schema: JSONObject) -> str | None:
    """Returns why the vendor refuses a schema for a tool's input, with the remedy; None if it takes it.

    The vendor looks at the top level only.
    """
    if schema.get("type") != "object":
        return '$.type must be "object"; put the schema below a property'
    for keyword in _COMBINATORS:
        if keyword in schema:
            return f"$.{keyword}: the vendor takes no oneOf, anyOf or allOf at the top level; put it below a property"
    properties = schema.get("properties")
    for name in properties if isinstance(properties, dict) else ():
        if _PROPERTY.fullmatch(name) is None:
            return f"$.properties: {name!r} must be 1 to 64 letters, digits, '_', '.' or '-'; rename it"
    return None


def why_no_output_format(schema: JSONObject) -> str | None:
    """Returns the first thing in a schema that the vendor's own structured output does not take; None if it takes all.

    It enforces schemas while the model writes, and so takes few keywords, no recursion and closed objects only.
    """
    problem = next(_misfits(schema, "$"), None) or _circular(schema)
    if problem is not None:
        return problem
    optional, unions = _count(schema)
    if optional > _MOST_OPTIONAL:
        return f"{optional} optional properties are more than {_MOST_OPTIONAL}"
    return f"{unions} unions are more than {_MOST_UNIONS}" if unions > _MOST_UNIONS else None


def _misfits(schema: JSONValue, path: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"{path} is not a schema object"
        return
    yield from (f"{path}.{keyword} is not supported" for keyword in schema if keyword not in _KEYWORDS)
    yield from (f"{path}.{keyword} has a value that is not supported" for keyword in _wrong_values(schema))
    if not schema.keys() & {"type", "enum", "const", "anyOf", "allOf", "$ref"}:
        yield f"{path} has no type"
    if _is_object(schema) and schema.get("additionalProperties") is not False:
        yield f"{path}.additionalProperties must be false"
    for step, child in _children(schema):
        yield from _misfits(child, f"{path}.{step}")


def _wrong_values(schema: JSONObject) -> Iterator[str]:
    for keyword, value in schema.items():
        match keyword, value:
            case ("enum", list()) if any(isinstance(item, dict | list) for item in value):
                yield keyword
            case ("const", dict() | list()):
                yield keyword
            case ("minItems", _) if value not in (0, 1):
                yield keyword
            case ("format", _) if value not in _FORMATS:
                yield keyword
            case ("pattern", str()) if _HARD_PATTERN.search(value):
                yield keyword
            case ("allOf", list()) if any(isinstance(item, dict) and "$ref" in item for item in value):
                yield keyword
            case ("$ref", _) if not isinstance(value, str) or _LOCAL_REF.fullmatch(value) is None:
                yield keyword
            case _:
                continue


def _children(schema: JSONObject) -> Iterator[tuple[str, JSONValue]]:
    for keyword in ("properties", "$defs", "definitions"):
        named = schema.get(keyword)
        if isinstance(named, dict):
            yield from ((f"{keyword}.{name}", child) for name, child in named.items())
    for keyword in ("anyOf", "allOf"):
        listed = schema.get(keyword)
        if isinstance(listed, list):
            yield from ((f"{keyword}[{index}]", child) for index, child in enumerate(listed))
    if "items" in schema:
        yield "items", schema["items"]


def _is_object(schema: JSONObject) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema


def _circular(root: JSONObject) -> str | None:
    inner: dict[str, set[str]] = {}
    for keyword in ("$defs", "definitions"):
        definitions = root.get(keyword)
        if isinstance(definitions, dict):
            inner |= {f"#/{keyword}/{name}": set(_refs(schema)) for name, schema in definitions.items()}
    for pointer in inner:
        reached, waiting = set[str](), list(inner[pointer])
        while waiting:
            ref = waiting.pop()
            if ref == pointer:
                return f"{pointer} is recursive"
            if ref not in reached:
                reached.add(ref)
                waiting += inner.get(ref, ())
    return None


def _refs(schema: JSONValue) -> Iterator[str]:
    if isinstance(schema, dict):
        ref = schema.get("$ref")
        if isinstance(ref, str):
            yield ref
        for _, child in _children(schema):
            yield from _refs(child)


def _count(schema: JSONValue) -> tuple[int, int]:
    """Returns how many properties may be absent and how many places allow several types, in the whole schema."""
    if not isinstance(schema, dict):
        return 0, 0
    properties, required = schema.get("properties"), schema.get("required")
    names = set(properties) if isinstance(properties, dict) else set[str]()
    optional = len(
        names - {name for name in required if isinstance(name, str)} if isinstance(required, list) else names
    )
    unions = int("anyOf" in schema or isinstance(schema.get("type"), list))
    for _, child in _children(schema):
        inner_optional, inner_unions = _count(child)
        optional, unions = optional + inner_optional, unions + inner_unions
    return optional, unions
