"""Chat Completions over HTTP: OpenAI's own answers, and those of compatible servers."""

from __future__ import annotations

import json
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.upp.content import ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.provider import BoundLLMModel, LLMRequest
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.openai import openai
from perdure.upp.providers.openai_completions import OPENAI, CompletionsModel
from perdure.upp.providers.openrouter import openrouter
from perdure.upp.stream import StreamEventType
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.usage import TokenUsage
from tests.clients.adapters import plain, read_stream
from tests.clients.vendor_server import CUT, Reply, VendorServer, json_reply, sse_reply

FIXTURES = Path(__file__).parent / "fixtures" / "openai_completions"
KEY = "sk-test-0123456789abcdef"
MODEL = CompletionsModel("gpt-x", OPENAI)
PAIRS = ["text", "tools", "refusal", "deepseek"]


def fixture(name: str) -> str:
    return (FIXTURES / name).read_text()


def ask(vendor: VendorServer, *messages: Any, config: Any = None, **fields: Any) -> LLMRequest:
    settings: dict[str, Any] = {"api_key": KEY, "base_url": f"{vendor.url}/v1", **(config or {})}
    return LLMRequest(messages or (UserMessage("hi"),), config=ProviderConfig(**settings), **fields)


@pytest.fixture(params=[openai("gpt-x", api="completions"), openrouter("gpt-x")], ids=["openai", "openrouter"])
def model(request: pytest.FixtureRequest) -> BoundLLMModel:
    """The same answers by OpenAI and by OpenRouter."""
    return request.param.bind()


async def test_a_whole_answer_is_read(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(json_reply(json.loads(fixture("text.json"))))
    response = await model.complete(ask(vendor))
    assert response.message.content == [TextBlock("Hello! How can I assist you today?")]
    assert response.message.id == "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT"
    assert response.message.metadata == {
        model.provider: {
            "model": "gpt-4.1-2025-04-14",
            "finish_reason": "stop",
            "system_fingerprint": "fp_44709d6fcb",
            "service_tier": "default",
        }
    }
    assert (response.stop_reason, response.usage) == ("end_turn", TokenUsage(1117, 10, 1127, 1024))


async def test_the_request_is_one_post_with_the_key_as_bearer(vendor: VendorServer) -> None:
    vendor.replies(json_reply(json.loads(fixture("text.json"))))
    await MODEL.complete(ask(vendor, system="Be brief."))
    (received,) = vendor.received
    assert (received.method, received.path) == ("POST", "/v1/chat/completions")
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.json() == {
        "model": "gpt-x",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    }


@pytest.mark.parametrize("name", PAIRS)
async def test_a_stream_ends_in_the_same_response_as_a_whole_answer(
    vendor: VendorServer, model: BoundLLMModel, name: str
) -> None:
    vendor.replies(json_reply(json.loads(fixture(f"{name}.json"))), sse_reply(fixture(f"{name}.sse")))
    whole = await model.complete(ask(vendor))
    _, streamed = await read_stream(model, ask(vendor))
    assert plain(streamed) == plain(whole)


@pytest.mark.parametrize("piece", [1, 7, 1000])
async def test_pieces_of_the_network_do_not_matter(vendor: VendorServer, piece: int) -> None:
    vendor.replies(sse_reply(fixture("deepseek.sse"), piece=piece))
    events, response = await read_stream(MODEL, ask(vendor))
    assert "".join(e.delta.text or "" for e in events if e.type == "reasoning_delta") == "The date comes first."
    assert response.message.tool_calls == [ToolCall("call_00_Jk3", "get_date", {})]


async def test_text_comes_as_events_in_order(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(sse_reply(fixture("text.sse")))
    events, _ = await read_stream(model, ask(vendor))
    assert [(event.type, event.delta.text) for event in events] == [
        (StreamEventType.MESSAGE_START, None),
        (StreamEventType.TEXT_DELTA, "Hello! How can"),
        (StreamEventType.TEXT_DELTA, " I assist you today?"),
        (StreamEventType.MESSAGE_STOP, None),
    ]


async def test_parallel_calls_come_as_events_with_their_positions(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(sse_reply(fixture("tools.sse")))
    events, response = await read_stream(model, ask(vendor))
    pieces: dict[int, str] = {}
    for event in events:
        if event.type == StreamEventType.TOOL_CALL_DELTA:
            assert event.delta.tool_name == "get_weather"
            pieces[event.index] = pieces.get(event.index, "") + (event.delta.arguments_json or "")
    assert pieces == {0: '{"location":"San Francisco, USA"}', 1: '{"location":"Los Angeles, USA"}'}
    assert [call.arguments for call in response.message.tool_calls or []] == [
        {"location": "San Francisco, USA"},
        {"location": "Los Angeles, USA"},
    ]
    assert response.stop_reason == "tool_use"


async def test_a_stream_asks_for_its_usage(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(sse_reply(fixture("text.sse")))
    _, response = await read_stream(model, ask(vendor))
    assert vendor.received[0].json()["stream_options"] == {"include_usage": True}
    assert response.usage == TokenUsage(1117, 10, 1127, 1024)


async def test_a_server_without_usage_and_with_stop_after_calls_is_understood(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(fixture("vllm_tools.sse")))
    events, response = await read_stream(MODEL, ask(vendor))
    assert response.usage == TokenUsage(0, 0, 0)
    assert response.stop_reason == "tool_use"
    assert response.message.tool_calls == [ToolCall("chatcmpl-tool-a1", "get_weather", {"location": "Oslo"})]
    assert response.message.content == [ReasoningBlock("Two cities.")]
    assert [event.delta.text for event in events if event.type == "reasoning_delta"] == ["Two cities."]


async def test_groqs_reasoning_and_usage_are_read(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(fixture("groq.sse")))
    _, response = await read_stream(MODEL, ask(vendor))
    assert response.message.content == [ReasoningBlock("Easy."), TextBlock("4")]
    assert response.usage == TokenUsage(20, 9, 29)


async def test_azures_first_chunk_and_filter_are_read(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(fixture("azure.sse")))
    _, response = await read_stream(MODEL, ask(vendor))
    assert (response.message.id, response.message.text) == ("chatcmpl-CECIiMMWyfACuKUYWEyYSazcnvRVo", "Sunny.")
    assert response.stop_reason == "content_filter"


async def test_a_deepseek_turn_with_tools_goes_back_with_its_reasoning(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(fixture("deepseek.sse")), json_reply(json.loads(fixture("text.json"))))
    _, first = await read_stream(MODEL, ask(vendor))
    result = ToolResultMessage([ToolResult("call_00_Jk3", "2026-01-01")])
    await MODEL.complete(ask(vendor, UserMessage("hi"), first.message, result))
    assert vendor.received[1].json()["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "The date comes first.",
            "tool_calls": [
                {"id": "call_00_Jk3", "type": "function", "function": {"name": "get_date", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_00_Jk3", "content": "2026-01-01"},
    ]


async def test_bad_arguments_are_kept_and_the_next_request_is_still_good(
    vendor: VendorServer, model: BoundLLMModel
) -> None:
    answer = json.loads(fixture("tools.json"))
    answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"location":'
    vendor.replies(json_reply(answer), json_reply(json.loads(fixture("text.json"))))
    first = (await model.complete(ask(vendor))).message
    calls = first.tool_calls or []
    assert [call.arguments for call in calls] == ['{"location":', {"location": "Los Angeles, USA"}]
    results = ToolResultMessage(
        [ToolResult(calls[0].tool_call_id, "no JSON", True), ToolResult(calls[1].tool_call_id, 1)]
    )
    await model.complete(ask(vendor, UserMessage("hi"), first, results))
    sent = vendor.received[1].json()["messages"]
    assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"invalid_arguments": '{"location":'}
    assert sent[2]["content"] == "Error: no JSON"


@pytest.mark.parametrize(
    "said",
    [
        AssistantMessage([]),
        AssistantMessage(" \n"),
        AssistantMessage([ReasoningBlock("hm")]),
        AssistantMessage([], [ToolCall("a", "f", {})]),
    ],
)
async def test_after_an_empty_answer_the_next_request_has_text_or_calls(
    vendor: VendorServer, model: BoundLLMModel, said: AssistantMessage
) -> None:
    vendor.replies(json_reply(json.loads(fixture("text.json"))))
    await model.complete(ask(vendor, UserMessage("hi"), said, UserMessage("and?")))
    sent = vendor.received[0].json()["messages"][1]
    assert isinstance(sent["content"], str) or sent["tool_calls"]


async def test_an_empty_stream_answer_is_a_message(vendor: VendorServer, model: BoundLLMModel) -> None:
    raw = 'data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n'
    vendor.replies(sse_reply(raw))
    _, response = await read_stream(model, ask(vendor))
    assert (response.message.content, response.stop_reason) == ([], "max_tokens")


async def test_a_refusal_is_text_and_the_stop_reason_says_so(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(json_reply(json.loads(fixture("refusal.json"))))
    response = await model.complete(ask(vendor))
    assert response.message.text == "I'm sorry, I cannot assist with that request."
    assert response.stop_reason == "content_filter"


async def test_an_answer_that_the_token_limit_cut_says_so(vendor: VendorServer, model: BoundLLMModel) -> None:
    answer = json.loads(fixture("text.json"))
    answer["choices"][0]["finish_reason"] = "length"
    vendor.replies(json_reply(answer))
    response = await model.complete(ask(vendor))
    assert (response.message.text, response.stop_reason) == ("Hello! How can I assist you today?", "max_tokens")


@pytest.mark.parametrize(("name", "code"), [("text", "INVALID_RESPONSE"), ("refusal", "CONTENT_FILTERED")])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_structured_answer_that_is_none_is_an_error(
    vendor: VendorServer, model: BoundLLMModel, name: str, code: str, streamed: bool
) -> None:
    vendor.replies(sse_reply(fixture(f"{name}.sse")) if streamed else json_reply(json.loads(fixture(f"{name}.json"))))
    request = ask(vendor, structure={"type": "object", "properties": {}})
    with pytest.raises(UPPError) as caught:
        await (read_stream(model, request) if streamed else model.complete(request))
    assert caught.value.code == code


async def test_structured_data_is_read_from_a_stream(vendor: VendorServer, model: BoundLLMModel) -> None:
    raw = (
        'data: {"choices":[{"index":0,"delta":{"content":"{\\"a\\":"}}]}\n\n'
        'data: {"choices":[{"index":0,"delta":{"content":"1}"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    )
    vendor.replies(sse_reply(raw))
    schema: JSONObject = {"type": "object", "properties": {"a": {"type": "integer"}}}
    _, response = await read_stream(model, ask(vendor, structure=schema))
    assert response.data == {"a": 1}
    assert vendor.received[0].json()["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (
            json_reply({"error": {"message": "long", "code": "context_length_exceeded"}}, 400),
            ErrorCode.CONTEXT_LENGTH_EXCEEDED,
        ),
        (
            json_reply({"object": "error", "message": "This model's maximum context length is 8 tokens"}, 400),
            ErrorCode.CONTEXT_LENGTH_EXCEEDED,
        ),
        (
            json_reply({"error": {"code": 400, "message": "big", "type": "exceed_context_size_error"}}, 400),
            ErrorCode.CONTEXT_LENGTH_EXCEEDED,
        ),
        (json_reply({"error": {"message": "filtered", "code": "content_filter"}}, 400), ErrorCode.CONTENT_FILTERED),
        (json_reply({"error": {"message": "Insufficient Balance"}}, 402), ErrorCode.QUOTA_EXCEEDED),
        (json_reply({"error": {"message": "no", "code": "model_not_found"}}, 404), ErrorCode.MODEL_NOT_FOUND),
        (json_reply({"detail": "wrong"}, 422), ErrorCode.INVALID_REQUEST),
        (json_reply({"error": {"message": "slow", "code": "rate_limit_exceeded"}}, 429), ErrorCode.RATE_LIMITED),
        (json_reply({"error": {"message": "broke", "code": "insufficient_quota"}}, 429), ErrorCode.QUOTA_EXCEEDED),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_error_has_the_code_of_its_status_and_its_body(
    vendor: VendorServer, model: BoundLLMModel, reply: Reply, code: ErrorCode, streamed: bool
) -> None:
    vendor.replies(reply)
    with pytest.raises(UPPError) as caught:
        await (read_stream(model, ask(vendor)) if streamed else model.complete(ask(vendor)))
    assert (caught.value.code, caught.value.status_code, caught.value.provider) == (code, reply.status, model.provider)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"error": {"message": "busy", "code": 429}}, ErrorCode.RATE_LIMITED),
        ({"error": {"message": "down", "code": 502}}, ErrorCode.PROVIDER_ERROR),
        ({"error": {"message": "long", "code": "context_length_exceeded"}}, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        ({"error": "overloaded"}, ErrorCode.PROVIDER_ERROR),
        ({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}, ErrorCode.INVALID_REQUEST),
        ({"choices": [{"error": {"message": "busy", "code": 429}, "message": {}}]}, ErrorCode.RATE_LIMITED),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_errors_inside_good_answers_become_codes(
    vendor: VendorServer, model: BoundLLMModel, error: Any, code: ErrorCode, streamed: bool
) -> None:
    vendor.replies(sse_reply(f"data: {json.dumps(error)}\n\n") if streamed else json_reply(error))
    with pytest.raises(UPPError) as caught:
        await (read_stream(model, ask(vendor)) if streamed else model.complete(ask(vendor)))
    assert caught.value.code == code


async def test_no_error_shows_the_key(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(json_reply({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401))
    with pytest.raises(UPPError) as caught:
        await model.complete(ask(vendor))
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("value", [[], {}, {"choices": []}, {"choices": [{"message": {"content": 1}}]}])
async def test_an_answer_of_another_shape_is_invalid(vendor: VendorServer, model: BoundLLMModel, value: Any) -> None:
    vendor.replies(json_reply(value))
    with pytest.raises(UPPError) as caught:
        await model.complete(ask(vendor))
    assert caught.value.code == ErrorCode.INVALID_RESPONSE


def _cut_streams() -> list[Any]:
    whole = fixture("text.sse")
    half = whole[: whole.index('"finish_reason":"stop"')].rsplit("data: ", 1)[0]
    return [
        pytest.param(sse_reply(half), id="ends before the finish reason"),
        pytest.param(sse_reply(half).then(CUT), id="connection breaks"),
        pytest.param(sse_reply(half + "data: [DONE]\n\n"), id="done without a finish reason"),
        pytest.param(sse_reply(""), id="nothing at all"),
    ]


@pytest.mark.parametrize("reply", _cut_streams())
async def test_a_cut_stream_is_a_network_error(vendor: VendorServer, model: BoundLLMModel, reply: Reply) -> None:
    vendor.replies(reply)
    with pytest.raises(UPPError) as caught:
        await read_stream(model, ask(vendor))
    assert caught.value.code == ErrorCode.NETWORK_ERROR


async def test_a_stream_that_ends_after_the_finish_reason_is_whole(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(sse_reply(fixture("text.sse").replace("data: [DONE]\n\n", "")))
    _, response = await read_stream(model, ask(vendor))
    assert response.message.text == "Hello! How can I assist you today?"


async def test_malformed_events_are_skipped(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(sse_reply("data: {broken\n\ndata: 5\n\n" + fixture("text.sse")))
    _, response = await read_stream(model, ask(vendor))
    assert response.message.text == "Hello! How can I assist you today?"


async def test_a_chunk_of_another_shape_is_invalid(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(sse_reply('data: {"choices":[{"delta":{"content":{"a":1}}}]}\n\n'))
    with pytest.raises(UPPError) as caught:
        await read_stream(model, ask(vendor))
    assert caught.value.code == ErrorCode.INVALID_RESPONSE


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_vendor_that_says_nothing_is_a_timeout(
    vendor: VendorServer, model: BoundLLMModel, streamed: bool
) -> None:
    vendor.replies(json_reply({}).after(60.0))
    request = ask(vendor, config={"timeout": timedelta(milliseconds=50)})
    with pytest.raises(UPPError) as caught:
        await (read_stream(model, request) if streamed else model.complete(request))
    assert caught.value.code == ErrorCode.TIMEOUT


async def test_keep_alives_and_a_slow_first_byte_are_waited_for(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(sse_reply(fixture("text.sse")).after(b": wait\n\n", 0.02, b": wait\n\n", 0.02))
    _, response = await read_stream(model, ask(vendor, config={"timeout": timedelta(seconds=60)}))
    assert response.message.text == "Hello! How can I assist you today?"


async def test_nothing_is_sent_before_the_stream_is_read(vendor: VendorServer, model: BoundLLMModel) -> None:
    await model.stream(ask(vendor)).aclose()
    assert vendor.received == []


async def test_closing_a_stream_closes_its_connection(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(sse_reply(fixture("text.sse")[:900]).then(60.0))
    async with aclosing(model.stream(ask(vendor))) as stream:
        await anext(stream)
    await vendor.hung_up()


async def test_own_headers_win(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(json_reply(json.loads(fixture("text.json"))))
    headers = {"authorization": "Custom x", "OpenAI-Organization": "org"}
    await model.complete(ask(vendor, config={"headers": headers}))
    sent = vendor.received[0].headers
    assert (sent["authorization"], sent["openai-organization"]) == ("Custom x", "org")


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("", "/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/openai/deployments/x?api-version=1", "/openai/deployments/x/chat/completions?api-version=1"),
    ],
)
async def test_the_base_url_may_hold_the_endpoint_and_a_query(
    vendor: VendorServer, model: BoundLLMModel, path: str, sent: str
) -> None:
    vendor.replies(json_reply(json.loads(fixture("text.json"))))
    await model.complete(ask(vendor, config={"base_url": vendor.url + path}))
    assert vendor.received[0].path == sent


async def test_another_server_needs_no_key(vendor: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    vendor.replies(json_reply(json.loads(fixture("text.json"))))
    await MODEL.complete(ask(vendor, config={"api_key": None}))
    assert "authorization" not in vendor.received[0].headers


@pytest.mark.parametrize("base_url", [None, "https://api.openai.com/v1", "https://eu.api.openai.com/v1"])
async def test_the_vendor_itself_needs_a_key(base_url: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    request = LLMRequest([UserMessage("hi")], config=ProviderConfig(base_url=base_url))
    with pytest.raises(UPPError, match="set OPENAI_API_KEY") as caught:
        await MODEL.complete(request)
    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED


async def test_the_environments_key_is_used(vendor: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    vendor.replies(json_reply(json.loads(fixture("text.json"))))
    await MODEL.complete(ask(vendor, config={"api_key": None}))
    assert vendor.received[0].headers["authorization"] == "Bearer from-the-environment"


async def test_lone_surrogates_do_not_stop_a_request(vendor: VendorServer) -> None:
    vendor.replies(json_reply(json.loads(fixture("text.json"))))
    call = AssistantMessage([], [ToolCall("a", "f", {"x": "\ud83c"})])
    await MODEL.complete(ask(vendor, UserMessage("a\ud83cb\0"), call))
    sent = vendor.received[0].json()["messages"]
    assert sent[0]["content"] == "a\ufffdb\0"
    assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"x": "\ufffd"}
