"""JSON Schemas of tools and structured answers."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.upp.json_schema import check_schema, is_recursive, references, walk
from perdure.upp.json_value import JSONObject

NODE: JSONObject = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "$defs": {"Node": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {}]}}}},
}


VALID: list[JSONObject] = [
    {},
    NODE,
    {"$ref": "#/$defs/any", "$defs": {"any": True}},
    {"$ref": "#name", "$defs": {"a": {"$anchor": "name"}}},
    {"$id": "https://example.org/a", "$ref": "#/$defs/b", "$defs": {"b": {}}},
    {"properties": {"a/b": {"type": "string"}, "c": {"$ref": "#/properties/a~1b"}}},
    {"items": {"$ref": "https://example.org/elsewhere"}},
    {"pattern": r"^\p{L}+$"},
    {"prefixItems": [{"const": 1}, True], "oneOf": [{}], "allOf": [{}], "x-own": [1]},
]


@pytest.mark.parametrize("schema", VALID, ids=str)
def test_a_schema_is_accepted(schema: JSONObject) -> None:
    check_schema(schema, "tool 'x'")


INVALID: list[tuple[Any, str]] = [
    ({"type": "objct"}, r"tool 'x': no JSON Schema: at \$\.type: 'objct'"),
    ({"properties": {"a b": {"minimum": "1"}}}, r"at \$\.properties\['a b'\]\.minimum: "),
    ({"anyOf": [{}, {"required": [1]}]}, r"at \$\.anyOf\[1\]\.required\[0\]: "),
    ({"items": [{"type": "string"}]}, r"at \$\.items: "),
    (
        {"items": {"$ref": "#/$defs/Nod"}, "$defs": {"Node": {}}},
        r"at \$\.items: \$ref '#/\$defs/Nod' leads nowhere",
    ),
    ({"$ref": "#/type", "type": "object"}, "leads nowhere"),
    ({"$ref": "#/allOf/x", "allOf": [{}]}, "leads nowhere"),
    ({"$ref": "#nobody"}, "leads nowhere"),
    ({"default": {1}}, "the schema must be JSON"),
    ([], "a schema must be a JSON object"),
]


@pytest.mark.parametrize(("schema", "message"), INVALID, ids=str)
def test_what_is_no_schema_is_refused_with_its_path(schema: JSONObject, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_schema(schema, "tool 'x'")


def test_a_refusal_comes_again() -> None:
    """What is kept of a check is its outcome, good or bad."""
    for _ in range(2):
        with pytest.raises(InvalidInput, match="'objct'"):
            check_schema({"type": "objct"}, "structure")


def test_a_schema_that_is_changed_is_checked_anew() -> None:
    schema: JSONObject = {"type": "object"}
    check_schema(schema, "structure")
    schema["type"] = "objct"
    with pytest.raises(InvalidInput, match="'objct'"):
        check_schema(schema, "structure")


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_a_schema_that_is_too_deep_is_refused(depth: int) -> None:
    """It is the caller's error and no RecursionError."""
    schema: JSONObject = {}
    for _ in range(depth):
        schema = {"not": schema}
    with pytest.raises(InvalidInput, match="nested too deeply"):
        check_schema(schema, "tool 'x'")


def test_walking_yields_each_place_once_in_order() -> None:
    """Definitions come where they stand; references are not followed."""
    assert [path for path, _ in walk(NODE)] == [
        "$",
        "$.properties.root",
        "$.$defs.Node",
        "$.$defs.Node.properties.next",
        "$.$defs.Node.properties.next.anyOf[0]",
        "$.$defs.Node.properties.next.anyOf[1]",
    ]


def test_walking_goes_into_every_keyword_that_holds_schemas() -> None:
    one = ["additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"]
    one += ["unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems"]
    several = ["allOf", "anyOf", "oneOf", "prefixItems"]
    named = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"]
    schema: JSONObject = {
        **{keyword: {} for keyword in one},
        **{keyword: [{}, True] for keyword in several},
        **{keyword: {"a": {}, "b": False} for keyword in named},
    }
    expected = [f"$.{keyword}" for keyword in one]
    expected += [f"$.{keyword}[0]" for keyword in several]
    expected += [f"$.{keyword}.a" for keyword in named]
    assert [path for path, _ in walk(schema)] == ["$", *expected]


def test_values_are_not_taken_for_schemas() -> None:
    """What stands in const, enum, default and examples is data, even if it looks like a schema."""
    data: JSONObject = {"$ref": "#/nowhere", "items": {}}
    schema: JSONObject = {"const": data, "enum": [data], "default": data, "examples": [data]}
    assert list(walk(schema)) == [("$", schema)]
    check_schema(schema, "tool 'x'")


def test_references_come_with_their_places() -> None:
    assert list(references(NODE)) == [
        ("$.properties.root", "#/$defs/Node"),
        ("$.$defs.Node.properties.next.anyOf[0]", "#/$defs/Node"),
    ]


@pytest.mark.parametrize(
    "schema",
    [
        NODE,
        {"properties": {"children": {"items": {"$ref": "#"}}}},
        {"$ref": "#"},
        {"$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"not": {"$ref": "#/$defs/A"}}}},
        {"$defs": {"A": {"$anchor": "a", "items": {"$ref": "#a"}}}},
        {"$id": "https://example.org/s", "items": {"$ref": "https://example.org/s"}},
        {"items": {"$dynamicRef": "#"}},
    ],
    ids=str,
)
def test_what_leads_back_to_itself_is_recursive(schema: JSONObject) -> None:
    assert is_recursive(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
        {"$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {}}, "$ref": "#/$defs/A"},
        {"$ref": "#/$defs/A", "$defs": {"A": True}},
        {"items": {"$ref": "https://example.org/elsewhere"}},
        {"items": {"$ref": "#/nowhere"}},
    ],
    ids=str,
)
def test_what_ends_is_not_recursive(schema: JSONObject) -> None:
    """Neither two uses of a definition nor references that lead nowhere are recursion."""
    assert not is_recursive(schema)


def test_importing_the_module_does_not_import_the_library() -> None:
    """A program that checks no schema does not wait for it."""
    code = "import sys, perdure.upp.json_schema; print('jsonschema' in sys.modules, 'referencing' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "False"]
