"""What a request becomes for Anthropic's API."""

from __future__ import annotations

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
    VideoBlock,
)
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.anthropic.json_answer import read_json_answer
from perdure.upp.providers.anthropic.request import build_body
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool

MODEL = "claude-sonnet-4-6"
HI = UserMessage("hi")
LOOK = Tool("look", "Looks.", {"type": "object"}, str)
FIND = Tool("find", "Finds.", {"type": "object"}, str)
OPEN: JSONObject = {"type": "object"}
THINKING: JSONObject = {"thinking": {"type": "adaptive"}}
EPHEMERAL: JSONObject = {"type": "ephemeral"}


def body_of(*messages: Message, **fields: Any) -> dict[str, Any]:
    request = LLMRequest(list(messages) or [HI], **fields)
    return build_body(MODEL, request, read_json_answer(MODEL, request), stream=False)


def sent(*messages: Message) -> list[Any]:
    return body_of(*messages)["messages"]


def text(words: str) -> JSONObject:
    return {"type": "text", "text": words}


def user_block(block: ContentBlock) -> JSONObject:
    return sent(UserMessage([block]))[0]["content"][0]  # pyright: ignore[reportArgumentType]  # all kinds on purpose


def test_params_go_first_and_what_the_adapter_writes_over_them() -> None:
    body = body_of(params={"model": "other", "messages": [], "temperature": 0.5, "max_tokens": 7}, system="Be brief.")
    assert body == {
        "model": MODEL,
        "messages": [{"role": "user", "content": [text("hi")]}],
        "temperature": 0.5,
        "max_tokens": 7,
        "system": "Be brief.",
    }


@pytest.mark.parametrize(
    ("params", "most"),
    [
        (None, 4096),
        ({"max_tokens": None}, 4096),
        ({"max_tokens": 0}, 0),
        ({"thinking": {"type": "enabled", "budget_tokens": 10000}}, 14096),
    ],
)
def test_max_tokens_has_a_default_above_the_thinking_budget(params: JSONObject | None, most: int) -> None:
    assert body_of(params=params)["max_tokens"] == most


def test_params_are_not_changed() -> None:
    params: JSONObject = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    body_of(params=params, tools=[LOOK])
    assert params == {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}


@pytest.mark.parametrize(
    "system", ["Be brief.", [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]]
)
def test_the_system_prompt_is_text_or_the_vendors_blocks(system: str | list[JSONValue]) -> None:
    assert body_of(system=system)["system"] == system


@pytest.mark.parametrize("system", [None, "", " \n", []])
def test_a_blank_system_prompt_is_none(system: str | list[JSONValue] | None) -> None:
    assert "system" not in body_of(system=system)


@pytest.mark.parametrize("modalities", [None, ["text"]])
def test_text_is_what_comes_anyway(modalities: list[str] | None) -> None:
    assert "modalities" not in body_of(modalities=modalities)


@pytest.mark.parametrize("modalities", [["audio"], ["text", "image"], []])
def test_other_modalities_are_refused(modalities: list[str]) -> None:
    with pytest.raises(UPPError, match="answers in text only") as caught:
        body_of(modalities=modalities)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (TextBlock("a"), text("a")),
        (
            ImageBlock(BytesSource(b"abc"), "image/png"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "YWJj"}},
        ),
        (
            ImageBlock(Base64Source("YWJj"), "image/jpg"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "YWJj"}},
        ),
        (
            ImageBlock(UrlSource("https://example.com/a"), "image/*"),
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a"}},
        ),
        (
            DocumentBlock(Base64Source("JVBE"), "application/pdf", "A paper"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
                "title": "A paper",
            },
        ),
        (
            DocumentBlock(UrlSource("https://example.com/a.pdf"), "application/pdf"),
            {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
        ),
        (
            DocumentBlock(TextSource("words"), "text/plain"),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
        ),
        (
            DocumentBlock(Base64Source("w7w="), "text/plain"),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "ü"}},
        ),
    ],
)
def test_user_content(block: ContentBlock, expected: JSONObject) -> None:
    assert user_block(block) == expected


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (AudioBlock(b"", "audio/wav"), "no audio"),
        (VideoBlock(b"", "video/mp4"), "no video"),
        (BinaryBlock(b"", "application/zip"), "no binary"),
        (ImageBlock(BytesSource(b""), "image/heic"), "convert it to JPEG"),
        (DocumentBlock(UrlSource("https://example.com/a.txt"), "text/plain"), "send the text itself"),
        (DocumentBlock(Base64Source("AAAA"), "application/msword"), "send PDF or plain text"),
        (DocumentBlock(Base64Source("/w=="), "text/plain"), "must be base64 of UTF-8"),
    ],
)
def test_user_content_that_the_vendor_does_not_take_is_refused(block: ContentBlock, problem: str) -> None:
    with pytest.raises(UPPError, match=problem) as caught:
        user_block(block)
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "anthropic")


@pytest.mark.parametrize(("words", "expected"), [("", "(empty)"), (" \n", "(empty)"), (" a ", " a ")])
def test_a_users_message_is_never_blank(words: str, expected: str) -> None:
    assert sent(UserMessage(words)) == [{"role": "user", "content": [text(expected)]}]


def test_a_users_message_without_content_says_so() -> None:
    assert sent(UserMessage([])) == [{"role": "user", "content": [text("(empty)")]}]


def test_blank_text_beside_other_content_is_left_out() -> None:
    blocks = sent(UserMessage(["", "a", " "]), AssistantMessage(["b", "\n"], []), HI)
    assert [message["content"] for message in blocks] == [[text("a")], [text("b")], [text("hi")]]


@pytest.mark.parametrize("content", [[], [""], [TextBlock(" \n")], [ReasoningBlock("I think")]])
def test_an_assistants_message_that_says_nothing_is_left_out(content: list[Any]) -> None:
    assert sent(HI, AssistantMessage(content), HI) == [{"role": "user", "content": [text("hi")]}] * 2


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [AssistantMessage([])],
        [AssistantMessage(" "), AssistantMessage([ReasoningBlock("hm")])],
    ],
)
def test_a_conversation_with_nothing_to_send_is_refused(messages: list[Message]) -> None:
    with pytest.raises(UPPError, match=r"nothing to send.*add a user message") as caught:
        build_body(MODEL, LLMRequest(messages), None, stream=False)
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "anthropic")


def test_messages_of_one_role_stay_apart() -> None:
    assert [message["role"] for message in sent(HI, HI, AssistantMessage("a"), AssistantMessage("b"), HI)] == [
        *("user", "user", "assistant", "assistant", "user")
    ]


def test_only_the_last_message_of_the_assistant_loses_white_space_at_its_end() -> None:
    first, last = sent(AssistantMessage("a \n"), AssistantMessage("b \n"))
    assert (first["content"], last["content"]) == ([text("a \n")], [text("b")])
    assert sent(AssistantMessage("b \n"), HI)[0]["content"] == [text("b \n")]


def test_tool_results_are_one_message() -> None:
    results = [
        ToolResult("toolu_1", "words"),
        ToolResult("toolu_2", {"a": [1, "ü"]}),
        ToolResult("toolu_3", ""),
        ToolResult("toolu_4", " \n"),
        ToolResult("toolu_5", "broken", is_error=True),
        ToolResult("toolu_6", "", is_error=True),
        ToolResult("toolu_7", None),
    ]
    assert sent(ToolResultMessage(results)) == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "words"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": '{"a":[1,"ü"]}'},
                {"type": "tool_result", "tool_use_id": "toolu_3", "content": ""},
                {"type": "tool_result", "tool_use_id": "toolu_4", "content": ""},
                {"type": "tool_result", "tool_use_id": "toolu_5", "content": "broken", "is_error": True},
                {"type": "tool_result", "tool_use_id": "toolu_6", "content": "Error", "is_error": True},
                {"type": "tool_result", "tool_use_id": "toolu_7", "content": "null"},
            ],
        }
    ]


def test_ids_and_names_of_other_models_calls_are_made_acceptable_in_pairs() -> None:
    said = AssistantMessage([], [ToolCall("call|1", "ns.look", []), ToolCall("call|2", "", {})])
    calls, results = sent(said, ToolResultMessage([ToolResult("call|1", "a"), ToolResult("call|2", "b")]))
    ids = [call["id"] for call in calls["content"]]
    assert [result["tool_use_id"] for result in results["content"]] == ids
    assert len(set(ids)) == 2
    assert all(id_.startswith("toolu_") and id_.replace("_", "").isalnum() for id_ in ids)
    assert [call["name"] for call in calls["content"]] == ["ns_look", "_"]
    assert [call["input"] for call in calls["content"]] == [{"invalid_arguments": []}, {}]


@pytest.mark.parametrize(
    "message",
    [
        UserMessage(["a", "b"], metadata={"anthropic": {"cache_control": EPHEMERAL}}),
        AssistantMessage("a", [ToolCall("t", "look", {})], metadata={"anthropic": {"cache_control": EPHEMERAL}}),
        ToolResultMessage(
            [ToolResult("t", 1), ToolResult("u", 2)], metadata={"anthropic": {"cache_control": EPHEMERAL}}
        ),
    ],
)
def test_cache_control_of_a_message_is_on_its_last_block(message: Message) -> None:
    *before, last = sent(message, HI)[0]["content"]
    assert last["cache_control"] == EPHEMERAL
    assert all("cache_control" not in block for block in before)
    assert "cache_control" not in str(message.to_json().get("content"))


def test_metadata_of_other_providers_is_ignored() -> None:
    foreign = {"openai": {"cache_control": EPHEMERAL, "content": [text("other")], "thinkingSignature": "s"}}
    said = AssistantMessage([ReasoningBlock("I think"), TextBlock("a")], metadata=foreign)
    assert sent(said, HI)[0] == {"role": "assistant", "content": [text("a")]}


def test_a_picture_by_an_assistant_is_refused() -> None:
    said = AssistantMessage([ImageBlock(BytesSource(b""), "image/png")])
    with pytest.raises(UPPError, match="an assistant message holds image"):
        sent(HI, said, HI)


def test_tools_with_their_own_settings_then_the_answers_then_those_of_params() -> None:
    cached = Tool("cached", "Cached.", {"type": "object"}, str, metadata={"anthropic": {"cache_control": EPHEMERAL}})
    search: JSONObject = {"type": "web_search_20250305", "name": "web_search"}
    body = body_of(tools=[LOOK, cached], params={"tools": [search]}, structure=OPEN)
    assert body["tools"][0] == {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
    assert body["tools"][1] == {
        "name": "cached",
        "description": "Cached.",
        "input_schema": {"type": "object"},
        "cache_control": EPHEMERAL,
    }
    assert [tool["name"] for tool in body["tools"][2:]] == ["json_response", "web_search"]


def test_a_tool_without_a_description_is_sent_without_one() -> None:
    bare = Tool("bare", "", {"type": "object"}, str)
    assert body_of(tools=[bare])["tools"] == [{"name": "bare", "input_schema": {"type": "object"}}]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ({"name": "find"}, {"type": "tool", "name": "find"}),
    ],
)
def test_tool_choice(choice: Any, expected: JSONObject | None) -> None:
    assert body_of(tools=[LOOK, FIND], tool_choice=choice).get("tool_choice") == expected


def test_without_a_choice_that_of_params_stays() -> None:
    params: JSONObject = {"tool_choice": {"type": "tool", "name": "find"}}
    assert body_of(tools=[FIND], params=params)["tool_choice"] == {"type": "tool", "name": "find"}


@pytest.mark.parametrize("choice", ["auto", "none", None])
def test_without_tools_there_is_no_choice(choice: str | None) -> None:
    assert "tool_choice" not in body_of(tool_choice=choice, params={"tool_choice": {"type": "auto"}})


@pytest.mark.parametrize("choice", ["auto", "required", {"name": "look"}])
def test_one_call_at_a_time_holds_for_every_choice(choice: Any) -> None:
    params: JSONObject = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    body = body_of(tools=[LOOK], tool_choice=choice, params=params)
    assert body["tool_choice"]["disable_parallel_tool_use"] is True


def test_a_call_is_forced_once() -> None:
    history = [HI, AssistantMessage([], [ToolCall("t", "look", {})]), ToolResultMessage([ToolResult("t", 1)])]
    assert body_of(*history, tools=[LOOK], tool_choice="required")["tool_choice"] == {"type": "auto"}


@pytest.mark.parametrize("choice", ["required", {"name": "look"}])
@pytest.mark.parametrize("kind", ["enabled", "adaptive", "between_tools"])
def test_no_call_can_be_forced_while_the_model_thinks(choice: Any, kind: str) -> None:
    with pytest.raises(UPPError, match="while thinking is on") as caught:
        body_of(tools=[LOOK], tool_choice=choice, params={"thinking": {"type": kind}})
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("choice", ["required", {"name": "look"}])
def test_calls_can_be_forced_where_thinking_is_off(choice: Any) -> None:
    body = body_of(tools=[LOOK], tool_choice=choice, params={"thinking": {"type": "disabled"}})
    assert body["tool_choice"]["type"] in ("any", "tool")


@pytest.mark.parametrize(
    ("fields", "names", "expected"),
    [
        ({}, ["json_response"], {"type": "tool", "name": "json_response"}),
        ({"tools": [LOOK]}, ["look", "json_response"], {"type": "any"}),
        ({"tools": [LOOK], "tool_choice": "auto"}, ["look", "json_response"], {"type": "any"}),
        (
            {"tools": [LOOK], "tool_choice": "none"},
            ["look", "json_response"],
            {"type": "tool", "name": "json_response"},
        ),
        ({"tools": [LOOK], "tool_choice": "required"}, ["look"], {"type": "any"}),
        ({"tools": [LOOK], "tool_choice": {"name": "look"}}, ["look"], {"type": "tool", "name": "look"}),
        ({"params": THINKING}, ["json_response"], {"type": "auto"}),
        ({"tools": [LOOK], "params": THINKING}, ["look", "json_response"], {"type": "auto"}),
    ],
)
def test_the_choice_where_a_tool_stands_for_the_answer(
    fields: dict[str, Any], names: list[str], expected: JSONObject
) -> None:
    body = body_of(structure=OPEN, **fields)
    assert [tool["name"] for tool in body["tools"]] == names
    assert body["tool_choice"] == expected


@pytest.mark.parametrize("choice", ["any tool", {"type": "auto"}, {"name": "unknown"}])
def test_a_choice_that_is_none_is_refused(choice: Any) -> None:
    with pytest.raises(UPPError) as caught:
        body_of(tools=[LOOK], tool_choice=choice)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
