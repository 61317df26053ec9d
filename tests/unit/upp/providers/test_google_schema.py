"""JSON Schemas that Gemini takes, and those that are refused before they are sent."""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.messages import UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.google.model import GoogleModel
from perdure.upp.providers.google.request import build_body
from perdure.upp.tools import Tool

MODEL = GoogleModel("gemini-3-pro-preview")


def tool(schema: JSONObject, name: str = "t") -> Tool:
    return Tool(name, "d", schema, run=str)


Schema: TypeAlias = "dict[str, Any]"


def properties(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties}


NODE: Schema = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}},
    "required": ["value"],
}
TREE: Schema = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}

ACCEPTED: dict[str, Schema] = {
    "no properties": properties(),
    "nothing but the type": {"type": "object"},
    "recursion through an optional property": properties(first={"$ref": "#/$defs/Node"}) | {"$defs": {"Node": NODE}},
    "recursion to the whole": TREE,
    "definitions": properties(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": {"type": "string"}}},
    "escaped definition": properties(a={"$ref": "#/$defs/A~1b%20c"}) | {"$defs": {"A/b c": {"type": "string"}}},
    "an unused recursive definition": properties() | {"$defs": {"A": {"type": "object"}}},
    "anyOf with null": properties(a={"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}),
    "type list": properties(a={"type": ["string", "null"]}),
    "oneOf": properties(a={"oneOf": [{"type": "string"}, {"type": "integer"}]}),
    "prefixItems": properties(a={"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}),
    "enum": properties(a={"enum": ["x", 1, 2.5]}),
    "narrowing": properties(a={"type": "string", "pattern": "^a", "minLength": 1, "maxLength": 9, "format": "uri"}),
    "annotations": properties(a={"type": "string", "title": "A", "examples": ["x"], "description": "d"}),
    "a property called const": properties(const={"type": "string"}, allOf={"type": "integer"}),
    "a closed object": properties(a={"type": "string"}) | {"additionalProperties": False, "required": ["a"]},
    "a map": properties(a={"type": "object", "additionalProperties": {"type": "integer"}}),
}

REFUSED: list[tuple[Schema, str, str]] = [
    (properties(a={"const": "x"}), "$.properties.a.const", "`enum`"),
    (properties(a={"allOf": [{"type": "string"}]}), "$.properties.a.allOf", "as one"),
    (properties(a={"anyOf": [{"not": {}}]}), "$.properties.a.anyOf[0].not", "description"),
    (properties() | {"allOf": [{"required": ["a"]}]}, "$.allOf", "as one"),
    (properties() | {"patternProperties": {}}, "$.patternProperties", "additionalProperties"),
    (properties(a={"$ref": "#/definitions/A"}) | {"definitions": {"A": {}}}, "$.definitions", "$defs"),
    (properties() | {"$defs": {"A": {"if": {}}}}, "$.$defs.A.if", "anyOf"),
    (properties(a={"type": "array", "items": {"enum": ["x", None]}}), "$.properties.a.items.enum[1]", "anyOf"),
    (properties(a={"enum": [True]}), "$.properties.a.enum[0]", "anyOf"),
    (
        properties(a={"$ref": "#/$defs/A", "description": "d"}) | {"$defs": {"A": {}}},
        "$.properties.a.description",
        "anyOf",
    ),
    (properties(a={"$ref": "https://example.com/a.json"}), "$.properties.a.$ref", "outside"),
    (properties(a={"prefixItems": [{"additionalProperties": {"const": 1}}]}), "[0].additionalProperties.const", "enum"),
    (
        properties(a={"$ref": "#/$defs/Node"}) | {"$defs": {"Node": NODE | {"required": ["next"]}}},
        "#/$defs/Node",
        "optional",
    ),
    (TREE | {"required": ["children"]}, "#", "optional"),
    (
        properties(a={"$ref": "#/$defs/A"})
        | {
            "$defs": {
                "A": properties(b={"$ref": "#/$defs/B"}) | {"required": ["b"]},
                "B": properties(a={"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}) | {"required": ["a"]},
            }
        },
        "#/$defs/A",
        "nullable is not enough",
    ),
]


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_schema_that_gemini_takes_is_sent_as_it_is(name: str) -> None:
    schema = ACCEPTED[name]
    before = dumps(copy.deepcopy(schema))
    MODEL.check([tool(schema)], schema)
    request = LLMRequest([UserMessage("hi")], tools=[tool(schema)], structure=schema)
    match build_body(request, MODEL.model_id):
        case {
            "tools": [{"functionDeclarations": [{"parametersJsonSchema": dict(sent)}]}],
            "generationConfig": {"responseJsonSchema": dict(structure)},
        }:
            assert dumps(sent) == dumps(structure) == before
        case other:
            pytest.fail(str(other))


@pytest.mark.parametrize(("schema", "path", "remedy"), REFUSED)
def test_a_schema_that_gemini_does_not_follow_is_refused(schema: JSONObject, path: str, remedy: str) -> None:
    for tools, structure, whose in (([tool(schema)], None, "tool 't'"), ([], schema, "structured answer")):
        with pytest.raises(UPPError) as caught:
            MODEL.check(tools, structure)
        assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "google")
        assert path in caught.value.message
        assert remedy in caught.value.message
        assert whose in caught.value.message


@pytest.mark.parametrize("schema", [{"type": "nothing"}, {"$ref": "#/$defs/A"}, {"items": [{"type": "string"}]}])
def test_a_structure_that_is_no_schema_is_refused(schema: JSONObject) -> None:
    with pytest.raises(UPPError, match="no JSON Schema") as caught:
        MODEL.check([], schema)
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "google")


@pytest.mark.parametrize("name", ["1st", "-a"])
def test_a_name_that_begins_with_another_character_is_refused(name: str) -> None:
    with pytest.raises(UPPError, match=f"tool '{name}'"):
        MODEL.check([tool(properties(), name)], None)


@pytest.mark.parametrize("name", ["_x", "a-b", "A1"])
def test_other_names_are_accepted(name: str) -> None:
    MODEL.check([tool(properties(), name)], None)


def test_tools_with_a_structure_need_gemini_3() -> None:
    old = GoogleModel("gemini-2.5-pro")
    old.check([tool(properties())], None)
    old.check([], properties())
    with pytest.raises(UPPError, match="not both"):
        old.check([tool(properties())], properties())
