"""What is sent to Ollama."""

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
    VideoBlock,
)
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.ollama.request import build_body
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool

SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/City"}},
    "$defs": {"City": {"const": 1}},
}
TOOL = Tool("weather", "The weather.", SCHEMA, run=print)
ASK = UserMessage("Hello")


def body(*messages: Message, **fields: Any) -> JSONObject:
    return build_body("qwen3", LLMRequest(messages or (ASK,), **fields), stream=False)


def sent(*messages: Message) -> JSONValue:
    return body(*messages)["messages"]


def test_the_smallest_body() -> None:
    """`stream` is always there, since Ollama would stream by default."""
    assert body() == {"model": "qwen3", "messages": [{"role": "user", "content": "Hello"}], "stream": False}
    assert build_body("qwen3", LLMRequest([ASK]), stream=True)["stream"] is True


def test_a_conversation_in_ollamas_words() -> None:
    calls = [ToolCall("a", "weather", {"city": "Paris"}), ToolCall("b", "time", {})]
    assert sent(
        UserMessage(
            ["Look:", ImageBlock(Base64Source("AA=="), "image/png"), "What is it?", ImageBlock(BytesSource(b"\0"), "i")]
        ),
        AssistantMessage([ReasoningBlock("Hm."), TextBlock("A dot.")], calls),
        ToolResultMessage([ToolResult("a", {"celsius": 20}), ToolResult("b", "no clock", is_error=True)]),
        AssistantMessage("20 °C."),
    ) == [
        {"role": "user", "content": "Look:\nWhat is it?", "images": ["AA==", "AA=="]},
        {
            "role": "assistant",
            "content": "A dot.",
            "thinking": "Hm.",
            "tool_calls": [
                {"function": {"name": "weather", "arguments": {"city": "Paris"}}},
                {"function": {"name": "time", "arguments": {}}},
            ],
        },
        {"role": "tool", "tool_name": "weather", "content": '{"celsius":20}'},
        {"role": "tool", "tool_name": "time", "content": "Error: no clock"},
        {"role": "assistant", "content": "20 °C."},
    ]


def test_a_result_without_its_call_has_no_tool_name() -> None:
    assert sent(ASK, ToolResultMessage([ToolResult("gone", "x")])) == [
        {"role": "user", "content": "Hello"},
        {"role": "tool", "content": "x"},
    ]


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("<think>Hm.</think>\n\nYes.", "Yes."),
        ("<think>\na\n</think>Yes<think>b</think>.", "Yes."),
        ("<think>never closed", "<think>never closed"),
        ("no thoughts", "no thoughts"),
    ],
)
def test_thoughts_inside_a_models_text_are_not_sent_back(said: str, content: str) -> None:
    assert sent(ASK, AssistantMessage(said))[1] == {"role": "assistant", "content": content}  # type: ignore[index]


def test_a_users_own_text_is_never_cut() -> None:
    text = "What does <think>x</think> mean?"
    assert sent(UserMessage(text)) == [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (AssistantMessage([]), {"role": "assistant", "content": ""}),
        (AssistantMessage(" \n"), {"role": "assistant", "content": " \n"}),
        (AssistantMessage([ReasoningBlock("Hm.")]), {"role": "assistant", "content": "", "thinking": "Hm."}),
        (AssistantMessage([ReasoningBlock(" ")]), {"role": "assistant", "content": ""}),
        (AssistantMessage([], []), {"role": "assistant", "content": ""}),
        (ToolResultMessage([ToolResult("c", "")]), {"role": "tool", "content": ""}),
    ],
    ids=["empty", "blank", "reasoning", "blank reasoning", "no calls", "results"],
)
def test_blank_messages_are_messages(message: Message, expected: JSONObject) -> None:
    """Ollama takes messages without text; dropping one would change the conversation."""
    assert sent(ASK, message)[1] == expected  # type: ignore[index]


def test_arguments_that_are_no_object_stand_inside_one() -> None:
    message = AssistantMessage([], [ToolCall("a", "weather", '{"city":')])
    assert sent(ASK, message)[1]["tool_calls"] == [  # type: ignore[index,call-overload]
        {"function": {"name": "weather", "arguments": {"invalid_arguments": '{"city":'}}}
    ]


def test_messages_of_other_providers_lose_what_is_only_theirs() -> None:
    message = AssistantMessage(
        "Hi", id="msg_1", metadata={"anthropic": {"signature": "s"}, "ollama": {"thinking": "t"}}
    )
    assert sent(ASK, message)[1] == {"role": "assistant", "content": "Hi"}  # type: ignore[index]


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("Be brief.", ["Be brief."]),
        ([{"type": "text", "text": "Be brief."}, "Be kind."], ["Be brief.", "Be kind."]),
        ([], []),
    ],
)
def test_the_system_prompt_comes_first(system: str | list[JSONValue], expected: list[str]) -> None:
    messages = body(system=system)["messages"]
    assert messages == [
        *({"role": "system", "content": text} for text in expected),
        {"role": "user", "content": "Hello"},
    ]


def test_params_go_where_ollama_reads_them() -> None:
    """Its own few stand beside the options, everything else inside."""
    params: JSONObject = {
        "keep_alive": "5m",
        "think": "low",
        "logprobs": True,
        "top_logprobs": 2,
        "truncate": False,
        "shift": False,
        "format": "json",
        "temperature": 0,
        "num_ctx": 4096,
        "options": {"seed": 1, "temperature": 1},
    }
    top = {
        name: params[name]
        for name in ("keep_alive", "think", "logprobs", "top_logprobs", "truncate", "shift", "format")
    }
    made = body(params=params)
    assert made.pop("options") == {"seed": 1, "temperature": 0, "num_ctx": 4096}
    assert made == body() | top


def test_params_do_not_change_what_the_adapter_writes() -> None:
    assert body(params={"model": "other", "stream": True, "messages": []}) == body()


def test_tools_are_sent_whole() -> None:
    function = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
    assert body(tools=[TOOL])["tools"] == [{"type": "function", "function": function}]


@pytest.mark.parametrize(("choice", "sends"), [(None, True), ("auto", True), ("none", False)])
def test_tools_are_left_out_when_none_shall_be_called(choice: str | None, sends: bool) -> None:
    made = body(tools=[TOOL], tool_choice=choice, params={"tools": []})
    assert bool(made.get("tools")) is sends
    assert "tool_choice" not in made


@pytest.mark.parametrize("choice", ["required", {"name": "weather"}])
def test_a_forced_call_is_refused(choice: Any) -> None:
    with pytest.raises(UPPError, match="cannot be made to call a tool"):
        body(tools=[TOOL], tool_choice=choice)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"structure": SCHEMA}, SCHEMA),
        ({"response_format": {"type": "json_schema", "schema": SCHEMA, "name": "city", "strict": True}}, SCHEMA),
        ({"response_format": {"type": "json_object"}}, "json"),
        ({"response_format": {"type": "text"}}, None),
    ],
    ids=str,
)
def test_the_form_of_the_answer(fields: dict[str, Any], expected: JSONValue) -> None:
    assert body(**fields).get("format") == expected


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (ImageBlock(UrlSource("https://x.org/a.png"), "image/png"), "give the bytes of https://x.org/a.png"),
        (DocumentBlock(TextSource("x"), "text/plain"), "no document"),
        (AudioBlock(b"", "audio/wav"), "no audio"),
        (VideoBlock(b"", "video/mp4"), "no video"),
        (BinaryBlock(b"", "x/y"), "no binary"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_ollama_cannot_take_is_refused(block: Any, problem: str) -> None:
    with pytest.raises(UPPError, match=problem) as caught:
        body(UserMessage([block]))
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "ollama")


LOSSY: list[tuple[dict[str, Any], str]] = [
    ({"modalities": ["text", "audio"]}, "text only"),
    ({"params": {"options": [1]}}, "params.options must be an object"),
    ({"system": [{"type": "text", "text": "x", "cache_control": {}}]}, "system prompt is text"),
    (
        {"response_format": {"type": "json_schema", "schema": {}, "description": "x"}},
        "no description beside a schema",
    ),
]


@pytest.mark.parametrize(("fields", "problem"), LOSSY, ids=str)
def test_a_request_that_would_lose_something_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UPPError, match=problem):
        body(**fields)


def test_nothing_to_answer_is_refused() -> None:
    """Ollama would load the model, or unload it, and say nothing."""
    with pytest.raises(UPPError, match="no messages"):
        build_body("qwen3", LLMRequest([]), stream=False)


def test_text_alone_may_be_asked_for() -> None:
    assert body(modalities=["text"]) == body()
