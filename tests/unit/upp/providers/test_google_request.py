"""Requests as Gemini's bodies."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.upp.content import (
    AudioBlock,
    BinaryBlock,
    DocumentBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    UserContent,
    VideoBlock,
)
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.google.contents import FOREIGN_SIGNATURE, contents_of
from perdure.upp.providers.google.endpoint import is_before_gemini_3, model_url
from perdure.upp.providers.google.request import build_body
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool

NEW, OLD = "gemini-3-pro-preview", "gemini-2.5-flash"
ASK = [UserMessage("hi")]
FILE = "https://generativelanguage.googleapis.com/v1beta/files/abc-123"
LOOK = Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}}, run=str)


def body(model: str = NEW, messages: list[Message] | None = None, **fields: Any) -> JSONObject:
    return build_body(LLMRequest([*(messages or ASK)], **fields), model)


def refusal(model: str = NEW, messages: list[Message] | None = None, **fields: Any) -> str:
    with pytest.raises(UPPError) as caught:
        body(model, messages, **fields)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    return caught.value.message


def parts_of(message: Message, model: str = OLD, before: list[Message] | None = None) -> list[JSONValue]:
    content = contents_of([*(before or []), message], not is_before_gemini_3(model))[-1]
    assert isinstance(content, dict)
    parts = content["parts"]
    assert isinstance(parts, list)
    return parts


@pytest.mark.parametrize(
    ("base_url", "version", "model", "url"),
    [
        (None, None, NEW, f"https://generativelanguage.googleapis.com/v1beta/models/{NEW}:m"),
        (None, "v1", f"models/{NEW}", f"https://generativelanguage.googleapis.com/v1/models/{NEW}:m"),
        ("http://h:1/v1alpha/", None, "tunedModels/my-1", "http://h:1/v1alpha/tunedModels/my-1:m"),
        ("http://h/proxy", None, "a b/c?d", "http://h/proxy/v1beta/models/a%20b%2Fc%3Fd:m"),
        ("http://h/v1beta?team=7", None, "x", "http://h/v1beta/models/x:m?team=7"),
    ],
)
def test_a_model_is_called_at_its_address(base_url: str | None, version: str | None, model: str, url: str) -> None:
    assert model_url(ProviderConfig(base_url=base_url, api_version=version), model, "m") == url


def test_the_query_of_a_method_stands_behind_the_address_own() -> None:
    assert model_url(ProviderConfig(base_url="http://h?team=7"), "x", "m", "alt=sse").endswith(":m?team=7&alt=sse")


@pytest.mark.parametrize(
    ("model", "before"),
    [
        ("gemini-2.5-pro", True),
        ("models/gemini-2.0-flash", True),
        ("gemini-1.5-pro-002", True),
        ("gemini-pro", True),
        ("gemma-3-27b-it", True),
        ("tunedModels/mine", True),
        ("gemini-3-flash", False),
        ("gemini-3.8-flash", False),
        ("gemini-4-argon", False),
        ("gemini-flash-latest", False),
        ("gemini-pro-latest", False),
    ],
)
def test_a_model_is_of_gemini_3_unless_known_to_be_older(model: str, before: bool) -> None:
    assert is_before_gemini_3(model) is before


def test_the_system_prompt_is_one_text_part_or_the_blocks_as_given() -> None:
    assert body(system="Be kind.")["systemInstruction"] == {"parts": [{"text": "Be kind."}]}
    assert body(system=["One.", {"text": "Two."}])["systemInstruction"] == {
        "parts": [{"text": "One."}, {"text": "Two."}]
    }
    assert "systemInstruction" not in body(system="")


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (TextBlock("t"), [{"text": "t"}]),
        (ImageBlock(Base64Source("AAA="), "image/png"), [{"inlineData": {"mimeType": "image/png", "data": "AAA="}}]),
        (ImageBlock(BytesSource(b"\0\1"), "image/png"), [{"inlineData": {"mimeType": "image/png", "data": "AAE="}}]),
        (ImageBlock(UrlSource(FILE), "image/png"), [{"fileData": {"mimeType": "image/png", "fileUri": FILE}}]),
        (
            DocumentBlock(UrlSource("gs://b/a.pdf"), "application/pdf"),
            [{"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/a.pdf"}}],
        ),
        (
            DocumentBlock(Base64Source("AAA="), "application/pdf", "Report"),
            [{"text": "Report"}, {"inlineData": {"mimeType": "application/pdf", "data": "AAA="}}],
        ),
        (DocumentBlock(TextSource("body"), "text/plain"), [{"text": "body"}]),
        (AudioBlock(b"\0\1", "audio/wav"), [{"inlineData": {"mimeType": "audio/wav", "data": "AAE="}}]),
        (VideoBlock(b"\0\1", "video/mp4"), [{"inlineData": {"mimeType": "video/mp4", "data": "AAE="}}]),
        (BinaryBlock(b"\0\1", "text/csv"), [{"inlineData": {"mimeType": "text/csv", "data": "AAE="}}]),
    ],
)
def test_each_block_of_a_user_is_sent(block: UserContent, parts: list[JSONValue]) -> None:
    assert parts_of(UserMessage([block])) == parts


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a.png",
        "http://generativelanguage.googleapis.com/v1beta/files/a",
        "https://generativelanguage.googleapis.com.evil.example/v1beta/files/a",
        "gs://",
    ],
)
@pytest.mark.parametrize("kind", [ImageBlock, DocumentBlock])
def test_a_url_that_gemini_does_not_read_is_refused(kind: type[ImageBlock | DocumentBlock], url: str) -> None:
    assert "Files API" in refusal(messages=[UserMessage([kind(UrlSource(url), "image/png")])])


def test_blank_messages_leave_a_request_that_gemini_takes() -> None:
    conversation = [
        UserMessage(""),
        AssistantMessage(""),
        AssistantMessage([]),
        AssistantMessage([ReasoningBlock("hm")]),
        AssistantMessage(" \n"),
        UserMessage(["", "go"]),
        ToolResultMessage([]),
    ]
    assert contents_of(conversation, needs_signatures=True) == [
        {"role": "user", "parts": [{"text": ""}]},
        {"role": "model", "parts": [{"text": " \n"}]},
        {"role": "user", "parts": [{"text": "go"}]},
    ]


def test_a_conversation_without_content_is_refused() -> None:
    assert "no message" in refusal(messages=[AssistantMessage("")])


def test_a_call_of_another_vendor_goes_without_its_id_and_signed_as_documented() -> None:
    asked = AssistantMessage(
        ["Well."],
        [ToolCall("toolu_1", "look", {"at": "x"}), ToolCall("toolu_2", "look", '{"at":')],
        metadata={"anthropic": {"thinkingSignatures": ["s"]}},
    )
    first = {"functionCall": {"name": "look", "args": {"at": "x"}}}
    second = {"functionCall": {"name": "look", "args": {"invalid_arguments": '{"at":'}}}
    assert parts_of(asked) == [{"text": "Well."}, first, second]
    assert parts_of(asked, NEW) == [{"text": "Well."}, first | {"thoughtSignature": FOREIGN_SIGNATURE}, second]
    results = ToolResultMessage([ToolResult("toolu_1", "ok")])
    assert parts_of(results, before=[asked]) == [{"functionResponse": {"name": "look", "response": {"result": "ok"}}}]


@pytest.mark.parametrize(
    ("result", "is_error", "response"),
    [
        ({"a": 1}, False, {"a": 1}),
        ("", False, {"result": ""}),
        ([1, 2], False, {"result": [1, 2]}),
        (None, False, {"result": None}),
        ("it broke", True, {"error": "it broke"}),
        ({"a": 1}, True, {"error": {"a": 1}}),
    ],
)
def test_results_are_objects_and_errors_say_so(result: JSONValue, is_error: bool, response: JSONObject) -> None:
    asked = AssistantMessage([], [ToolCall("1", "look", {})])
    told = ToolResultMessage([ToolResult("1", result, is_error)])
    assert parts_of(told, before=[asked]) == [{"functionResponse": {"name": "look", "response": response}}]


def test_all_results_of_a_message_are_one_content_in_order() -> None:
    asked = AssistantMessage([], [ToolCall("1", "look", {}), ToolCall("2", "hear", {})])
    told = ToolResultMessage([ToolResult("1", "a"), ToolResult("2", "b")])
    assert parts_of(told, before=[asked]) == [
        {"functionResponse": {"name": "look", "response": {"result": "a"}}},
        {"functionResponse": {"name": "hear", "response": {"result": "b"}}},
    ]


def test_a_result_without_its_call_is_refused() -> None:
    assert "'lost'" in refusal(messages=[ToolResultMessage([ToolResult("lost", 1)])])


def test_params_go_where_gemini_has_them() -> None:
    top: JSONObject = {
        "cachedContent": "cachedContents/1",
        "safetySettings": [],
        "labels": {"a": "b"},
        "serviceTier": "flex",
    }
    given: JSONObject = {"temperature": 0.1, "topK": 5, "generationConfig": {"seed": 7, "topK": 1}}
    sent = body(params=top | given)
    assert sent.pop("generationConfig") == {"seed": 7, "topK": 5, "temperature": 0.1}
    assert sent == top | {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_tools_go_out_unchanged_beside_the_vendor_own() -> None:
    sent = body(tools=[LOOK], params={"tools": [{"googleSearch": {}}]})
    declared = {"name": "look", "description": "Looks.", "parametersJsonSchema": LOOK.parameters}
    assert sent["tools"] == [{"functionDeclarations": [declared]}, {"googleSearch": {}}]
    assert "toolConfig" not in sent


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"name": "look"}, {"mode": "ANY", "allowedFunctionNames": ["look"]}),
    ],
)
def test_the_tool_choice_joins_the_tool_config(choice: str | JSONObject, config: JSONObject) -> None:
    given: JSONObject = {
        "retrievalConfig": {"languageCode": "de"},
        "functionCallingConfig": {"mode": "VALIDATED", "allowedFunctionNames": ["other"]},
    }
    sent = body(tools=[LOOK], tool_choice=choice, params={"toolConfig": given})
    assert sent["toolConfig"] == {"retrievalConfig": {"languageCode": "de"}, "functionCallingConfig": config}


def test_without_a_tool_choice_the_params_own_stands() -> None:
    given: JSONObject = {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert body(tools=[LOOK], params={"toolConfig": given})["toolConfig"] == given


def test_a_choice_without_tools_sends_nothing() -> None:
    assert "toolConfig" not in body(tool_choice="none")


def test_streamed_arguments_are_refused() -> None:
    given: JSONObject = {"functionCallingConfig": {"streamFunctionCallArguments": True}}
    assert "streams no" in refusal(tools=[LOOK], params={"toolConfig": given})


SCHEMA: JSONObject = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
JSON_ANSWER = {"responseMimeType": "application/json"}


@pytest.mark.parametrize(
    ("fields", "config"),
    [
        ({"structure": SCHEMA}, JSON_ANSWER | {"responseJsonSchema": SCHEMA}),
        (
            {"response_format": {"type": "json_schema", "schema": SCHEMA}},
            JSON_ANSWER | {"responseJsonSchema": SCHEMA},
        ),
        ({"response_format": {"type": "json_object"}}, JSON_ANSWER),
        ({"response_format": {"type": "text"}}, None),
        ({}, None),
    ],
)
def test_a_json_answer_is_asked_for(fields: dict[str, Any], config: JSONObject | None) -> None:
    assert body(**fields).get("generationConfig") == config


def test_a_schema_that_gemini_does_not_follow_is_refused_in_a_response_format() -> None:
    wanted: JSONObject = {"type": "json_schema", "schema": {"const": 1}}
    assert "$.const" in refusal(response_format=wanted)


def test_two_schemas_are_refused() -> None:
    assert "not both" in refusal(structure=SCHEMA, params={"responseSchema": {}})


def test_tools_with_a_json_answer_need_gemini_3() -> None:
    assert "not both" in refusal(OLD, tools=[LOOK], structure=SCHEMA)
    assert "responseJsonSchema" in str(body(NEW, tools=[LOOK], structure=SCHEMA))


def test_several_candidates_are_refused() -> None:
    assert "candidateCount" in refusal(params={"candidateCount": 2})


def test_modalities_are_upper_case() -> None:
    assert body(modalities=["text", "image"])["generationConfig"] == {"responseModalities": ["TEXT", "IMAGE"]}
    assert body(modalities=["audio"])["generationConfig"] == {"responseModalities": ["AUDIO"]}
    assert "generationConfig" not in body(modalities=["text"])


@pytest.mark.parametrize("modalities", [["smell"], []])
def test_other_modalities_are_refused(modalities: list[str]) -> None:
    assert "modalities" in refusal(modalities=modalities)
