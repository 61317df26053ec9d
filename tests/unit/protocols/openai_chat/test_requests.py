"""Requests in OpenAI's form become a turn and options; facts B, T and S of the reference."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.protocols.openai_chat.call_ids import call_id_of, wait_of
from perdure.protocols.openai_chat.conversation import ChatTurn, chat_options, chat_turn, wire_messages
from perdure.protocols.openai_chat.faults import ChatFault, response_fault
from perdure.protocols.openai_chat.model_params import ModelKind
from perdure.protocols.openai_chat.request import ChatRequest, read_chat_request
from perdure.protocols.uamp_events.conversation import Clock
from perdure.uap.ids import derive_id, new_id
from perdure.uap.options import RunOptions
from perdure.upp.content import AudioBlock, DocumentBlock, ImageBlock, TextBlock
from perdure.upp.media_source import Base64Source, UrlSource
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from tests.unit.protocols.uamp_events.client_line import uuids

HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_weather", "description": "d", "parameters": {"type": "object"}},
}
CALLS: list[dict[str, Any]] = [
    {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Tokyo"}'}},
    {"id": "c2", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}},
]


def read(**members: Any) -> ChatRequest:
    return read_chat_request(json.dumps({"model": "echo-agent", "messages": HI, **members}).encode())


def turn(messages: list[dict[str, Any]]) -> ChatTurn:
    clock = Clock(uuids(), datetime(2026, 1, 1, tzinfo=UTC))
    return chat_turn(wire_messages(read(messages=messages), content_id), clock)


def content_id(media: str) -> str:
    return derive_id("test", media)


def options(kind: ModelKind | None = None, **members: Any) -> RunOptions:
    return chat_options(read(**members), ChatTurn(), kind or ModelKind())


def fault(body: bytes) -> ChatFault:
    with pytest.raises(ChatFault) as caught:
        read_chat_request(body)
    return caught.value


def test_b1_a_request_needs_a_model_and_messages_only() -> None:
    request = read(unknown_member={"x": 1})
    assert (request.model, request.streams, request.wants_usage) == ("echo-agent", False, False)
    found = turn(HI)
    assert found.user is not None
    assert (found.user.text, found.history, found.instructions) == ("hi", [], None)


def test_b2_system_and_developer_messages_are_instructions() -> None:
    found = turn([{"role": "system", "content": "A"}, {"role": "developer", "content": "B"}, *HI])
    assert found.instructions == "A\n\nB"
    assert chat_options(read(), found, ModelKind()).instructions == "A\n\nB"


def test_b3_what_stands_before_is_history() -> None:
    found = turn([{"role": "user", "content": "I am Alice"}, {"role": "assistant", "content": "Hello"}, *HI])
    assert [(type(message), message.text) for message in found.history] == [
        (UserMessage, "I am Alice"),
        (AssistantMessage, "Hello"),
    ]


@pytest.mark.parametrize(
    ("members", "param", "code"),
    [
        ({"messages": []}, "messages", "invalid_value"),
        ({"model": None}, "model", "invalid_value"),
        ({"model": ""}, "model", "invalid_value"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "invalid_value"),
        ({"temperature": "hot"}, "temperature", "invalid_value"),
        ({"n": 2}, "n", "unsupported_parameter"),
        ({"logprobs": True}, "logprobs", "unsupported_parameter"),
        ({"modalities": ["text", "audio"]}, "modalities", "unsupported_parameter"),
        ({"functions": []}, "functions", "unsupported_parameter"),
    ],
)
def test_b4_b5_a_request_that_cannot_be_used_names_its_part(members: dict[str, Any], param: str, code: str) -> None:
    body = fault(json.dumps({"model": "m", "messages": HI, **members}).encode())
    assert (body.status, body.type, body.param, body.code) == (400, "invalid_request_error", param, code)
    assert body.to_json()["error"] == {
        "message": str(body),
        "type": "invalid_request_error",
        "param": param,
        "code": code,
    }


def test_b5_no_model() -> None:
    missing = fault(json.dumps({"messages": HI}).encode())
    assert (missing.param, missing.code) == ("model", "missing_required_parameter")


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff", b'{"model":NaN}'])
def test_b6_what_is_no_json_object(body: bytes) -> None:
    assert (fault(body).status, fault(body).code) == (400, "invalid_json")


def test_s6_an_empty_message_is_one() -> None:
    found = turn([{"role": "user", "content": ""}])
    assert found.user is not None
    assert found.user.content == [TextBlock("")]


def test_t2_results_go_to_their_calls() -> None:
    asked: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": CALLS}
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "22"} for call in CALLS]
    found = turn([*HI, asked, *results])
    assert found.user is None
    assert isinstance(found.results, ToolResultMessage)
    assert [(result.tool_call_id, result.result) for result in found.results.results] == [("c1", "22"), ("c2", "22")]
    answer = found.history[-1]
    assert isinstance(answer, AssistantMessage)
    assert [call.arguments for call in answer.tool_calls or ()] == [{"city": "Tokyo"}, {"city": "Oslo"}]


def test_t7_a_result_of_no_call_is_refused() -> None:
    with pytest.raises(ChatFault) as caught:
        turn([*HI, {"role": "tool", "tool_call_id": "other", "content": "1"}])
    assert (caught.value.status, caught.value.code) == (400, "invalid_tool_call_id")
    with pytest.raises(ChatFault, match="tool_call_id"):
        turn([*HI, {"role": "tool", "content": "1"}])


@pytest.mark.parametrize(
    ("choice", "option"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "get_weather"}}, {"name": "get_weather"}),
    ],
)
def test_t5_t6_tools_and_their_choice(choice: Any, option: Any) -> None:
    found = options(tools=[TOOL], tool_choice=choice)
    assert found.tool_choice == option
    assert found.client_tools == [{"name": "get_weather", "description": "d", "parameters": {"type": "object"}}]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_time"}}])
def test_a_choice_of_no_tool_is_refused(choice: Any) -> None:
    with pytest.raises(ChatFault) as caught:
        options(tool_choice=choice)
    assert caught.value.param == "tool_choice"


def test_parameters_of_the_model() -> None:
    found = options(temperature=0, max_tokens=5, max_completion_tokens=7, stop="x", seed=1, user="u")
    assert found.params == {"temperature": 0, "max_completion_tokens": 7, "stop": ["x"], "seed": 1}
    assert options(parallel_tool_calls=False, tools=[TOOL]).params == {"parallel_tool_calls": False}


@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
def test_the_form_of_the_answer(kind: str) -> None:
    form: dict[str, Any] = {"type": kind}
    if kind == "json_schema":
        form["json_schema"] = {"name": "w", "schema": {"type": "object"}, "strict": True}
    assert options(response_format=form).response_format == form
    assert options(response_format={"type": "text"}).response_format is None


def test_parts_become_blocks() -> None:
    data = base64.b64encode(b"hi").decode()
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.jpg"}},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{data}", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "550e8400-e29b-41d4-a716-446655440000", "filename": "b.pdf"}},
    ]
    user = turn([{"role": "user", "content": parts}]).user
    assert user is not None
    stored = UrlSource("/api/content/550e8400-e29b-41d4-a716-446655440000")
    assert user.content == [
        TextBlock("see"),
        ImageBlock(Base64Source(data), "image/png"),
        ImageBlock(UrlSource("https://example.com/a.jpg"), "image/jpeg"),
        AudioBlock(b"hi", "audio/wav"),
        DocumentBlock(Base64Source(data), "application/pdf", "a.pdf"),
        DocumentBlock(stored, "application/pdf", "b.pdf"),
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "file", "file": {"filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": "data:text/plain,hi"}},
        {"type": "input_audio", "input_audio": {"data": "not base64!", "format": "wav"}},
        {"type": "image_url", "image_url": {"url": "data:image/png,hi"}},
    ],
)
def test_a_part_that_cannot_be_used_is_refused(part: dict[str, Any]) -> None:
    with pytest.raises(ChatFault) as caught:
        turn([{"role": "user", "content": [part]}])
    assert caught.value.status == 400


def test_errors_of_responses_in_openais_form() -> None:
    assert response_fault("rate_limit_exceeded", "x").status == 429
    assert response_fault("payment_timeout", "x").status == 402
    assert response_fault("generation_error", "x").status == 500


def test_t7_at_the_end_every_call_has_its_result() -> None:
    asked: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": CALLS}
    one = {"role": "tool", "tool_call_id": "c1", "content": "22"}
    with pytest.raises(ChatFault, match="'c2'") as caught:
        turn([*HI, asked, one])
    assert (caught.value.status, caught.value.code) == (400, "invalid_tool_call_id")
    assert turn([*HI, asked, one, *HI]).user is not None


@pytest.mark.parametrize("end", ["", "-2", "-99"])
def test_a_calls_id_names_its_wait(end: str) -> None:
    wait = new_id() + end
    ident = call_id_of(wait)
    assert len(ident) <= 40
    assert wait_of(ident) == wait


@pytest.mark.parametrize(
    "ident", ["", "call_1", "call_scripted_0_0", "call_" + "g" * 32, "call_" + "a" * 32 + "_0", "x"]
)
def test_other_ids_name_none(ident: str) -> None:
    assert wait_of(ident) is None


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (ModelKind("openai", "completions"), {"max_completion_tokens": 9, "stop": ["a"], "reasoning_effort": "low"}),
        (ModelKind("acme"), {"max_completion_tokens": 9, "stop": ["a"], "reasoning_effort": "low"}),
        (ModelKind("ollama"), {"num_predict": 9, "stop": ["a"], "think": "low"}),
    ],
)
def test_settings_are_told_in_the_models_words(kind: ModelKind, params: dict[str, Any]) -> None:
    assert options(kind, max_completion_tokens=9, stop="a", reasoning_effort="low").params == params


def test_settings_of_each_vendor() -> None:
    google = options(ModelKind("google"), max_tokens=9, stop=["a"], top_p=0.5).params
    assert google == {"maxOutputTokens": 9, "stopSequences": ["a"], "topP": 0.5}
    anthropic = options(ModelKind("anthropic"), tools=[TOOL], parallel_tool_calls=False, max_tokens=9).params
    assert anthropic == {"max_tokens": 9, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    responses = options(ModelKind("openai", "responses"), max_tokens=9, reasoning_effort="low").params
    assert responses == {"max_output_tokens": 9, "reasoning": {"effort": "low"}}
    assert options(ModelKind("google"), tools=[TOOL], parallel_tool_calls=True).params == {}


@pytest.mark.parametrize(
    ("provider", "members"),
    [
        ("anthropic", {"seed": 1}),
        ("google", {"tools": [TOOL], "parallel_tool_calls": False}),
        ("openai", {"stop": "a"}),
    ],
)
def test_what_the_model_does_not_have_is_refused(provider: str, members: dict[str, Any]) -> None:
    with pytest.raises(ChatFault, match=provider) as caught:
        options(ModelKind(provider), **members)
    assert (caught.value.status, caught.value.code) == (400, "unsupported_parameter")
    assert caught.value.param in members
