"""The Responses adapter's streams, and its failures, over HTTP."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from perdure.upp.content import TextBlock
from perdure.upp.errors import ErrorCode
from perdure.upp.json_value import JSONObject
from perdure.upp.stream import StreamEvent
from tests.clients.responses_vendor import (
    ANSWERS,
    KEY,
    asking,
    complete,
    failure,
    model,
    raw,
    read_fixture,
    shape,
    stream,
    whole,
)
from tests.clients.vendor_server import CUT, Reply, VendorServer, json_reply, sse_reply


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_stream_ends_in_the_same_answer(vendor: VendorServer, name: str) -> None:
    expected = await complete(vendor, name)
    vendor.replies(sse_reply(raw(name), piece=61))
    _, response = await stream(asking(vendor))
    assert shape(response) == shape(expected)
    assert vendor.received[1].json() == {**vendor.received[0].json(), "stream": True}


@pytest.mark.parametrize("name", ANSWERS)
async def test_the_pieces_of_a_stream_are_the_answers(vendor: VendorServer, name: str) -> None:
    vendor.replies(sse_reply(raw(name)))
    events, response = await stream(asking(vendor))
    message = response.message

    def told(kind: str) -> list[StreamEvent]:
        return [event for event in events if event.type == kind]

    pieces = {
        kind: "".join(event.delta.text or "" for event in told(kind)) for kind in ("text_delta", "reasoning_delta")
    }
    assert pieces["text_delta"] == "".join(block.text for block in message.content if isinstance(block, TextBlock))
    assert pieces["reasoning_delta"] == "".join(block.text for block in message.reasoning)
    arguments: dict[str, str] = {}
    for event in told("tool_call_delta"):
        call_id = event.delta.tool_call_id or ""
        arguments[call_id] = arguments.get(call_id, "") + (event.delta.arguments_json or "")
    said = read_fixture(name)["output"]
    assert arguments == {item["call_id"]: item["arguments"] for item in said if item.get("arguments")}


async def test_the_events_of_a_stream_come_in_their_order(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(raw("tools")))
    events, _ = await stream(asking(vendor))
    told = [(str(event.type), event.index) for event in events]
    assert list(dict.fromkeys(told)) == [
        ("message_start", 0),
        ("content_block_start", 0),
        ("reasoning_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("tool_call_delta", 1),
        ("content_block_stop", 1),
        ("content_block_start", 2),
        ("tool_call_delta", 2),
        ("content_block_stop", 2),
        ("message_stop", 0),
    ]
    assert {(event.delta.tool_call_id, event.delta.tool_name) for event in events if event.index == 2} >= {
        ("call_oslo", "get_weather")
    }


async def test_an_image_comes_in_one_event(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(raw("image")))
    events, _ = await stream(asking(vendor))
    assert [event.delta.data for event in events if event.type == "image_delta"] == [b"RIFF\x16\x00\x00\x00WEBP"]


async def test_comments_that_keep_a_stream_alive_are_no_events(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(": keep-alive\n\n" + raw("text").replace("\n\n", "\n\n: ping\n\n")))
    events, response = await stream(asking(vendor))
    assert response.message.text == "Rayleigh scattering. — ☀ 蓝"
    assert events[0].type == "message_start"


async def test_an_event_that_is_no_json_is_passed_over(vendor: VendorServer) -> None:
    vendor.replies(sse_reply("event: response.output_text.delta\ndata: {oops\n\n" + raw("text")))
    _, response = await stream(asking(vendor))
    assert response.message.id == "resp_text"


async def test_a_first_byte_may_take_its_time(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(raw("text")).after(0.05))
    _, response = await stream(asking(vendor))
    assert response.stop_reason == "end_turn"


async def test_a_first_byte_that_takes_too_long_is_a_timeout(vendor: VendorServer) -> None:
    reply = sse_reply(raw("text")).after(60.0)
    error = await failure(vendor, reply, streamed=True, config={"timeout": timedelta(milliseconds=50)})
    assert error.code == ErrorCode.TIMEOUT


LAST = raw("text").index("event: response.completed")


@pytest.mark.parametrize(
    "reply",
    [
        sse_reply(raw("text")[:LAST]),
        sse_reply(raw("text")[:LAST]).then(CUT),
        sse_reply(raw("text")[: LAST + 40]),
        sse_reply(raw("text")[:LAST] + "data: [DONE]\n\n"),
        sse_reply(""),
    ],
    ids=["ends", "breaks", "ends in an event", "done too early", "empty"],
)
async def test_a_stream_that_does_not_end_its_answer_was_cut(vendor: VendorServer, reply: Reply) -> None:
    error = await failure(vendor, reply, streamed=True)
    assert (error.code, error.retryable) == (ErrorCode.NETWORK_ERROR, True)


async def test_a_stream_that_stays_open_after_its_answer_does_not_hold_it_up(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(raw("text")).then(30.0))
    _, response = await stream(asking(vendor))
    assert response.message.id == "resp_text"


async def test_the_connection_of_a_stream_that_was_read_is_used_again(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(raw("text")))
    await stream(asking(vendor))
    await stream(asking(vendor))
    assert vendor.connections == 1


async def test_a_stream_that_is_given_up_closes_its_connection(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(raw("text")[:LAST]).then(30.0))
    result = model().stream(asking(vendor))
    await anext(result)
    await result.aclose()
    await vendor.hung_up()


async def test_nothing_is_sent_before_a_stream_is_read(vendor: VendorServer) -> None:
    result = model().stream(asking(vendor))
    await result.aclose()
    assert vendor.received == []


# Errors


def error_body(code: str | None, kind: str = "invalid_request_error", message: str = "Not so.") -> JSONObject:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


ERRORS: list[tuple[int, JSONObject, ErrorCode]] = [
    (400, error_body(None), ErrorCode.INVALID_REQUEST),
    (400, error_body("context_length_exceeded"), ErrorCode.CONTEXT_LENGTH_EXCEEDED),
    (400, error_body("invalid_prompt"), ErrorCode.CONTENT_FILTERED),
    (400, error_body("invalid_image_url"), ErrorCode.INVALID_REQUEST),
    (400, error_body("model_not_found"), ErrorCode.MODEL_NOT_FOUND),
    (401, error_body("invalid_api_key"), ErrorCode.AUTHENTICATION_FAILED),
    (403, error_body("unsupported_country_region_territory"), ErrorCode.AUTHENTICATION_FAILED),
    (404, error_body("model_not_found"), ErrorCode.MODEL_NOT_FOUND),
    (409, error_body(None), ErrorCode.INVALID_REQUEST),
    (413, error_body(None), ErrorCode.CONTEXT_LENGTH_EXCEEDED),
    (422, error_body(None), ErrorCode.INVALID_REQUEST),
    (429, error_body("rate_limit_exceeded", "tokens"), ErrorCode.RATE_LIMITED),
    (429, error_body("insufficient_quota", "insufficient_quota"), ErrorCode.QUOTA_EXCEEDED),
    (500, error_body(None, "server_error"), ErrorCode.PROVIDER_ERROR),
    (503, error_body(None, "server_error"), ErrorCode.PROVIDER_ERROR),
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("status", "body", "code"), ERRORS)
async def test_an_error_has_the_code_of_its_status_and_its_body(
    vendor: VendorServer, status: int, body: JSONObject, code: ErrorCode, streamed: bool
) -> None:
    error = await failure(vendor, json_reply(body, status), streamed=streamed)
    assert (error.code, error.status_code, error.message) == (code, status, "Not so.")


async def test_how_long_to_wait_is_told(vendor: VendorServer) -> None:
    reply = json_reply(error_body("rate_limit_exceeded"), 429, {"retry-after": "7"})
    assert (await failure(vendor, reply)).retry_after == timedelta(seconds=7)


async def test_no_error_shows_the_key(vendor: VendorServer) -> None:
    error = await failure(vendor, json_reply(error_body("invalid_api_key", message=f"Incorrect key: {KEY}."), 401))
    assert KEY not in str(error)
    assert error.message.startswith("Incorrect key")


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_that_failed_is_an_error(vendor: VendorServer, streamed: bool) -> None:
    error = await failure(vendor, sse_reply(raw("failed")) if streamed else whole("failed"), streamed=streamed)
    assert error.code == ErrorCode.RATE_LIMITED
    assert error.message.startswith("Request too large")


async def test_an_error_in_the_middle_of_a_stream_is_raised(vendor: VendorServer) -> None:
    event = {"type": "error", "sequence_number": 9, "code": "server_error", "message": "Sorry.", "param": None}
    error = await failure(vendor, sse_reply(raw("text")[:LAST] + f"data: {json.dumps(event)}\n\n"), streamed=True)
    assert (error.code, error.message) == (ErrorCode.PROVIDER_ERROR, "Sorry.")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": "resp_1", "status": "queued", "output": []},
        {"id": "resp_1", "status": "in_progress", "output": []},
        {"id": "resp_1", "output": "text"},
        {"id": "resp_1", "output": ["text"]},
        {"id": "resp_1", "output": [{"type": "function_call", "call_id": "call_1", "arguments": "{}"}]},
        {"id": "resp_1", "output": [{"type": "function_call", "name": "f", "arguments": 5}]},
        {"id": "resp_1", "output": [], "usage": {"input_tokens": "many"}},
        {"id": 5, "output": []},
        {"id": "resp_1", "output": [{"type": "image_generation_call", "result": 5}]},
    ],
)
async def test_something_that_is_no_answer_is_an_error(vendor: VendorServer, body: JSONObject) -> None:
    assert (await failure(vendor, json_reply(body))).code == ErrorCode.INVALID_RESPONSE


async def test_an_error_in_a_good_answer_is_one(vendor: VendorServer) -> None:
    error = await failure(vendor, json_reply(error_body("insufficient_quota")))
    assert error.code == ErrorCode.QUOTA_EXCEEDED


@pytest.mark.parametrize("content", [None, "text", [None], [{"type": "output_text"}], [{"type": "new", "x": 1}]])
async def test_content_of_an_unknown_form_says_nothing(vendor: VendorServer, content: Any) -> None:
    vendor.replies(json_reply({"id": "resp_1", "output": [{"type": "message", "content": content}, {"type": "new"}]}))
    assert (await model().complete(asking(vendor))).message.content == []
