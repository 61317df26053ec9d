"""JSON Schemas as tools and structured answers give them: whether they are any, and what is inside.

What one vendor makes of a schema is its adapter's part; values are not validated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads

if TYPE_CHECKING:
    from referencing._core import Resolver  # pyright: ignore[reportPrivateUsage]  # it has no public name

_ONE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_SEVERAL = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_DEFINITIONS = frozenset({"$defs", "definitions"})
_BY_NAME = frozenset({"dependentSchemas", "patternProperties", "properties"}) | _DEFINITIONS
_REFERENCES = ("$ref", "$dynamicRef")
_PLAIN_STEP = re.compile(r"[\w$-]+")
_MAX_SHOWN = 200
_CHECKED_SCHEMAS = 512


def check_schema(schema: JSONObject, what: str) -> None:
    """Returns if the schema is a JSON Schema 2020-12 whose local references all lead somewhere.

    Regular expressions are not looked at, since each vendor has its own dialect; nothing is ever fetched. What was
    checked once costs microseconds afterwards.

    Args:
        schema: the schema.
        what: what it belongs to, as "tool 'search'"; the error begins with it.

    Raises:
        InvalidInput: it is none; the message names the JSON path.
    """
    try:
        problem = _problem(dumps(schema))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what}: the schema must be JSON: {error}") from error
    except RecursionError as error:
        raise InvalidInput(f"{what}: the schema is nested too deeply") from error
    if problem is not None:
        raise InvalidInput(f"{what}: {problem}")


def walk(schema: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    """Yields every subschema with its JSON path, as `$.properties.name`: the schema itself first, definitions too.

    References are not followed, so each place comes once. True and false as schemas are left out.
    """
    waiting: list[tuple[str, JSONObject]] = [("$", schema)]
    while waiting:
        path, current = waiting.pop()
        yield path, current
        waiting.extend(reversed([(path + step, inner) for _, step, inner in _children(current)]))


def references(schema: JSONObject) -> Iterator[tuple[str, str]]:
    """Yields each reference with the JSON path of the subschema that holds it, as ("$.items", "#/$defs/Node")."""
    for path, subschema in walk(schema):
        for ref in _own_references(subschema):
            yield path, ref


def is_recursive(schema: JSONObject) -> bool:
    """Returns whether a subschema leads back to itself, so that it cannot be written out without references.

    References that lead nowhere or out of the schema are taken for ends.
    """
    if next(references(schema), None) is None:
        return False
    resolver = _resolver(schema)
    finished: set[int] = set()
    return any(_reaches_itself(subschema, resolver, finished) for _, subschema in walk(schema))


def _reaches_itself(start: JSONObject, resolver: Resolver[Any], finished: set[int]) -> bool:
    """Returns whether a cycle is below `start`; what was looked at whole is added to `finished`."""
    above: set[int] = set()
    waiting: list[tuple[JSONObject, bool]] = [(start, False)]
    while waiting:
        current, leaving = waiting.pop()
        if leaving:
            above.discard(id(current))
            finished.add(id(current))
        elif id(current) in above:
            return True
        elif id(current) not in finished:
            above.add(id(current))
            waiting.append((current, True))
            waiting.extend((inner, False) for inner in _applied(current, resolver))
    return False


def _applied(schema: JSONObject, resolver: Resolver[Any]) -> Iterator[JSONObject]:
    """Yields what a value must also fit: subschemas and the targets of references, but no mere definitions."""
    for keyword, _, inner in _children(schema):
        if keyword not in _DEFINITIONS:
            yield inner
    for ref in _own_references(schema):
        target = _look_up(resolver, ref)
        if isinstance(target, dict):
            yield target


def _children(schema: JSONObject) -> Iterator[tuple[str, str, JSONObject]]:
    """Yields keyword, step of the JSON path and subschema, in the schema's order."""
    for keyword, value in schema.items():
        if isinstance(value, dict):
            if keyword in _ONE:
                yield keyword, f".{keyword}", value
            elif keyword in _BY_NAME:
                for name, inner in value.items():
                    if isinstance(inner, dict):
                        yield keyword, f".{keyword}{_step(name)}", inner
        elif isinstance(value, list) and keyword in _SEVERAL:
            for index, inner in enumerate(value):
                if isinstance(inner, dict):
                    yield keyword, f".{keyword}[{index}]", inner


def _own_references(schema: JSONObject) -> list[str]:
    return [ref for ref in (schema.get(keyword) for keyword in _REFERENCES) if isinstance(ref, str)]


@lru_cache(_CHECKED_SCHEMAS)
def _problem(data: bytes) -> str | None:
    """Returns what is wrong with the schema of these bytes, or None."""
    from jsonschema import Draft202012Validator, FormatChecker, SchemaError  # slow to import, not always needed

    schema = loads(data)
    if not isinstance(schema, dict):
        return "a schema must be a JSON object"
    try:
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(formats=()))
    except SchemaError as error:
        return f"no JSON Schema: at {_path(error.absolute_path)}: {_short(error.message)}"
    return next(_unresolved(schema), None)


def _unresolved(schema: JSONObject) -> Iterator[str]:
    resolver = _resolver(schema)
    for path, ref in references(schema):
        if ref.startswith("#") and not isinstance(_look_up(resolver, ref), dict | bool):
            yield f"no JSON Schema: at {path}: $ref {_short(ref)!r} leads nowhere"


def _resolver(schema: JSONObject) -> Resolver[Any]:
    from referencing import Registry  # slow to import, not always needed
    from referencing.jsonschema import DRAFT202012

    resource = DRAFT202012.create_resource(cast(Any, schema))
    registry: Registry[Any] = cast(Any, Registry)()
    return registry.with_resource(resource.id() or "", resource).resolver_with_root(resource)


def _look_up(resolver: Resolver[Any], ref: str) -> JSONValue:
    from referencing.exceptions import Unresolvable

    try:
        return cast(JSONValue, resolver.lookup(ref).contents)
    except (Unresolvable, LookupError, TypeError, ValueError):  # the last three: a pointer into something unfit
        return None


def _path(steps: object) -> str:
    parts = cast("Iterator[str | int]", steps)
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else _step(step) for step in parts)


def _step(name: str) -> str:
    return f".{name}" if _PLAIN_STEP.fullmatch(name) else f"[{name!r}]"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
