from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.messages import UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.openai_responses import OPENAI, Dialect, ResponsesModel
from perdure.upp.providers.openai_responses.request import build_body
from perdure.upp.tools import Tool

LENIENT = replace(OPENAI, provider="elsewhere", checks_open_schemas=False)


def holding(property_schema: JSONObject, **more: Any) -> JSONObject:
    return {"type": "object", "properties": {"value": property_schema}, **more}


NODE: JSONObject = {
    "type": "object",
    "properties": {"value": {"type": "string"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
}
PAIR: JSONObject = {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}]}

ACCEPTED: dict[str, JSONObject] = {
    "recursion": holding({"$ref": "#/$defs/node"}, **{"$defs": {"node": NODE}}),
    "definitions": holding({"$ref": "#/$defs/name"}, **{"$defs": {"name": {"type": "string"}}}),
    "null": holding({"anyOf": [{"type": "string"}, {"type": "null"}]}),
    "oneOf": holding({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
    "allOf": holding({"allOf": [{"type": "string"}, {"minLength": 1}]}),
    "tuple with items": holding({**PAIR, "items": {"type": "number"}}),
    "const": holding({"const": "metric"}),
    "no properties": {"type": "object", "properties": {}},
}
AT_THE_TOP: JSONObject = {
    "oneOf": [{"required": ["value"]}],
    "anyOf": [{"required": ["value"]}],
    "allOf": [{"required": ["value"]}],
    "enum": ["value"],
    "not": {"required": ["value"]},
}
REFUSED: dict[str, tuple[JSONObject, str]] = {
    "tuple": (holding(PAIR), "$.properties.value"),
    "open array": (holding({"type": "array"}), "$.properties.value"),
    "array or null": (holding({"anyOf": [{"type": ["array", "null"]}, {"type": "null"}]}), "anyOf"),
    "no properties at all": ({"type": "object"}, "properties"),
    **{name: ({**holding({"type": "string"}), name: value}, name) for name, value in AT_THE_TOP.items()},
}


def a_tool(parameters: JSONObject, *, strict: bool = False, provider: str = "openai") -> Tool:
    return Tool("f", "", parameters, run=print, metadata={provider: {"strict": True}} if strict else None)


def refused(*tools: Tool, structure: JSONObject | None = None, dialect: Dialect = OPENAI) -> str:
    with pytest.raises(UPPError) as caught:
        ResponsesModel("gpt-5", dialect).check(tools, structure)
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, dialect.provider)
    return caught.value.message


@pytest.mark.parametrize("schema", ACCEPTED.values(), ids=ACCEPTED)
def test_a_tools_schema_is_accepted_and_sent_as_it_is(schema: JSONObject) -> None:
    tool = a_tool(schema)
    ResponsesModel("gpt-5", OPENAI).check([tool], None)
    body: Any = build_body(LLMRequest([UserMessage("Hi")], tools=[tool]), "gpt-5", OPENAI, stream=False)
    assert dumps(body["tools"][0]["parameters"]) == dumps(schema)


@pytest.mark.parametrize(("schema", "where"), REFUSED.values(), ids=REFUSED)
def test_a_tools_schema_that_the_vendor_refuses_is_refused_here(schema: JSONObject, where: str) -> None:
    message = refused(a_tool(schema))
    assert "'f'" in message
    assert where in message


@pytest.mark.parametrize("schema", [holding(PAIR), {"type": "object"}])
def test_a_service_that_takes_open_schemas_gets_them(schema: JSONObject) -> None:
    ResponsesModel("any", LENIENT).check([a_tool(schema)], None)


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        (holding({"type": "string"}), "additionalProperties"),
        (holding({"type": "string"}, additionalProperties=False), "'value'"),
        (holding({"oneOf": [{"type": "string"}]}, additionalProperties=False, required=["value"]), "oneOf"),
    ],
)
def test_a_strict_tool_that_cannot_be_strict_is_refused(schema: JSONObject, where: str) -> None:
    message = refused(a_tool(schema, strict=True))
    assert where in message
    assert "strict" in message


def test_a_strict_tool_that_can_be_strict_is_accepted() -> None:
    schema = holding({"type": "string"}, additionalProperties=False, required=["value"])
    ResponsesModel("gpt-5", OPENAI).check([a_tool(schema, strict=True)], None)


def test_what_another_provider_is_told_of_a_tool_is_not_looked_at() -> None:
    ResponsesModel("gpt-5", OPENAI).check([a_tool(holding({"type": "string"}), strict=True, provider="other")], None)


def test_two_tools_of_one_name_are_refused() -> None:
    assert "'f'" in refused(a_tool(ACCEPTED["const"]), a_tool(ACCEPTED["null"]))


def test_a_tools_name_that_the_vendor_refuses_is_refused_here() -> None:
    tool = a_tool(ACCEPTED["const"])
    object.__setattr__(tool, "name", "get weather")
    assert "get weather" in refused(tool)


@pytest.mark.parametrize("schema", [{"type": "array", "items": {}}, {"anyOf": [{"type": "object"}]}])
def test_a_structure_that_is_no_object_is_refused(schema: JSONObject) -> None:
    assert "structure" in refused(structure=schema)


@pytest.mark.parametrize("schema", ACCEPTED.values(), ids=ACCEPTED)
def test_a_structure_is_accepted_whether_or_not_it_can_be_enforced(schema: JSONObject) -> None:
    ResponsesModel("gpt-5", OPENAI).check([], schema)
