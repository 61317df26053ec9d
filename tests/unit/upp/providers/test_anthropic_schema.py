"""Which schemas and names the Anthropic adapter takes, and how it asks for a JSON answer."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue, dumps
from perdure.upp.messages import UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.anthropic import anthropic
from perdure.upp.providers.anthropic.json_answer import read_json_answer
from perdure.upp.providers.anthropic.request import build_body
from perdure.upp.providers.anthropic.schema import why_no_output_format
from perdure.upp.tools import Tool

MODEL = "claude-sonnet-4-6"
STRING: JSONObject = {"type": "string"}
NULLABLE: JSONObject = {"type": ["string", "null"]}


def closed(required: list[JSONValue] | None = None, /, **properties: JSONValue) -> JSONObject:
    names: list[JSONValue] = [*properties] if required is None else required
    return {"type": "object", "properties": {**properties}, "required": names, "additionalProperties": False}


NODE = closed(next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})
CORPUS: dict[str, JSONObject] = {
    "no properties": {"type": "object"},
    "empty properties": {"type": "object", "properties": {}},
    "recursive $ref": {**closed(root={"$ref": "#/$defs/node"}), "$defs": {"node": NODE}},
    "$defs": {**closed(a={"$ref": "#/$defs/a"}), "$defs": {"a": closed(b=STRING)}},
    "anyOf with null": closed(a={"anyOf": [STRING, {"type": "null"}]}),
    "oneOf": closed(a={"oneOf": [STRING, {"type": "integer"}]}),
    "allOf": closed(a={"allOf": [closed(b=STRING), closed(c=STRING)]}),
    "tuple items": closed(a={"type": "array", "prefixItems": [STRING, {"type": "integer"}], "items": False}),
    "const": closed(a={"const": "x"}),
    "bounds": closed(a={"type": "integer", "minimum": 1, "maximum": 9}),
    "patternProperties": {"type": "object", "patternProperties": {"^x": STRING}},
    "not and if": {"type": "object", "not": {"required": ["a"]}, "if": {}, "then": {}},
}
ENFORCED = {"$defs", "anyOf with null", "allOf", "const"}


def tool(parameters: JSONObject, name: str = "look") -> Tool:
    return Tool(name, "Looks.", parameters, str)


def check(tools: list[Tool], structure: JSONObject | None = None, model_id: str = MODEL) -> None:
    anthropic(model_id).bind().check(tools, structure)


def body_of(**fields: Any) -> dict[str, Any]:
    request = LLMRequest([UserMessage("hi")], **fields)
    return build_body(MODEL, request, read_json_answer(MODEL, request), stream=False)


@pytest.mark.parametrize("name", CORPUS)
def test_a_tools_schema_is_accepted_and_sent_as_it_is(name: str) -> None:
    schema = copy.deepcopy(CORPUS[name])
    check([tool(schema)])
    sent = body_of(tools=[tool(schema)])["tools"][0]["input_schema"]
    assert dumps(sent) == dumps(CORPUS[name])


@pytest.mark.parametrize("name", CORPUS)
def test_a_structure_is_sent_as_it_is_one_way_or_the_other(name: str) -> None:
    schema = copy.deepcopy(CORPUS[name])
    check([], schema)
    body = body_of(structure=schema)
    enforced = "output_config" in body
    sent = body["output_config"]["format"]["schema"] if enforced else body["tools"][0]["input_schema"]
    assert dumps(sent) == dumps(CORPUS[name])
    assert enforced == (name in ENFORCED)


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf", "allOf"])
def test_a_tools_schema_with_a_combinator_at_its_top_is_refused(keyword: str) -> None:
    with pytest.raises(UPPError, match=rf"'look'.*\$\.{keyword}.*below a property") as caught:
        check([tool({"type": "object", keyword: [{"required": ["a"]}]})])
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert caught.value.provider == "anthropic"


@pytest.mark.parametrize("name", ["filter[id]", "$top", "", "a" * 65, "größe", "a b"])
def test_a_tools_property_that_the_vendor_refuses_is_refused(name: str) -> None:
    with pytest.raises(UPPError, match=r"'look'.*\$\.properties.*rename it"):
        check([tool({"type": "object", "properties": {name: STRING}})])


@pytest.mark.parametrize("name", ["a.b", "a-b_C9", "a" * 64])
def test_a_tools_property_that_the_vendor_takes_is_accepted(name: str) -> None:
    check([tool({"type": "object", "properties": {name: STRING}})])


def test_a_property_further_down_may_have_any_name() -> None:
    check([tool(closed(a={"type": "object", "properties": {"filter[id]": STRING}}))])


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object"}, r"\$.additionalProperties must be false"),
        (closed(a={"type": "object"}), r"\$.properties.a.additionalProperties must be false"),
        (closed(a={"type": "array", "items": {"type": "object"}}), r"\$.properties.a.items.additionalProperties"),
        ({**closed(), "additionalProperties": STRING}, r"\$.additionalProperties must be false"),
        (closed(a={"type": ["object", "null"]}), "additionalProperties must be false"),
        (closed(a={}), r"\$.properties.a has no type"),
        (closed(a=True), r"\$.properties.a is not a schema object"),
        (closed(a={"type": "integer", "minimum": 1}), "minimum is not supported"),
        (closed(a={"type": "string", "maxLength": 1}), "maxLength is not supported"),
        (closed(a={"type": "string", "format": "hostname-ish"}), "format has a value"),
        (closed(a={"type": "string", "pattern": r"^(?=x)"}), "pattern has a value"),
        (closed(a={"type": "array", "items": STRING, "minItems": 2}), "minItems has a value"),
        (closed(a={"enum": [{"a": 1}]}), "enum has a value"),
        (closed(a={"const": [1]}), "const has a value"),
        (closed(a={"$ref": "https://example.com/x.json"}), r"\$ref has a value"),
        (closed(a={"$ref": "#"}), r"\$ref has a value"),
        (closed(a={"allOf": [{"$ref": "#/$defs/b"}]}), "allOf has a value"),
        (closed(a={"oneOf": [STRING]}), "oneOf is not supported"),
        ({**closed(a={"$ref": "#/$defs/n"}), "$defs": {"n": closed(a={"$ref": "#/$defs/n"})}}, "n is recursive"),
        (
            {
                **closed(a={"$ref": "#/$defs/x"}),
                "$defs": {"x": closed(y={"$ref": "#/$defs/y"}), "y": closed(x={"$ref": "#/$defs/x"})},
            },
            "is recursive",
        ),
        (closed([], **{f"p{number}": STRING for number in range(25)}), "25 optional properties"),
        (closed(**{f"p{number}": NULLABLE for number in range(17)}), "17 unions"),
    ],
)
def test_what_the_vendors_structured_output_does_not_take(schema: JSONObject, problem: str) -> None:
    why = why_no_output_format(schema)
    assert why is not None
    assert re.search(problem, why), why


@pytest.mark.parametrize(
    "schema",
    [
        closed(),
        closed(a=STRING, b={"type": "array", "items": closed(c={"type": "number"}), "minItems": 1}),
        closed([], **{f"p{number}": STRING for number in range(24)}),
        closed(**{f"p{number}": NULLABLE for number in range(16)}),
        closed(a={"type": "string", "format": "date-time"}, b={"type": "string", "pattern": "^[a-z]+$"}),
        closed(a={"enum": ["x", 1, None]}, b={"type": "string", "title": "B", "description": "b", "default": ""}),
        {"type": "array", "items": STRING},
        {"$ref": "#/$defs/a", "$defs": {"a": closed(b={"$ref": "#/$defs/c"}), "c": STRING}},
    ],
)
def test_what_the_vendors_structured_output_takes(schema: JSONObject) -> None:
    assert why_no_output_format(schema) is None


@pytest.mark.parametrize(
    ("model_id", "enforced"),
    [
        ("claude-sonnet-4-5-20250929", True),
        ("claude-opus-4-6", True),
        ("claude-haiku-4-5", True),
        ("claude-sonnet-5", True),
        ("claude-opus-4-10", True),
        ("claude-3-5-haiku-20241022", False),
        ("claude-3-7-sonnet-latest", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-opus-4-0", False),
        ("claude-opus-4-1-20250805", False),
        ("claude-2.1", False),
        ("claude-instant-1.2", False),
    ],
)
def test_models_older_than_structured_output_are_asked_by_tool(model_id: str, enforced: bool) -> None:
    answer = read_json_answer(model_id, LLMRequest([], structure=closed(a=STRING)))
    assert answer is not None
    assert answer.by_tool != enforced


@pytest.mark.parametrize("structure", [{"type": "array", "items": {}}, {"anyOf": [{"type": "object"}]}])
def test_a_structure_that_neither_way_takes_is_refused(structure: JSONObject) -> None:
    with pytest.raises(UPPError, match=r"structured output \(\$.*nor a tool \(\$") as caught:
        check([], structure)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_a_tool_named_like_the_answers_is_refused_where_both_would_be_there() -> None:
    check([tool(closed(), "json_response")], closed(a=STRING))
    with pytest.raises(UPPError, match="rename your tool"):
        check([tool(closed(), "json_response")], {"type": "object"})


@pytest.mark.parametrize("strict", [None, False, True])
def test_strict_is_refused_where_the_vendor_cannot_enforce(strict: bool | None) -> None:
    wanted: JSONObject = {"type": "json_schema", "schema": {"type": "object"}, "strict": strict}
    if strict:
        with pytest.raises(UPPError, match=r"strict.*additionalProperties must be false"):
            body_of(response_format=wanted)
    else:
        assert "output_config" not in body_of(response_format=wanted)


def test_a_json_object_without_a_schema_is_refused() -> None:
    with pytest.raises(UPPError, match=r'give \{"type": "json_schema"'):
        body_of(response_format={"type": "json_object"})


def test_plain_text_asks_for_nothing() -> None:
    assert body_of(response_format={"type": "text"}).keys() == {"model", "messages", "max_tokens"}


@pytest.mark.parametrize("options", [{"beta": "x"}, {"betas": "x"}, {"betas": [1]}, {"betas": [""]}])
def test_options_that_are_none_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UPPError, match="betas") as caught:
        anthropic(MODEL).provider.bind(MODEL, options)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_a_model_without_an_id_is_refused() -> None:
    with pytest.raises(UPPError, match="needs an id"):
        anthropic("").bind()


def test_what_the_models_can_do() -> None:
    model = anthropic(MODEL).bind()
    can = model.capabilities
    assert (model.provider, model.model_id) == ("anthropic", MODEL)
    assert (can.streaming, can.tools, can.structured_output, can.image_input, can.document_input) == (True,) * 5
    assert (can.video_input, can.audio_input, can.image_output) == (False,) * 3
