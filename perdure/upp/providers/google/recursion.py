"""Whether a JSON Schema's references go round other than through optional properties, which Gemini cannot unroll."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from perdure.upp.json_schema import references
from perdure.upp.json_value import JSONObject, JSONValue


def endless_reference(root: JSONObject) -> str | None:
    """Returns the pointer of a definition that holds itself other than in optional properties, or None."""
    pointers = [ref for _, ref in references(root) if _is_pointer(ref)]
    targets = {pointer: _resolve(root, pointer) for pointer in ["#", *pointers]}
    edges = {pointer: list(_forced(schema)) for pointer, schema in targets.items()}
    done: dict[str, bool] = {}
    return next((found for pointer in edges if (found := _cycle(pointer, edges, done)) is not None), None)


def _cycle(pointer: str, edges: Mapping[str, list[str]], done: dict[str, bool]) -> str | None:
    """Returns a pointer that leads back to itself; `done` says False of those above in the search."""
    if pointer in done:
        return None if done[pointer] else pointer
    done[pointer] = False
    below = (_cycle(inner, edges, done) for inner in edges.get(pointer, ()))
    found = next((each for each in below if each is not None), None)
    done[pointer] = True
    return found


def _forced(schema: JSONValue) -> Iterator[str]:
    """Yields the pointers that the schema reaches without an optional property."""
    if not isinstance(schema, dict):
        return
    ref = schema.get("$ref")
    if isinstance(ref, str) and _is_pointer(ref):
        yield ref
    for inner in _forced_schemas(schema):
        yield from _forced(inner)


def _forced_schemas(schema: JSONObject) -> Iterator[JSONValue]:
    required, properties = schema.get("required"), schema.get("properties")
    names = required if isinstance(required, list) else []
    if isinstance(properties, dict):
        yield from (inner for name, inner in properties.items() if name in names)
    yield from (schema.get(keyword) for keyword in ("items", "additionalProperties"))
    for keyword in ("prefixItems", "anyOf", "oneOf"):
        several = schema.get(keyword)
        yield from several if isinstance(several, list) else ()


def _is_pointer(ref: str) -> bool:
    return ref == "#" or ref.startswith("#/")


def _resolve(root: JSONObject, pointer: str) -> JSONValue:
    found: JSONValue = root
    for step in unquote(pointer).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        match found:
            case list() if name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            case dict():
                found = found.get(name)
            case _:
                return None
    return found
