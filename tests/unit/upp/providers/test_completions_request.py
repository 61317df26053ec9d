"""A model call as a Chat Completions body."""

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
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.openai_completions import OPENAI
from perdure.upp.providers.openai_completions.request import to_body
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool

HELLO = UserMessage("hello")
NOTE: JSONObject = {"type": "object", "properties": {"text": {"type": "string"}}}
STRICT: JSONObject = {**NOTE, "required": ["text"], "additionalProperties": False}


def body(*messages: Message, stream: bool = False, **fields: Any) -> JSONObject:
    return to_body(LLMRequest(list(messages) or [HELLO], **fields), "gpt-x", OPENAI, stream=stream)


def wire(*messages: Message, **fields: Any) -> Any:
    return body(*messages, **fields)["messages"]


def run(arguments: object) -> None:
    """Does what these tools do: nothing."""


def tool(name: str = "note", parameters: JSONObject = NOTE, **fields: Any) -> Tool:
    return Tool(name, "Notes.", parameters, run, **fields)


def test_one_text_is_sent_as_plain_text() -> None:
    assert body() == {"model": "gpt-x", "messages": [{"role": "user", "content": "hello"}]}


def test_the_system_prompt_comes_first() -> None:
    assert wire(system="Be brief.")[0] == {"role": "system", "content": "Be brief."}


def test_the_vendors_own_system_blocks_are_sent_as_they_are() -> None:
    blocks: Any = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    assert wire(system=blocks)[0] == {"role": "system", "content": blocks}


def test_an_empty_system_prompt_is_none() -> None:
    assert wire(system="") == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (TextBlock("a"), {"type": "text", "text": "a"}),
        (
            ImageBlock(UrlSource("https://x/y.png"), "image/png"),
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        ),
        (
            ImageBlock(Base64Source("AAAA"), "image/png"),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ),
        (
            ImageBlock(BytesSource(b"\0\0\0"), "image/jpeg"),
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}},
        ),
        (
            DocumentBlock(Base64Source("JVBERg=="), "application/pdf", "report.pdf"),
            {
                "type": "file",
                "file": {"filename": "report.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            },
        ),
        (
            DocumentBlock(Base64Source("JVBERg=="), "application/pdf"),
            {
                "type": "file",
                "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            },
        ),
        (DocumentBlock(TextSource("body"), "text/plain"), {"type": "text", "text": "body"}),
        (DocumentBlock(TextSource("body"), "text/plain", "Title"), {"type": "text", "text": "Title\n\nbody"}),
        (DocumentBlock(Base64Source("w6k="), "text/plain"), {"type": "text", "text": "é"}),
    ],
)
def test_a_block_becomes_a_part(block: UserContent, part: JSONObject) -> None:
    assert wire(UserMessage(["Look:", block]))[0]["content"] == [{"type": "text", "text": "Look:"}, part]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (DocumentBlock(UrlSource("https://x/y.pdf"), "application/pdf"), "give the document's bytes"),
        (DocumentBlock(Base64Source("AAAA"), "application/msword"), "not application/msword"),
        (DocumentBlock(Base64Source("/w=="), "text/plain"), "UTF-8"),
        (AudioBlock(b"\0", "audio/wav"), "transcript"),
        (VideoBlock(b"\0", "video/mp4"), "no video blocks"),
        (BinaryBlock(b"\0", "application/zip"), "no binary blocks"),
    ],
)
def test_what_the_vendor_cannot_take_is_refused(block: UserContent, words: str) -> None:
    with pytest.raises(UPPError, match=words) as caught:
        body(UserMessage([block]))
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "openai")


@pytest.mark.parametrize("content", ["", [], ["", " \n"], [TextBlock("")]])
def test_a_blank_user_message_is_still_text(content: Any) -> None:
    assert isinstance(wire(UserMessage(content))[0]["content"], str)


def test_blank_texts_beside_an_image_are_left_out() -> None:
    image = ImageBlock(UrlSource("https://x/y.png"), "image/png")
    assert [part["type"] for part in wire(UserMessage(["", image]))[0]["content"]] == ["image_url"]


def test_calls_and_results_go_out_in_order_with_errors_marked() -> None:
    calls = [ToolCall("a", "note", {"text": "x"}), ToolCall("b", "note", {})]
    results = [ToolResult("a", {"n": 1}), ToolResult("b", "no disk", is_error=True)]
    assert wire(HELLO, AssistantMessage("One moment.", calls), ToolResultMessage(results))[1:] == [
        {
            "role": "assistant",
            "content": "One moment.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "note", "arguments": '{"text":"x"}'}},
                {"id": "b", "type": "function", "function": {"name": "note", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": '{"n":1}'},
        {"role": "tool", "tool_call_id": "b", "content": "Error: no disk"},
    ]


@pytest.mark.parametrize("arguments", ['{"text":', [], "x", None, 7])
def test_arguments_that_are_no_object_go_back_inside_one(arguments: Any) -> None:
    call = AssistantMessage([], [ToolCall("a", "note", arguments)])
    sent = wire(HELLO, call)[1]["tool_calls"][0]["function"]["arguments"]
    assert sent.startswith('{"invalid_arguments":')


def test_an_empty_tool_result_is_empty_text() -> None:
    assert wire(ToolResultMessage([ToolResult("a", "")]))[0]["content"] == ""


@pytest.mark.parametrize(
    ("message", "content"),
    [
        (AssistantMessage([]), ""),
        (AssistantMessage(""), ""),
        (AssistantMessage([ReasoningBlock("hm")]), ""),
        (AssistantMessage([], [ToolCall("a", "note", {})]), None),
        (AssistantMessage(" \n", [ToolCall("a", "note", {})]), None),
        (AssistantMessage(["a", "b"]), "a\n\nb"),
    ],
)
def test_an_assistant_message_has_its_text_or_what_stands_for_none(message: Message, content: str | None) -> None:
    assert wire(HELLO, message)[1]["content"] == content


def test_long_ids_of_other_vendors_calls_fit_and_still_match() -> None:
    long = "anthropic_" + "0" * 60
    history = [HELLO, AssistantMessage([], [ToolCall(long, "note", {})]), ToolResultMessage([ToolResult(long, "ok")])]
    sent = wire(*history)
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]
    assert len(sent[2]["tool_call_id"]) == 40


def test_another_server_gets_its_own_long_ids_back() -> None:
    long = "call_" + "s" * 200
    config = ProviderConfig(base_url="http://localhost:4000/v1")
    assert wire(ToolResultMessage([ToolResult(long, "ok")]), config=config)[0]["tool_call_id"] == long


def given(content: Any, calls: Any = None, **own: Any) -> AssistantMessage:
    return AssistantMessage(content, calls, metadata={"openai": own})


def test_reasoning_content_goes_back_on_every_message_of_a_turn_with_calls() -> None:
    history = [
        HELLO,
        given([], [ToolCall("a", "note", {})], reasoning_content="first"),
        ToolResultMessage([ToolResult("a", "ok")]),
        given("done", reasoning_content=""),
        UserMessage("and now?"),
        given("nothing", reasoning_content="third"),
        UserMessage("thanks"),
    ]
    assert [item.get("reasoning_content") for item in wire(*history) if item["role"] == "assistant"] == [
        "first",
        "",
        None,
    ]


def test_reasoning_without_the_vendors_mark_is_not_sent() -> None:
    call = AssistantMessage([ReasoningBlock("hm")], [ToolCall("a", "note", {})], metadata={"google": {"x": 1}})
    assert set(wire(HELLO, call)[1]) == {"role", "content", "tool_calls"}


def test_reasoning_details_go_back_as_they_came() -> None:
    details = [{"type": "reasoning.text", "text": "t", "signature": "s", "index": 0}]
    assert wire(HELLO, given("x", reasoning_details=details))[1]["reasoning_details"] == details


def test_a_generated_image_is_refused_in_an_assistant_message() -> None:
    image = ImageBlock(Base64Source("AAAA"), "image/png")
    with pytest.raises(UPPError, match="put it into a user message"):
        body(HELLO, AssistantMessage([image]))


def test_spoken_answers_go_back_as_their_transcript() -> None:
    said = AssistantMessage([TextBlock("Hi."), AudioBlock(b"\0", "audio/wav")])
    assert wire(HELLO, said)[1] == {"role": "assistant", "content": "Hi."}


def test_params_go_first_and_the_adapter_wins() -> None:
    sent = body(params={"temperature": 0, "model": "other", "messages": []})
    assert (sent["temperature"], sent["model"], len(wire())) == (0, "gpt-x", 1)


def test_a_stream_asks_for_its_usage() -> None:
    sent = body(stream=True)
    assert (sent["stream"], sent["stream_options"]) == (True, {"include_usage": True})


def test_own_stream_options_win() -> None:
    assert body(stream=True, params={"stream_options": {}})["stream_options"] == {}


def test_stream_options_are_for_streams_only() -> None:
    sent = body(params={"stream": True, "stream_options": {"include_usage": True}})
    assert (sent["stream"], "stream_options" in sent) == (False, False)


def test_tools_are_sent_whole_with_the_vendors_own_after_them() -> None:
    own: JSONObject = {"type": "custom", "custom": {"name": "shell"}}
    sent = body(
        tools=[tool(metadata={"openai": {"strict": True}, "google": {"strict": False}})], params={"tools": [own]}
    )
    function = {"name": "note", "description": "Notes.", "parameters": NOTE, "strict": True}
    assert sent["tools"] == [{"type": "function", "function": function}, own]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"name": "note"}, {"type": "function", "function": {"name": "note"}}),
    ],
)
def test_a_tool_choice_is_sent(choice: Any, sent: Any) -> None:
    assert body(tools=[tool()], tool_choice=choice)["tool_choice"] == sent


def test_without_a_choice_the_params_say_it() -> None:
    assert body(tools=[tool()], params={"tool_choice": "required"})["tool_choice"] == "required"


def test_a_choice_without_tools_is_not_sent() -> None:
    assert "tool_choice" not in body(tool_choice="none")


@pytest.mark.parametrize(
    ("schema", "strict"),
    [(STRICT, True), (NOTE, False)],
)
def test_a_structure_is_strict_only_if_the_vendor_can_enforce_it_unchanged(schema: JSONObject, strict: bool) -> None:
    assert body(structure=schema)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "json_response", "schema": schema, "strict": strict},
    }


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({"type": "text"}, {"type": "text"}),
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "schema": NOTE, "name": "n", "description": "d", "strict": False},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": NOTE, "description": "d", "strict": False}},
        ),
    ],
)
def test_a_response_format_is_sent(asked: JSONObject, sent: JSONObject) -> None:
    assert body(response_format=asked)["response_format"] == sent


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"type": "json_schema", "schema": NOTE, "strict": True}, r"\$: an object needs \"additionalProperties\""),
        ({"type": "json_schema", "schema": NOTE, "name": "no blanks"}, "name 'no blanks'"),
        ({"type": "json_schema", "schema": {"type": "array", "items": {}}}, "the top must have"),
    ],
)
def test_a_format_that_cannot_be_is_refused(asked: JSONObject, words: str) -> None:
    with pytest.raises(UPPError, match=words):
        body(response_format=asked)


def test_text_alone_needs_no_modalities() -> None:
    assert "modalities" not in body(modalities=["text"])


def test_audio_answers_are_asked_for_with_their_voice() -> None:
    sent = body(modalities=["text", "audio"], params={"audio": {"voice": "alloy", "format": "wav"}})
    assert sent["modalities"] == ["text", "audio"]


@pytest.mark.parametrize(("modality", "words"), [("audio", "params="), ("image", "answers in audio, text")])
def test_modalities_that_cannot_be_are_refused(modality: str, words: str) -> None:
    with pytest.raises(UPPError, match=words):
        body(modalities=["text", modality])
