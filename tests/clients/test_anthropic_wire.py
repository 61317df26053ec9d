"""The Anthropic adapter over HTTP, against answers in the vendor's own form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.upp.content import ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import ToolResultMessage, UserMessage, message_from_json
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.anthropic import anthropic
from perdure.upp.stream import StreamEventType
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.usage import TokenUsage
from tests.clients.adapters import read_stream
from tests.clients.anthropic_vendor import (
    FIXTURES,
    KEY,
    OPEN_PERSON,
    PERSON,
    WEATHER,
    asked,
    complete,
    model,
    of_type,
    stream,
    whole,
)
from tests.clients.vendor_server import VendorServer, json_reply, sse_reply


async def test_a_text_answer(vendor: VendorServer) -> None:
    response = await complete(vendor, "text")
    assert response.message.id == "msg_01Text"
    assert response.message.content == [TextBlock("Die Brücke ist 🌉 1.280 m lang.\n\nIt opened in 1937.")]
    assert response.message.tool_calls is None
    assert response.message.metadata == {"anthropic": {"model": "claude-sonnet-4-6", "stop_reason": "end_turn"}}
    assert response.stop_reason == "end_turn"
    assert response.data is None


@pytest.mark.parametrize("by_stream", [False, True])
async def test_usage_counts_the_cache_apart(vendor: VendorServer, by_stream: bool) -> None:
    response = (await stream(vendor, "text"))[1] if by_stream else await complete(vendor, "text")
    assert response.usage == TokenUsage(21, 29, 50, cache_read_tokens=1805, cache_write_tokens=248)


async def test_counts_at_the_end_of_a_stream_stand_over_those_of_its_start(vendor: VendorServer) -> None:
    late = '"usage": {"input_tokens": 30, "cache_read_input_tokens": null, "output_tokens": 29}'
    raw = (FIXTURES / "text.sse").read_text()
    assert '"usage": {"output_tokens": 29}' in raw
    vendor.replies(sse_reply(raw.replace('"usage": {"output_tokens": 29}', late)))
    _, response = await read_stream(model(), asked(vendor))
    assert response.usage == TokenUsage(30, 29, 59, cache_read_tokens=1805, cache_write_tokens=248)


async def test_the_request_line_and_headers(vendor: VendorServer) -> None:
    await complete(vendor, "text")
    request = vendor.received[0]
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.headers["content-type"] == "application/json"
    assert "anthropic-beta" not in request.headers
    assert request.json() == {
        "model": "claude-sonnet-4-6",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("", "/v1/messages"),
        ("/", "/v1/messages"),
        ("/v1", "/v1/messages"),
        ("/v1/", "/v1/messages"),
        ("/proxy", "/proxy/v1/messages"),
        ("/proxy/v1/messages", "/proxy/v1/messages"),
    ],
)
async def test_the_base_url_may_hold_the_path(vendor: VendorServer, base: str, path: str) -> None:
    await complete(vendor, "text", config=ProviderConfig(api_key=KEY, base_url=vendor.url + base))
    assert vendor.received[0].path == path


async def test_headers_version_and_betas_of_the_application(vendor: VendorServer) -> None:
    vendor.replies(whole("text"))
    config = ProviderConfig(
        api_key=KEY, base_url=vendor.url, api_version="2024-01-01", headers={"X-Api-Key": "other", "x-team": "blue"}
    )
    bound = anthropic("claude-sonnet-4-6", betas=["one-2025-01-01", "two-2025-02-02"]).bind()
    await bound.complete(asked(vendor, config=config))
    headers = vendor.received[0].headers
    assert headers["anthropic-version"] == "2024-01-01"
    assert headers["anthropic-beta"] == "one-2025-01-01,two-2025-02-02"
    assert headers["x-api-key"] == "other"
    assert headers["x-team"] == "blue"


async def test_the_key_comes_from_the_environment(vendor: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    await complete(vendor, "text", config=ProviderConfig(base_url=vendor.url))
    assert vendor.received[0].headers["x-api-key"] == "from-the-environment"


async def test_without_a_key_nothing_is_sent(vendor: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(UPPError, match="ANTHROPIC_API_KEY") as caught:
        await model().complete(asked(vendor, config=ProviderConfig(base_url=vendor.url)))
    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert vendor.received == []


async def test_parallel_tool_calls(vendor: VendorServer) -> None:
    response = await complete(vendor, "tools", tools=[WEATHER])
    assert response.stop_reason == "tool_use"
    assert response.message.tool_calls == [
        ToolCall("toolu_01Paris", "get_weather", {"city": "Paris", "unit": "celsius"}),
        ToolCall("toolu_01Oslo", "get_weather", {"city": "Oslo", "unit": "celsius"}),
        ToolCall("toolu_01Now", "now", {}),
    ]
    assert "content" not in (response.message.metadata or {})["anthropic"]


async def test_streamed_calls_are_whole_json_by_their_fragments(vendor: VendorServer) -> None:
    events, response = await stream(vendor, "tools", tools=[WEATHER])
    fragments: dict[str, str] = {}
    for event in events:
        if event.type is StreamEventType.TOOL_CALL_DELTA:
            id_ = event.delta.tool_call_id or ""
            fragments[id_] = fragments.get(id_, "") + (event.delta.arguments_json or "")
    calls = response.message.tool_calls or []
    assert {id_: json.loads(text) for id_, text in fragments.items()} == {c.tool_call_id: c.arguments for c in calls}


async def test_arguments_that_are_no_json_are_kept_as_text(vendor: VendorServer) -> None:
    _, response = await stream(vendor, "bad_arguments")
    text = '{"filename": "poem.txt", "lines": [1, 2'
    assert response.message.tool_calls == [ToolCall("toolu_01Bad", "make_file", text)]


async def test_arguments_that_are_no_json_go_back_as_an_object(vendor: VendorServer) -> None:
    _, response = await stream(vendor, "bad_arguments")
    results = ToolResultMessage([ToolResult("toolu_01Bad", "not JSON", is_error=True)])
    vendor.replies(whole("text"))
    await model().complete(asked(vendor, UserMessage("go"), response.message, results))
    _, call, result = vendor.received[1].json()["messages"]
    assert call["content"][0]["input"] == {"invalid_arguments": '{"filename": "poem.txt", "lines": [1, 2'}
    assert result["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "toolu_01Bad",
        "content": "not JSON",
        "is_error": True,
    }


async def test_a_call_that_the_token_limit_cut_has_no_arguments(vendor: VendorServer) -> None:
    response = await complete(vendor, "cut_call")
    assert response.stop_reason == "max_tokens"
    assert response.message.tool_calls == [ToolCall("toolu_01Cut", "delete_rows", "")]


async def test_reasoning_is_kept_with_its_signature(vendor: VendorServer) -> None:
    response = await complete(vendor, "thinking")
    reasoning = "The user wants the greatest common divisor; 1071 and 462 share 21."
    assert response.message.content == [ReasoningBlock(reasoning), TextBlock("It is **21**.")]
    metadata = (response.message.metadata or {})["anthropic"]
    assert metadata["thinkingSignature"] == "EsECCokBCBAYAipA9i3HF1aHpQ=="
    assert metadata["thinkingSignatures"] == ["EsECCokBCBAYAipA9i3HF1aHpQ=="]


@pytest.mark.parametrize(
    "name", ["text", "tools", "thinking", "interleaved", "search", "pause", "code", "omitted_thinking"]
)
@pytest.mark.parametrize("by_stream", [False, True])
async def test_what_the_vendor_said_goes_back_block_by_block_as_it_came(
    vendor: VendorServer, name: str, by_stream: bool
) -> None:
    response = (await stream(vendor, name))[1] if by_stream else await complete(vendor, name)
    stored = message_from_json(response.message.to_json())
    vendor.replies(whole("text"))
    await model().complete(asked(vendor, UserMessage("hi"), stored, UserMessage("go on")))
    said = json.loads((FIXTURES / f"{name}.json").read_text())["content"]
    for block in said:
        block.pop("caller", None)
    assert vendor.received[1].json()["messages"][1] == {"role": "assistant", "content": said}


async def test_interleaved_thinking_is_read_in_the_order_of_upp(vendor: VendorServer) -> None:
    response = await complete(vendor, "interleaved")
    assert response.message.content == [
        ReasoningBlock("First the first file."),
        ReasoningBlock("Now the second."),
        TextBlock("I read them one by one."),
    ]
    assert [call.tool_call_id for call in response.message.tool_calls or []] == ["toolu_01A", "toolu_01B"]


async def test_cited_text_is_one_text(vendor: VendorServer) -> None:
    response = await complete(vendor, "search")
    assert response.message.content == [
        TextBlock("I'll look that up."),
        TextBlock("He was born on April 30, 1916, in Petoskey, Michigan."),
    ]
    assert response.message.tool_calls is None


async def test_what_code_printed_is_fenced_text(vendor: VendorServer) -> None:
    events, response = await stream(vendor, "code")
    assert response.message.text == "```\n42\n```\n\nThe result is 42."
    assert of_type(events, StreamEventType.TEXT_DELTA) == "```\n42\n```The result is 42."
    container = (response.message.metadata or {})["anthropic"]["container"]
    assert isinstance(container, dict)
    assert container["id"] == "container_011CPR5CNjB747bTd36fQLFk"


@pytest.mark.parametrize(
    ("name", "stop"), [("pause", "pause_turn"), ("max_tokens", "max_tokens"), ("refusal_late", "refusal")]
)
async def test_the_stop_reason_is_the_vendors_own(vendor: VendorServer, name: str, stop: str) -> None:
    response = await complete(vendor, name)
    assert response.stop_reason == stop
    assert response.message.text


@pytest.mark.parametrize("by_stream", [False, True])
async def test_a_refusal_without_words_is_filtered_content(vendor: VendorServer, by_stream: bool) -> None:
    with pytest.raises(UPPError, match="cyber: The request was blocked") as caught:
        await (stream(vendor, "refusal") if by_stream else complete(vendor, "refusal"))
    assert caught.value.code == ErrorCode.CONTENT_FILTERED


@pytest.mark.parametrize("name", ["empty", "blank", "reasoning_only"])
async def test_after_an_answer_that_says_nothing_the_next_request_is_one_the_vendor_accepts(
    vendor: VendorServer, name: str
) -> None:
    response = await complete(vendor, name)
    vendor.replies(whole("text"))
    await model().complete(asked(vendor, UserMessage("hi"), response.message, UserMessage("still there?")))
    assert vendor.received[1].json()["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "user", "content": [{"type": "text", "text": "still there?"}]},
    ]


async def test_structured_output_is_enforced_by_the_vendor(vendor: VendorServer) -> None:
    response = await complete(vendor, "structured", structure=PERSON, params={"output_config": {"effort": "low"}})
    sent = vendor.received[0].json()
    assert sent["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": PERSON}}
    assert "tools" not in sent
    assert "tool_choice" not in sent
    assert response.data == {"name": "Ada", "born": 1815}


@pytest.mark.parametrize("by_stream", [False, True])
async def test_a_schema_beyond_the_vendors_subset_is_asked_for_by_a_tool(vendor: VendorServer, by_stream: bool) -> None:
    fields: dict[str, Any] = {"structure": OPEN_PERSON}
    response = (
        (await stream(vendor, "answer_tool", **fields))[1]
        if by_stream
        else await complete(vendor, "answer_tool", **fields)
    )
    sent = vendor.received[0].json()
    assert sent["tool_choice"] == {"type": "tool", "name": "json_response"}
    assert [tool["name"] for tool in sent["tools"]] == ["json_response"]
    assert sent["tools"][0]["input_schema"] == OPEN_PERSON
    assert "output_config" not in sent
    assert response.data == {"name": "Ada", "born": 1815}
    assert response.message.tool_calls is None
    assert response.message.text == '{"name":"Ada","born":1815}'
    assert response.stop_reason == "end_turn"


async def test_the_json_of_the_answers_tool_is_streamed_as_text(vendor: VendorServer) -> None:
    events, _ = await stream(vendor, "answer_tool", structure=OPEN_PERSON)
    assert of_type(events, StreamEventType.TEXT_DELTA) == 'Here it is.{"name": "Ada", "born": 1815}'
    assert of_type(events, StreamEventType.TOOL_CALL_DELTA) == ""


async def test_an_answer_given_by_tool_goes_back_as_text(vendor: VendorServer) -> None:
    response = await complete(vendor, "answer_tool", structure=OPEN_PERSON)
    vendor.replies(whole("text"))
    await model().complete(asked(vendor, UserMessage("hi"), response.message, UserMessage("thanks")))
    said = vendor.received[1].json()["messages"][1]["content"]
    assert said == [{"type": "text", "text": '{"name":"Ada","born":1815}'}]


async def test_real_calls_go_before_an_answer_in_the_same_message(vendor: VendorServer) -> None:
    response = await complete(vendor, "answer_tool_and_calls", structure=OPEN_PERSON, tools=[WEATHER])
    assert response.message.tool_calls == [ToolCall("toolu_01Look", "get_weather", {"city": "Oslo"})]
    assert response.data is None
    assert response.stop_reason == "tool_use"


async def test_without_a_structure_a_tool_named_like_the_answers_is_a_tool(vendor: VendorServer) -> None:
    response = await complete(vendor, "answer_tool")
    assert response.message.tool_calls == [ToolCall("toolu_01Answer", "json_response", {"name": "Ada", "born": 1815})]
    assert response.stop_reason == "tool_use"


async def test_a_response_format_gives_text_and_no_data(vendor: VendorServer) -> None:
    wanted: JSONObject = {"type": "json_schema", "schema": OPEN_PERSON, "description": "A person."}
    response = await complete(vendor, "answer_tool", response_format=wanted)
    assert vendor.received[0].json()["tools"][0]["description"].startswith("A person.\n\n")
    assert response.message.text == '{"name":"Ada","born":1815}'
    assert response.data is None


@pytest.mark.parametrize("name", ["text", "max_tokens"])
async def test_a_structured_answer_that_is_no_json_is_an_error(vendor: VendorServer, name: str) -> None:
    with pytest.raises(UPPError, match="no JSON") as caught:
        await complete(vendor, name, structure=PERSON)
    assert caught.value.code == ErrorCode.INVALID_RESPONSE


async def test_a_refusal_of_a_structured_answer_is_filtered_content(vendor: VendorServer) -> None:
    with pytest.raises(UPPError, match="refused") as caught:
        await complete(vendor, "refusal_late", structure=PERSON)
    assert caught.value.code == ErrorCode.CONTENT_FILTERED


async def test_data_is_the_last_text_behind_server_tools(vendor: VendorServer) -> None:
    body = json.loads((FIXTURES / "code.json").read_text())
    body["content"][2]["text"] = '{"name": "Ada", "born": 1815}'
    vendor.replies(json_reply(body))
    response = await model().complete(asked(vendor, structure=PERSON))
    assert response.data == {"name": "Ada", "born": 1815}
