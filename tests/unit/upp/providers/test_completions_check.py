"""What is refused of tools and structures before anything is sent."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.messages import UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers._strict_schema import strict_problem
from perdure.upp.providers.openai_completions import OPENAI, CompletionsModel
from perdure.upp.providers.openai_completions.request import to_body
from perdure.upp.providers.openai_responses.request import build_body
from perdure.upp.providers.openrouter import openrouter
from perdure.upp.providers.openrouter.dialect import COMPLETIONS as OPENROUTER_COMPLETIONS
from perdure.upp.providers.openrouter.dialect import RESPONSES as OPENROUTER_RESPONSES
from perdure.upp.tools import Tool

MODEL = CompletionsModel("gpt-x", OPENAI)

TREE: JSONObject = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "required": ["root"],
    "additionalProperties": False,
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
            "required": ["next"],
            "additionalProperties": False,
        }
    },
}


ANYTHING: Any = {}


def run(arguments: object) -> None:
    """Does what these tools do: nothing."""


def under(schema: Any) -> JSONObject:
    """Returns an enforceable object with the schema below its one property."""
    return {"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": False}


def tool(parameters: JSONObject, strict: bool | None = None, name: str = "note") -> Tool:
    metadata: dict[str, JSONObject] | None = None if strict is None else {"openai": {"strict": strict}}
    return Tool(name, "", parameters, run, metadata=metadata)


ACCEPTED = [
    pytest.param(TREE, id="recursive reference and definitions"),
    pytest.param(under({"anyOf": [{"type": "string"}, {"type": "null"}]}), id="anyOf with null"),
    pytest.param(under({"oneOf": [{"type": "string"}, {"type": "integer"}]}), id="oneOf"),
    pytest.param(under({"allOf": [{"type": "object", "properties": {}}]}), id="allOf"),
    pytest.param(under({"const": "a"}), id="const"),
    pytest.param({"type": "object", "properties": {}}, id="no properties, in words"),
    pytest.param(
        under({"type": "array", "prefixItems": [{"type": "string"}], "items": {}}), id="tuple with further items"
    ),
]

REFUSED = [
    pytest.param({"type": "object"}, r'\$: an object needs "properties"', id="no properties"),
    pytest.param(
        under({"type": "array", "prefixItems": [{"type": "string"}]}),
        r'\$\.properties\.x: an array needs "items"',
        id="tuple",
    ),
    *(
        pytest.param(
            {"type": "object", "properties": {}, keyword: value},
            rf"\$: '{keyword}' cannot stand at the top; put it below a property",
            id=f"{keyword} at the top",
        )
        for keyword, value in (
            ("anyOf", [ANYTHING]),
            ("oneOf", [ANYTHING]),
            ("allOf", [ANYTHING]),
            ("enum", [ANYTHING]),
            ("not", ANYTHING),
        )
    ),
]


@pytest.mark.parametrize("schema", ACCEPTED)
def test_a_tool_that_the_vendor_takes_is_sent_unchanged(schema: JSONObject) -> None:
    before = copy.deepcopy(schema)
    MODEL.check([tool(schema)], None)
    body: Any = to_body(LLMRequest([UserMessage("hi")], tools=[tool(schema)]), "gpt-x", OPENAI, stream=False)
    assert body["tools"][0]["function"]["parameters"] == before


@pytest.mark.parametrize("api", ["completions", "responses"])
@pytest.mark.parametrize(
    "schema",
    [
        *ACCEPTED,
        pytest.param({"type": "object"}, id="no properties"),
        pytest.param(under({"type": "array", "prefixItems": [{"type": "string"}, {"const": 2}]}), id="tuple"),
    ],
)
def test_openrouter_leaves_schemas_below_the_top_to_the_vendor_behind_it(schema: JSONObject, api: Any) -> None:
    before = dumps(schema)
    openrouter("a/b", api=api).bind().check([tool(schema)], schema)
    request = LLMRequest([UserMessage("hi")], tools=[tool(schema)], structure=schema)
    if api == "completions":
        body: Any = to_body(request, "a/b", OPENROUTER_COMPLETIONS, stream=False)
        sent = [body["tools"][0]["function"]["parameters"], body["response_format"]["json_schema"]["schema"]]
    else:
        body = build_body(request, "a/b", OPENROUTER_RESPONSES, stream=False)
        sent = [body["tools"][0]["parameters"], body["text"]["format"]["schema"]]
    assert [dumps(each) for each in sent] == [before, before]


@pytest.mark.parametrize("api", ["completions", "responses"])
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf", "enum", "not"])
def test_openrouter_refuses_what_no_vendor_takes_at_the_top(keyword: str, api: Any) -> None:
    schema: JSONObject = {"type": "object", "properties": {}, keyword: {} if keyword == "not" else [{}]}
    with pytest.raises(UPPError, match=rf"tool 'note': \$: '{keyword}' cannot stand at the top") as caught:
        openrouter("a/b", api=api).bind().check([tool(schema)], None)
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "openrouter")


@pytest.mark.parametrize(("schema", "words"), REFUSED)
def test_a_tool_that_the_vendor_refuses_is_refused_by_name_path_and_remedy(schema: JSONObject, words: str) -> None:
    with pytest.raises(UPPError, match="tool 'note': " + words) as caught:
        MODEL.check([tool(schema)], None)
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "openai")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UPPError, match="two tools 'note'"):
        MODEL.check([tool(under({})), tool(under({}))], None)


@pytest.mark.parametrize("schema", [{"type": "array", "items": {}}, {"$ref": "#/$defs/X", "$defs": {"X": {}}}])
def test_a_structure_that_is_no_object_is_refused(schema: JSONObject) -> None:
    with pytest.raises(UPPError, match=r'structure: \$: the top must have "type": "object"'):
        MODEL.check([], schema)


def test_a_structure_need_not_be_enforceable() -> None:
    MODEL.check([], {"type": "object", "properties": {"x": {"type": "string"}}})


def test_a_strict_tool_must_be_enforceable() -> None:
    loose: JSONObject = {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": False}
    with pytest.raises(UPPError, match=r"tool 'note' cannot be strict: .* must be required; make it nullable"):
        MODEL.check([tool(loose, strict=True)], None)
    MODEL.check([tool(loose, strict=False)], None)
    MODEL.check([tool(TREE, strict=True)], None)


@pytest.mark.parametrize(
    "schema",
    [
        TREE,
        under({"type": ["string", "null"], "pattern": "^a", "description": "d"}),
        under({"type": "array", "items": {"type": "number", "minimum": 0}, "maxItems": 3}),
        under({"enum": ["a", "b"], "title": "X"}),
        under({"type": "string", "format": "date-time"}),
    ],
)
def test_these_schemas_are_enforceable(schema: JSONObject) -> None:
    assert strict_problem(schema) is None


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (under({"oneOf": []}), "$.properties.x: 'oneOf' is not enforced"),
        (under({"allOf": []}), "$.properties.x: 'allOf' is not enforced"),
        (under({"type": "string", "examples": ["a"]}), "$.properties.x: 'examples' is not enforced"),
        (under({"type": "string", "format": "uri"}), "$.properties.x: the format 'uri' is not enforced"),
        (under({"type": "array"}), '$.properties.x: an array needs "items"'),
        (under({"type": "object"}), '$.properties.x: an object needs "additionalProperties": false'),
        (
            under({"type": "object", "additionalProperties": False}),
            '$.properties.x: an object needs "properties"; say {} for none',
        ),
        (
            under({"type": ["object", "null"], "properties": {"y": {}}, "additionalProperties": False}),
            "$.properties.x: the property 'y' must be required; make it nullable instead",
        ),
        (
            TREE | {"properties": {"root": {"$ref": "#/$defs/Node", "description": "d"}}},
            "$.properties.root: '$ref' must stand alone",
        ),
        (under({"enum": list(range(1001))}), "$: more than 5000 properties or 1000 enum values"),
        ({"type": "array", "items": {}}, '$: the top must have "type": "object"'),
    ],
)
def test_these_schemas_are_not_enforceable(schema: JSONObject, problem: str) -> None:
    assert strict_problem(schema) == problem


def test_eleven_levels_of_objects_are_too_many() -> None:
    schema: JSONObject = {"type": "string"}
    for _ in range(10):
        schema = under(schema)
    assert strict_problem(schema) is None
    assert "levels" in (strict_problem(under(schema)) or "")
