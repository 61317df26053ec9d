"""The Anthropic adapter's streams, and its failures, over HTTP."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.stream import StreamEventType
from perdure.upp.tool_call import ToolCall
from tests.clients.adapters import read_stream
from tests.clients.anthropic_vendor import (
    BOTH,
    FIXTURES,
    KEY,
    OPEN_PERSON,
    asked,
    complete,
    model,
    of_type,
    stream,
    streamed,
    whole,
)
from tests.clients.vendor_server import CUT, VendorServer, json_reply, sse_reply


@pytest.mark.parametrize("name", BOTH)
async def test_a_stream_gives_the_message_that_the_whole_answer_gives(vendor: VendorServer, name: str) -> None:
    fields: dict[str, Any] = {"structure": OPEN_PERSON} if name == "answer_tool" else {}
    results: list[object] = []
    for reply in (whole(name), streamed(name, piece=61)):
        vendor.replies(reply)
        try:
            request = asked(vendor, **fields)
            by_stream = bool(results)
            response = (await read_stream(model(), request))[1] if by_stream else await model().complete(request)
        except UPPError as error:
            results.append(str(error))
        else:
            message = response.message.to_json() | {"timestamp": ""}
            results.append((message, response.usage, response.stop_reason, response.data))
    assert results[0] == results[1]


async def test_a_stream_may_come_byte_by_byte(vendor: VendorServer) -> None:
    vendor.replies(streamed("text", piece=1))
    events, response = await read_stream(model(), asked(vendor))
    assert of_type(events, StreamEventType.TEXT_DELTA) == response.message.text
    assert response.message.text == "Die Brücke ist 🌉 1.280 m lang.\n\nIt opened in 1937."


async def test_the_events_of_a_stream_in_order(vendor: VendorServer) -> None:
    events, _ = await stream(vendor, "thinking")
    shown: list[str] = []
    for event in events:
        if not shown or shown[-1] != f"{event.type}[{event.index}]":
            shown.append(f"{event.type}[{event.index}]")
    assert shown == [
        "message_start[0]",
        "content_block_start[0]",
        "reasoning_delta[0]",
        "content_block_stop[0]",
        "content_block_start[1]",
        "text_delta[1]",
        "content_block_stop[1]",
        "message_stop[0]",
    ]


async def test_a_stream_is_asked_for_as_one(vendor: VendorServer) -> None:
    await stream(vendor, "text", params={"stream": False})
    request = vendor.received[0]
    assert request.json()["stream"] is True
    assert request.headers["accept"] == "text/event-stream"


async def test_a_whole_answer_is_asked_for_whatever_the_params_say(vendor: VendorServer) -> None:
    await complete(vendor, "text", params={"stream": True})
    assert "stream" not in vendor.received[0].json()


async def test_nothing_is_sent_before_the_stream_is_read(vendor: VendorServer) -> None:
    vendor.replies(streamed("text"))
    result = model().stream(asked(vendor))
    await result.aclose()
    assert vendor.received == []


async def test_closing_a_stream_early_closes_the_connection(vendor: VendorServer) -> None:
    head, _, _ = (FIXTURES / "text.sse").read_text().partition("event: content_block_stop")
    vendor.replies(sse_reply(head).then(30.0))
    result = model().stream(asked(vendor))
    assert (await anext(result)).type is StreamEventType.MESSAGE_START
    await result.aclose()
    await vendor.hung_up()


async def test_a_connection_is_used_again_after_a_stream(vendor: VendorServer) -> None:
    await stream(vendor, "text")
    await stream(vendor, "text")
    assert vendor.connections == 1


@pytest.mark.parametrize("cut", ["event: message_delta", "event: message_stop", "event: content_block_stop"])
@pytest.mark.parametrize("clean", [True, False])
async def test_a_stream_that_ends_early_is_a_network_error(vendor: VendorServer, cut: str, clean: bool) -> None:
    head, found, _ = (FIXTURES / "tools.sse").read_text().partition(cut)
    assert found
    reply = sse_reply(head)
    vendor.replies(reply if clean else reply.then(CUT))
    with pytest.raises(UPPError) as caught:
        await read_stream(model(), asked(vendor))
    assert caught.value.code == ErrorCode.NETWORK_ERROR
    assert caught.value.retryable


async def test_an_error_inside_a_stream(vendor: VendorServer) -> None:
    with pytest.raises(UPPError, match="Overloaded") as caught:
        await stream(vendor, "overloaded")
    assert caught.value.code == ErrorCode.PROVIDER_ERROR
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("rate_limit_error", ErrorCode.RATE_LIMITED),
        ("authentication_error", ErrorCode.AUTHENTICATION_FAILED),
        ("api_error", ErrorCode.PROVIDER_ERROR),
        ("billing_error", ErrorCode.QUOTA_EXCEEDED),
        ("invalid_request_error", ErrorCode.INVALID_REQUEST),
        ("timeout_error", ErrorCode.TIMEOUT),
    ],
)
async def test_the_kinds_of_errors_inside_a_stream(vendor: VendorServer, kind: str, code: ErrorCode) -> None:
    data = {"type": "error", "error": {"type": kind, "message": "what happened"}}
    vendor.replies(sse_reply(f"event: error\ndata: {json.dumps(data)}\n\n"))
    with pytest.raises(UPPError, match="what happened") as caught:
        await read_stream(model(), asked(vendor))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("status", "kind", "text", "code"),
    [
        (400, "invalid_request_error", "messages.0: bad", ErrorCode.INVALID_REQUEST),
        (400, "invalid_request_error", "prompt is too long: 214315 tokens > 200000", ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
            ErrorCode.CONTEXT_LENGTH_EXCEEDED,
        ),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API.",
            ErrorCode.QUOTA_EXCEEDED,
        ),
        (400, "invalid_request_error", "Output blocked by content filtering policy", ErrorCode.CONTENT_FILTERED),
        (401, "authentication_error", "invalid x-api-key", ErrorCode.AUTHENTICATION_FAILED),
        (402, "billing_error", "pay", ErrorCode.QUOTA_EXCEEDED),
        (403, "permission_error", "not yours", ErrorCode.AUTHENTICATION_FAILED),
        (404, "not_found_error", "model: claude-x", ErrorCode.MODEL_NOT_FOUND),
        (413, "request_too_large", "Request exceeds the maximum size", ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        (429, "rate_limit_error", "too fast", ErrorCode.RATE_LIMITED),
        (500, "api_error", "Internal server error", ErrorCode.PROVIDER_ERROR),
        (504, "timeout_error", "too slow", ErrorCode.PROVIDER_ERROR),
        (529, "overloaded_error", "Overloaded", ErrorCode.PROVIDER_ERROR),
    ],
)
@pytest.mark.parametrize("by_stream", [False, True])
async def test_each_error_status(
    vendor: VendorServer, status: int, kind: str, text: str, code: ErrorCode, by_stream: bool
) -> None:
    body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_011C"}
    vendor.replies(json_reply(body, status, {"retry-after": "7"}))
    with pytest.raises(UPPError) as caught:
        await (read_stream(model(), asked(vendor)) if by_stream else model().complete(asked(vendor)))
    error = caught.value
    assert (error.code, error.status_code, error.provider) == (code, status, "anthropic")
    assert text in error.message
    assert error.retry_after == timedelta(seconds=7)
    assert KEY not in str(error)


async def test_an_error_that_a_gateway_sends_with_200_is_one(vendor: VendorServer) -> None:
    vendor.replies(json_reply({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}))
    with pytest.raises(UPPError, match="Overloaded") as caught:
        await model().complete(asked(vendor))
    assert caught.value.code == ErrorCode.PROVIDER_ERROR


NO_MESSAGES: list[JSONObject] = [
    {},
    {"content": "text"},
    {"content": [{"text": "no type"}]},
    {"content": [{"type": "text"}]},
    {"content": [{"type": "thinking", "thinking": 7}]},
    {"content": [{"type": "tool_use", "id": "toolu_1", "input": {}}]},
    {"content": [], "usage": {"input_tokens": "many"}},
    {"content": [], "stop_reason": ["end_turn"]},
]


@pytest.mark.parametrize("body", NO_MESSAGES)
async def test_an_answer_of_another_shape_is_invalid(vendor: VendorServer, body: JSONObject) -> None:
    vendor.replies(json_reply(body))
    with pytest.raises(UPPError) as caught:
        await model().complete(asked(vendor))
    assert caught.value.code == ErrorCode.INVALID_RESPONSE
    assert caught.value.provider == "anthropic"


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_start"},
        {"type": "message_delta", "delta": "end_turn"},
        {"type": "content_block_start", "index": "0", "content_block": {}},
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_delta", "index": 0},
        {"type": "content_block_delta", "index": 0, "delta": {"text": "no type"}},
        {"type": "content_block_delta", "index": 5, "delta": {"type": "text_delta", "text": "no block"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}},
        {"type": "content_block_stop"},
        {"type": "content_block_stop", "index": 5},
    ],
)
async def test_a_malformed_event_is_invalid(vendor: VendorServer, event: JSONObject) -> None:
    raw = (FIXTURES / "text.sse").read_text()
    before, found, after = raw.partition("event: content_block_stop")
    vendor.replies(sse_reply(f"{before}event: {event['type']}\ndata: {json.dumps(event)}\n\n{found}{after}"))
    with pytest.raises(UPPError) as caught:
        await read_stream(model(), asked(vendor))
    assert caught.value.code == ErrorCode.INVALID_RESPONSE


async def test_keep_alives_unknown_events_and_broken_data_are_skipped(vendor: VendorServer) -> None:
    raw = (FIXTURES / "text.sse").read_text()
    noise = (
        ': keep-alive\n\nevent: ping\ndata: {"type": "ping"}\n\nevent: news\ndata: {"type": "news", "a": 1}\n\n'
        'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "x": 1}}\n\ndata: {broken\n\n'
    )
    vendor.replies(sse_reply(raw.replace("event: content_block_stop", f"{noise}event: content_block_stop")))
    _, response = await read_stream(model(), asked(vendor))
    assert response.message.text == "Die Brücke ist 🌉 1.280 m lang.\n\nIt opened in 1937."


async def test_a_message_start_that_comes_twice_counts_once(vendor: VendorServer) -> None:
    raw = (FIXTURES / "text.sse").read_text()
    first, _, _ = raw.partition("event: content_block_start")
    vendor.replies(sse_reply(first + raw))
    events, response = await read_stream(model(), asked(vendor))
    assert [event.type for event in events].count(StreamEventType.MESSAGE_START) == 1
    assert response.usage.input_tokens == 21


async def test_blocks_that_come_with_the_start_of_a_message_are_read(vendor: VendorServer) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"id": "c1"}}
    message = {"id": "msg_1", "content": [call], "stop_reason": "tool_use", "usage": {"input_tokens": 1}}
    start = json.dumps({"type": "message_start", "message": message})
    vendor.replies(
        sse_reply(f'event: message_start\ndata: {start}\n\nevent: message_stop\ndata: {{"type": "message_stop"}}\n\n')
    )
    events, response = await read_stream(model(), asked(vendor))
    assert response.message.tool_calls == [ToolCall("toolu_1", "look", {"id": "c1"})]
    assert of_type(events, StreamEventType.TOOL_CALL_DELTA) == '{"id":"c1"}'


async def test_a_slow_first_byte_is_waited_for(vendor: VendorServer) -> None:
    vendor.replies(streamed("text").after(0.2))
    config = ProviderConfig(api_key=KEY, base_url=vendor.url, timeout=timedelta(seconds=60))
    _, response = await read_stream(model(), asked(vendor, config=config))
    assert response.stop_reason == "end_turn"


async def test_a_vendor_that_does_not_answer_in_time_is_a_timeout(vendor: VendorServer) -> None:
    vendor.replies(whole("text").after(30.0))
    config = ProviderConfig(api_key=KEY, base_url=vendor.url, timeout=timedelta(seconds=0.1))
    with pytest.raises(UPPError) as caught:
        await model().complete(asked(vendor, config=config))
    assert caught.value.code == ErrorCode.TIMEOUT


async def test_what_is_refused_is_refused_before_anything_is_sent(vendor: VendorServer) -> None:
    with pytest.raises(UPPError) as caught:
        await read_stream(model(), asked(vendor, modalities=["text", "audio"]))
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert vendor.received == []
