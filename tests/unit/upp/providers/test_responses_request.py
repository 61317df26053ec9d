from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure.upp.content import (
    AudioBlock,
    BinaryBlock,
    ContentBlock,
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
from perdure.upp.provider import LLMCapabilities, LLMRequest
from perdure.upp.providers.openai_responses import OPENAI
from perdure.upp.providers.openai_responses.request import build_body
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool

EVERYTHING = replace(
    OPENAI,
    provider="elsewhere",
    capabilities=LLMCapabilities(image_input=True, document_input=True, audio_input=True, video_input=True),
    item_ids=True,
    keeps_answers=False,
    modalities=frozenset({"image"}),
)
"""A service that takes all that the dialect knows of."""

SCHEMA: JSONObject = {"type": "object", "properties": {"city": {"type": "string"}}}
STRICT: JSONObject = {**SCHEMA, "required": ["city"], "additionalProperties": False}


def tool(name: str = "get_weather", parameters: JSONObject = SCHEMA, **metadata: JSONObject) -> Tool:
    return Tool(name, "Says the weather.", parameters, run=print, metadata=metadata or None)


def body_of(
    *messages: Message, model: str = "gpt-4o", stream: bool = False, dialect: Any = OPENAI, **fields: Any
) -> dict[str, Any]:
    return build_body(LLMRequest(messages or [UserMessage("Hi")], **fields), model, dialect, stream=stream)


def input_of(*messages: Message, **fields: Any) -> list[Any]:
    return body_of(*messages, **fields)["input"]


def user_part(block: UserContent, **fields: Any) -> Any:
    return input_of(UserMessage(["Look:", block]), **fields)[0]["content"][1]


def refused(**fields: Any) -> str:
    with pytest.raises(UPPError) as caught:
        body_of(*fields.pop("messages", ()), **fields)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    return caught.value.message


# Messages


def test_a_users_only_text_is_a_string() -> None:
    assert input_of(UserMessage("Hi")) == [{"type": "message", "role": "user", "content": "Hi"}]


def test_several_texts_of_a_user_are_parts() -> None:
    parts = input_of(UserMessage(["One", "Two"]))[0]["content"]
    assert parts == [{"type": "input_text", "text": "One"}, {"type": "input_text", "text": "Two"}]


def test_the_system_prompt_is_the_first_item() -> None:
    assert input_of(system="Be brief.")[0] == {"type": "message", "role": "system", "content": "Be brief."}


@pytest.mark.parametrize("system", [None, ""])
def test_no_system_prompt_is_no_item(system: str | None) -> None:
    assert [item["role"] for item in input_of(system=system)] == ["user"]


def test_blocks_of_the_system_prompt_are_joined_by_blank_lines() -> None:
    item = input_of(system=["Be brief.", {"type": "input_text", "text": "Be kind."}])[0]
    assert item["content"] == "Be brief.\n\nBe kind."


def test_a_block_of_the_system_prompt_that_says_more_than_text_goes_as_it_is() -> None:
    marked: JSONObject = {"type": "input_text", "text": "Long.", "prompt_cache_breakpoint": {"mode": "explicit"}}
    item = input_of(system=[marked, "Short."])[0]
    assert item["content"] == [marked, {"type": "input_text", "text": "Short."}]


def test_a_block_of_the_system_prompt_without_text_is_refused() -> None:
    assert "system prompt" in refused(system=[{"type": "input_image"}])


def test_an_answer_of_another_provider_is_built_anew() -> None:
    content = [ReasoningBlock("Hm."), TextBlock("One."), TextBlock("Two.")]
    foreign = AssistantMessage(
        content, [ToolCall("toolu_1", "get_weather", {"city": "Bern"})], metadata={"anthropic": {"output": ["x"]}}
    )
    assert input_of(foreign) == [
        {"type": "message", "role": "assistant", "content": "One.\n\nTwo."},
        {"type": "function_call", "call_id": "toolu_1", "name": "get_weather", "arguments": '{"city":"Bern"}'},
    ]


@pytest.mark.parametrize("content", [[], [""], [" \n"], [ReasoningBlock("Hm.")]])
def test_an_answer_that_says_nothing_is_no_item(content: list[Any]) -> None:
    assert input_of(UserMessage("Hi"), AssistantMessage(content), UserMessage("So?")) == input_of(
        UserMessage("Hi"), UserMessage("So?")
    )


def test_blank_text_of_a_user_is_left_out_beside_other_content() -> None:
    assert input_of(UserMessage([" ", "Hi", ""]))[0]["content"] == "Hi"


def test_a_user_who_says_nothing_is_still_there() -> None:
    assert input_of(UserMessage(""))[0]["content"] == ""


def test_arguments_that_were_no_json_go_back_as_they_were_written() -> None:
    call = input_of(AssistantMessage([], [ToolCall("call_1", "get_weather", '{"city": "Be')]))[0]
    assert call["arguments"] == '{"city": "Be'


def test_each_result_is_an_item() -> None:
    results = ToolResultMessage([ToolResult("call_1", {"degrees": 7}), ToolResult("call_2", "")])
    assert input_of(results) == [
        {"type": "function_call_output", "call_id": "call_1", "output": '{"degrees":7}'},
        {"type": "function_call_output", "call_id": "call_2", "output": ""},
    ]


def test_a_result_that_is_an_error_says_so() -> None:
    (item,) = input_of(ToolResultMessage([ToolResult("call_1", "no such city", is_error=True)]))
    assert item["output"] == "Error: no such city"


def test_a_call_id_that_is_too_long_for_the_vendor_is_replaced_in_call_and_result_alike() -> None:
    long = "google_toolcall:0:" + "x" * 80
    call, result = input_of(
        AssistantMessage([], [ToolCall(long, "f", {})]), ToolResultMessage([ToolResult(long, "ok")])
    )
    assert call["call_id"] == result["call_id"]
    assert len(call["call_id"]) <= 64


# Media


@pytest.mark.parametrize(
    ("source", "url"),
    [
        (UrlSource("https://host/cat.png"), "https://host/cat.png"),
        (Base64Source("AQI="), "data:image/png;base64,AQI="),
        (BytesSource(b"\x01\x02"), "data:image/png;base64,AQI="),
    ],
)
def test_an_image_is_a_url_or_holds_its_data(source: Any, url: str) -> None:
    part = user_part(ImageBlock(source, "image/png"))
    assert part == {"type": "input_image", "image_url": url, "detail": "auto"}


@pytest.mark.parametrize(
    ("title", "filename"),
    [(None, "document.pdf"), ("Report", "Report.pdf"), ("Report.pdf", "Report.pdf"), ("A.PDF", "A.PDF")],
)
def test_a_pdf_has_a_file_name_that_ends_in_pdf(title: str | None, filename: str) -> None:
    part = user_part(DocumentBlock(Base64Source("JVBE"), "application/pdf", title))
    assert part == {
        "type": "input_file",
        "filename": filename,
        "file_data": "data:application/pdf;base64,JVBE",
    }


def test_a_pdf_elsewhere_is_a_url() -> None:
    part = user_part(DocumentBlock(UrlSource("https://host/a.pdf"), "application/pdf", "A"))
    assert part == {"type": "input_file", "file_url": "https://host/a.pdf"}


@pytest.mark.parametrize("source", [TextSource("Grüezi"), Base64Source("R3LDvGV6aQ==")])
def test_a_text_document_is_text_under_its_title(source: Any) -> None:
    assert user_part(DocumentBlock(source, "text/plain", "Greeting"))["text"] == "Greeting\n\nGrüezi"


@pytest.mark.parametrize(
    "block",
    [
        DocumentBlock(TextSource("%PDF"), "application/pdf"),
        DocumentBlock(UrlSource("https://host/a.txt"), "text/plain"),
        DocumentBlock(Base64Source("/w=="), "text/plain"),
        AudioBlock(b"\x01", "audio/wav"),
        VideoBlock(b"\x01", "video/mp4"),
        BinaryBlock(b"\x01", "application/zip"),
    ],
)
def test_what_the_vendor_does_not_take_is_refused(block: UserContent) -> None:
    assert "openai" in refused(messages=[UserMessage([block])]) or "UTF-8" in refused(messages=[UserMessage([block])])


def test_sound_goes_where_it_is_taken() -> None:
    part = user_part(AudioBlock(b"\x01\x02", "audio/mpeg"), dialect=EVERYTHING)
    assert part == {"type": "input_audio", "input_audio": {"data": "AQI=", "format": "mp3"}}


def test_sound_of_an_unknown_form_is_refused() -> None:
    assert "audio/odd" in refused(messages=[UserMessage([AudioBlock(b"", "audio/odd")])], dialect=EVERYTHING)


def test_video_goes_where_it_is_taken() -> None:
    part = user_part(VideoBlock(b"\x01\x02", "video/mp4"), dialect=EVERYTHING)
    assert part == {"type": "input_video", "video_url": "data:video/mp4;base64,AQI="}


def test_bytes_of_any_other_kind_are_taken_nowhere() -> None:
    assert "binary" in refused(messages=[UserMessage([BinaryBlock(b"", "a/b")])], dialect=EVERYTHING)


@pytest.mark.parametrize("block", [ImageBlock(Base64Source("AQI="), "image/png"), AudioBlock(b"", "audio/wav")])
def test_media_of_another_providers_answer_are_refused(block: ContentBlock) -> None:
    assert block.type in refused(messages=[AssistantMessage([block])])  # pyright: ignore[reportArgumentType]


# Ids, where a service wants them


def test_an_assistants_items_have_id_and_status_where_they_must() -> None:
    answer = AssistantMessage("Yes.", [ToolCall("call_1", "f", {})], id="resp_1")
    message, call, result = input_of(answer, ToolResultMessage([ToolResult("call_1", "ok")]), dialect=EVERYTHING)
    assert message == {
        "type": "message",
        "role": "assistant",
        "id": "msg_resp_1_0",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
    }
    assert (call["id"], call["status"]) == ("fc_call_1", "completed")
    assert (result["id"], result["status"]) == ("fco_call_1", "completed")


# Params, storage, stream


def test_params_come_first_and_the_request_wins() -> None:
    body = body_of(params={"temperature": 0.5, "model": "other", "input": "other"})
    assert (body["temperature"], body["model"]) == (0.5, "gpt-4o")
    assert body["input"] == [{"type": "message", "role": "user", "content": "Hi"}]


def test_params_are_not_changed() -> None:
    params: JSONObject = {"include": ["x"], "text": {"verbosity": "low"}, "tools": [{"type": "web_search"}]}
    body_of(params=params, structure=STRICT, tools=[tool()], model="o3")
    assert params == {"include": ["x"], "text": {"verbosity": "low"}, "tools": [{"type": "web_search"}]}


def test_the_vendor_is_told_to_keep_nothing() -> None:
    assert body_of()["store"] is False


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        *((name, True) for name in ("o3", "o4-mini", "gpt-5", "gpt-5.3-codex", "gpt-6-astra", "openai/gpt-5-mini")),
        *((name, False) for name in ("gpt-4o", "gpt-4.1", "chatgpt-4o-latest", "gpt-5-chat-latest", "llama-3")),
    ],
)
def test_only_models_that_reason_are_asked_for_their_encrypted_reasoning(model: str, asked: bool) -> None:
    assert body_of(model=model).get("include") == (["reasoning.encrypted_content"] if asked else None)


def test_a_model_that_is_told_to_reason_is_asked_for_its_encrypted_reasoning() -> None:
    assert body_of(params={"reasoning": {"effort": "low"}})["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize("given", [["web_search_call.action.sources"], ["reasoning.encrypted_content"]])
def test_encrypted_reasoning_is_asked_for_once_beside_what_params_ask_for(given: list[JSONValue]) -> None:
    include = body_of(model="o3", params={"include": given})["include"]
    assert include == list(dict.fromkeys([*given, "reasoning.encrypted_content"]))


@pytest.mark.parametrize("params", [{"store": True}, {"store": False}, {"conversation": "conv_1"}])
def test_params_that_say_what_is_stored_are_left_alone(params: JSONObject) -> None:
    body = body_of(model="o3", params=params)
    assert (body.get("store"), body.get("include")) == (params.get("store"), None)


def test_a_service_that_keeps_nothing_is_not_told_so() -> None:
    assert "store" not in body_of(dialect=EVERYTHING)


def test_a_stream_is_asked_for_only_where_it_is_wanted() -> None:
    assert body_of(stream=True)["stream"] is True
    assert "stream" not in body_of(params={"stream": True})


def test_an_answer_in_the_background_is_refused_unless_it_is_streamed() -> None:
    assert "background" in refused(params={"background": True})
    assert body_of(params={"background": True}, stream=True)["background"] is True


# Tools


def test_a_tool_goes_out_whole_and_is_not_rewritten_by_the_vendor() -> None:
    assert body_of(tools=[tool()])["tools"] == [
        {
            "type": "function",
            "name": "get_weather",
            "description": "Says the weather.",
            "parameters": SCHEMA,
            "strict": False,
        }
    ]


def test_a_tool_is_strict_if_its_metadata_say_so() -> None:
    (sent,) = body_of(tools=[tool(parameters=STRICT, openai={"strict": True}, anthropic={"strict": False})])["tools"]
    assert sent["strict"] is True


def test_the_vendors_own_tools_come_after_ours() -> None:
    tools = body_of(tools=[tool()], params={"tools": [{"type": "web_search"}]})["tools"]
    assert [item["type"] for item in tools] == ["function", "web_search"]


def test_without_tools_of_ours_those_of_params_stay() -> None:
    assert body_of(params={"tools": [{"type": "web_search"}]})["tools"] == [{"type": "web_search"}]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"name": "get_weather"}, {"type": "function", "name": "get_weather"}),
    ],
)
def test_the_tool_choice_is_said_in_the_vendors_words(choice: Any, sent: JSONValue) -> None:
    assert body_of(tools=[tool()], tool_choice=choice)["tool_choice"] == sent


def test_a_choice_that_params_make_stays() -> None:
    assert body_of(tools=[tool()], params={"tool_choice": "required"})["tool_choice"] == "required"


def test_no_choice_is_sent_without_tools() -> None:
    assert "tool_choice" not in body_of(tool_choice="none")


def test_a_forced_call_is_forced_once() -> None:
    results = ToolResultMessage([ToolResult("call_1", "ok")])
    assert body_of(UserMessage("Hi"), results, tools=[tool()], tool_choice="required")["tool_choice"] == "auto"


# The answer's form


def test_a_structure_that_fits_is_enforced() -> None:
    assert body_of(structure=STRICT)["text"] == {
        "format": {"type": "json_schema", "name": "json_response", "schema": STRICT, "strict": True}
    }


def test_a_structure_that_cannot_be_enforced_goes_out_unchanged_and_unenforced() -> None:
    sent = body_of(structure=SCHEMA)["text"]["format"]
    assert (sent["schema"], sent["strict"]) == (SCHEMA, False)


def test_other_settings_of_the_text_stay() -> None:
    text = body_of(structure=STRICT, params={"text": {"verbosity": "low", "format": {"type": "text"}}})["text"]
    assert (text["verbosity"], text["format"]["type"]) == ("low", "json_schema")


def test_a_json_object_may_be_asked_for() -> None:
    assert body_of(response_format={"type": "json_object"})["text"] == {"format": {"type": "json_object"}}


def test_plain_text_may_be_asked_for() -> None:
    text = body_of(response_format={"type": "text"}, params={"text": {"format": {"type": "json_object"}}})["text"]
    assert text == {"format": {"type": "text"}}


def test_nothing_is_said_of_the_form_if_nobody_asks() -> None:
    assert "text" not in body_of()


def test_a_format_carries_its_name_its_description_and_its_strictness() -> None:
    wanted: JSONObject = {
        "type": "json_schema",
        "name": "place",
        "description": "A place.",
        "schema": STRICT,
        "strict": False,
    }
    assert body_of(response_format=wanted)["text"]["format"] == wanted


def test_a_format_that_must_be_strict_and_cannot_be_is_refused() -> None:
    message = refused(response_format={"type": "json_schema", "schema": SCHEMA, "strict": True})
    assert "strict" in message
    assert "additionalProperties" in message


def test_a_format_whose_schema_is_no_object_is_refused() -> None:
    assert "$" in refused(response_format={"type": "json_schema", "schema": {"type": "array", "items": {}}})


def test_a_format_with_a_name_that_the_vendor_does_not_take_is_refused() -> None:
    assert "a b" in refused(response_format={"type": "json_schema", "schema": STRICT, "name": "a b"})


# Modalities


@pytest.mark.parametrize("modalities", [None, ["text"]])
def test_text_is_not_asked_for(modalities: list[str] | None) -> None:
    assert "modalities" not in body_of(modalities=modalities)


def test_a_modality_that_the_service_has_is_asked_for() -> None:
    assert body_of(modalities=["image", "text"], dialect=EVERYTHING)["modalities"] == ["image", "text"]


def test_a_modality_that_the_service_has_not_is_refused() -> None:
    assert "audio" in refused(modalities=["text", "audio"])
