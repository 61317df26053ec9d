"""What Ollama refuses of schemas, found before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.messages import UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.ollama import ollama
from perdure.upp.providers.ollama.request import build_body
from perdure.upp.tools import Tool

MODEL = ollama("qwen3").bind()

CORPUS: dict[str, JSONObject] = {
    "recursive": {"properties": {"next": {"$ref": "#"}}},
    "definitions": {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"enum": ["x", None, 1]}}},
    "null": {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
    "oneOf": {
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "properties": {"a": {"oneOf": [{}, {"minimum": 1}]}},
    },
    "allOf": {"properties": {"a": {"allOf": [{"type": "string"}, {"maxLength": 3}]}}},
    "tuple": {
        "properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}, {"const": 2}], "items": False}}
    },
    "const": {"properties": {"a": {"const": "x"}}},
    "nothing": {},
    "no properties": {"properties": {}, "additionalProperties": False},
}


def tool(parameters: JSONObject) -> Tool:
    return Tool("search", "Searches.", {"type": "object", **parameters}, run=print)


@pytest.mark.parametrize("parameters", CORPUS.values(), ids=CORPUS)
def test_schemas_are_accepted_and_sent_unchanged(parameters: JSONObject) -> None:
    given = tool(parameters)
    MODEL.check([given], None)
    MODEL.check([], given.parameters)
    called: Any = build_body("qwen3", LLMRequest([UserMessage("x")], tools=[given]), stream=False)
    formed = build_body("qwen3", LLMRequest([UserMessage("x")], structure=given.parameters), stream=False)
    whole = dumps({"type": "object", **parameters})
    assert dumps(called["tools"][0]["function"]["parameters"]) == whole
    assert dumps(formed["format"]) == whole


def test_a_structure_beside_tools_is_refused() -> None:
    with pytest.raises(UPPError, match="cannot call tools in an answer whose form is given") as caught:
        MODEL.check([tool({})], {"type": "object"})
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "ollama")


@pytest.mark.parametrize(
    "asked",
    [
        {"structure": {"type": "object"}},
        {"response_format": {"type": "json_object"}},
        {"params": {"format": "json"}},
        {"structure": {"type": "object"}, "tool_choice": "auto"},
    ],
)
def test_a_form_beside_tools_is_refused_before_it_is_sent(asked: dict[str, Any]) -> None:
    with pytest.raises(UPPError, match="cannot call tools in an answer whose form is given") as caught:
        build_body("qwen3", LLMRequest([UserMessage("x")], tools=[tool({})], **asked), stream=False)
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "ollama")


def test_a_form_is_sent_where_no_tool_may_be_called() -> None:
    request = LLMRequest([UserMessage("x")], tools=[tool({})], tool_choice="none", structure={"type": "object"})
    made = build_body("qwen3", request, stream=False)
    assert made["format"] == {"type": "object"}
    assert "tools" not in made


UNREADABLE: list[tuple[JSONObject, str]] = [
    ({"properties": {"a": True}}, r"tool 'search': at \$\.properties\.a: Ollama reads no true or false"),
    ({"properties": {"a": {"anyOf": [{}, False]}}}, r"at \$\.properties\.a\.anyOf\[1\]: "),
    ({"properties": {"a": {"properties": {"b": False}}}}, r"at \$\.properties\.a\.properties\.b: "),
]


@pytest.mark.parametrize(("parameters", "problem"), UNREADABLE, ids=str)
def test_a_tool_that_ollama_cannot_read_is_refused(parameters: JSONObject, problem: str) -> None:
    with pytest.raises(UPPError, match=problem) as caught:
        MODEL.check([tool({}), tool(parameters)], None)
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "ollama")


@pytest.mark.parametrize(
    ("structure", "problem"),
    [
        ({"type": "objct"}, r"structure: no JSON Schema: at \$\.type"),
        ({"properties": {"a": {"pattern": "^a"}}}, r"structure: at \$\.properties\.a\.pattern: .* from \^ to \$"),
        ({"items": {"$ref": "https://x.org/s"}}, r"at \$\.items: Ollama does not fetch 'https://x.org/s'"),
    ],
    ids=str,
)
def test_a_structure_without_a_grammar_is_refused(structure: JSONObject, problem: str) -> None:
    with pytest.raises(UPPError, match=problem):
        MODEL.check([], structure)


def test_a_structure_may_be_true_inside_and_have_whole_patterns() -> None:
    MODEL.check([], {"properties": {"a": True, "b": {"pattern": "^[0-9]+$"}}})


def test_a_tools_pattern_may_be_open() -> None:
    """Tools are shown to the model; nothing holds it to the pattern."""
    MODEL.check([tool({"properties": {"a": {"pattern": "[0-9]"}}})], None)
