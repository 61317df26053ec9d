"""The Gemini adapter against a server that answers as Google documents it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.upp.content import ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import encode_base64
from perdure.upp.media_source import Base64Source, BytesSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage, message_from_json
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.google import google
from perdure.upp.stream import StreamEvent, StreamEventType
from perdure.upp.tool_call import ToolResult
from perdure.upp.tools import Tool
from perdure.upp.usage import TokenUsage
from tests.clients.vendor_server import CUT, Reply, VendorServer, json_reply, sse_reply

FIXTURES = Path(__file__).parent / "fixtures" / "google"
KEY = "AIza-secret-of-the-test"
MODEL = google("gemini-3-pro-preview").bind()
WEATHER = Tool("get_weather", "Tells the weather.", {"type": "object", "properties": {"city": {"type": "string"}}}, str)


def fixture(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_bytes())


def raw(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def ask(vendor: VendorServer, messages: Sequence[Message] = (), **fields: Any) -> LLMRequest:
    config = ProviderConfig(api_key=KEY, base_url=vendor.url, **fields.pop("config", {}))
    return LLMRequest(messages or [UserMessage("hi")], config=config, **fields)


async def complete(vendor: VendorServer, name: str, **fields: Any) -> LLMResponse:
    vendor.replies(json_reply(fixture(name)))
    return await MODEL.complete(ask(vendor, **fields))


async def stream(
    vendor: VendorServer, reply: Reply, model: BoundLLMModel = MODEL, **fields: Any
) -> tuple[list[StreamEvent], LLMResponse]:
    vendor.replies(reply)
    result = model.stream(ask(vendor, **fields))
    return [event async for event in result], await result.response()


async def failure(vendor: VendorServer, reply: Reply, **fields: Any) -> UPPError:
    vendor.replies(reply)
    with pytest.raises(UPPError) as caught:
        await MODEL.complete(ask(vendor, **fields))
    assert caught.value.provider == "google"
    return caught.value


async def stream_failure(vendor: VendorServer, reply: Reply, **fields: Any) -> tuple[list[StreamEvent], UPPError]:
    vendor.replies(reply)
    events: list[StreamEvent] = []
    try:
        async for event in MODEL.stream(ask(vendor, **fields)):
            events.append(event)  # noqa: PERF401  # what came before the error counts
    except UPPError as error:
        return events, error
    return pytest.fail("the stream ended without an error")


async def test_a_text_is_asked_for_and_read(vendor: VendorServer) -> None:
    response = await complete(vendor, "text", system="Be short.")
    assert response.message.content == [TextBlock("AI learns patterns from data – and uses them. ✨")]
    assert (response.message.id, response.stop_reason) == ("kT2oaMOYEZ-ln9kPx8b4wQs", "end_turn")
    assert response.usage == TokenUsage(9, 12, 21)
    assert response.message.metadata is not None
    assert response.message.metadata["google"]["safetyRatings"] == fixture("text")["candidates"][0]["safetyRatings"]
    (request,) = vendor.received
    assert (request.method, request.path) == ("POST", "/v1beta/models/gemini-3-pro-preview:generateContent")
    assert request.headers["x-goog-api-key"] == KEY
    assert request.json() == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be short."}]},
    }


@pytest.mark.parametrize(("name", "piece"), [("text", None), ("text", 1), ("calls", 7), ("thinking", 16)])
async def test_a_stream_gives_the_message_of_the_whole_answer(
    vendor: VendorServer, name: str, piece: int | None
) -> None:
    whole = await complete(vendor, name)
    events, streamed = await stream(vendor, sse_reply(raw(f"{name}.sse"), piece=piece))
    assert vendor.received[-1].path == "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse"
    assert streamed.message.content == whole.message.content
    assert streamed.message.tool_calls == whole.message.tool_calls
    assert streamed.message.id == whole.message.id
    assert (streamed.usage, streamed.stop_reason) == (whole.usage, whole.stop_reason)
    assert (events[0].type, events[-1].type) == (StreamEventType.MESSAGE_START, StreamEventType.MESSAGE_STOP)
    text = "".join(event.delta.text or "" for event in events if event.type == StreamEventType.TEXT_DELTA)
    assert text == whole.message.text


async def test_parallel_calls_come_as_one_delta_each(vendor: VendorServer) -> None:
    events, response = await stream(vendor, sse_reply(raw("calls.sse")))
    deltas = [event for event in events if event.type == StreamEventType.TOOL_CALL_DELTA]
    assert [event.index for event in deltas] == [0, 1, 2]
    told = [
        (each.delta.tool_call_id, each.delta.tool_name, json.loads(each.delta.arguments_json or "")) for each in deltas
    ]
    calls = response.message.tool_calls or []
    assert told == [(call.tool_call_id, call.tool_name, call.arguments) for call in calls]
    assert [call.tool_call_id for call in calls] == ["fc-7d1b", "fc-9a40", "fc-c3e2"]
    assert response.stop_reason == "end_turn"
    assert response.usage == TokenUsage(81, 59, 140)


@pytest.mark.parametrize("name", ["calls", "thinking", "mixed", "image", "code"])
async def test_the_parts_of_a_stored_answer_are_sent_back_as_they_came(vendor: VendorServer, name: str) -> None:
    answer = (await complete(vendor, name)).message
    history = [UserMessage("hi"), message_from_json(answer.to_json())]
    if answer.tool_calls:
        history.append(ToolResultMessage([ToolResult(call.tool_call_id, "ok") for call in answer.tool_calls]))
    vendor.replies(json_reply(fixture("text")))
    await MODEL.complete(ask(vendor, [*history, UserMessage("go on")]))
    sent = vendor.received[-1].json()["contents"]
    parts = fixture(name)["candidates"][0]["content"]["parts"]
    assert sent[1] == {"role": "model", "parts": [part for part in parts if not part.get("thought")]}
    if answer.tool_calls:
        ids = [part["functionCall"]["id"] for part in parts if "functionCall" in part]
        assert [part["functionResponse"]["id"] for part in sent[2]["parts"]] == ids


async def test_calls_without_ids_are_told_apart(vendor: VendorServer) -> None:
    first, second = await complete(vendor, "calls_without_ids"), await complete(vendor, "calls_without_ids")
    calls = [*(first.message.tool_calls or ()), *(second.message.tool_calls or ())]
    assert len({call.tool_call_id for call in calls}) == 6
    told = ToolResultMessage([ToolResult(call.tool_call_id, {"ok": call.tool_name}) for call in calls[:3]])
    vendor.replies(json_reply(fixture("text")))
    await MODEL.complete(ask(vendor, [UserMessage("hi"), first.message, told]))
    responses = [part["functionResponse"] for part in vendor.received[-1].json()["contents"][2]["parts"]]
    assert responses == [
        {"name": "get_weather", "response": {"ok": "get_weather"}},
        {"name": "get_weather", "response": {"ok": "get_weather"}},
        {"name": "now", "response": {"ok": "now"}},
    ]


async def test_reasoning_is_apart_from_the_text(vendor: VendorServer) -> None:
    events, response = await stream(vendor, sse_reply(raw("thinking.sse")))
    reasoning = "**Adding up**\n\nI add the numbers first.\n"
    assert response.message.content == [ReasoningBlock(reasoning), TextBlock("The sum is 42.")]
    thoughts = [event.delta.text for event in events if event.type == StreamEventType.REASONING_DELTA]
    assert "".join(text or "" for text in thoughts) == reasoning
    assert response.usage == TokenUsage(14, 51, 65)


async def test_images_come_and_go(vendor: VendorServer) -> None:
    image = (await complete(vendor, "image", modalities=["text", "image"])).message.images[0]
    assert vendor.received[-1].json()["generationConfig"] == {"responseModalities": ["TEXT", "IMAGE"]}
    assert isinstance(image.source, BytesSource)
    assert image.source.data.startswith(b"\x89PNG")
    data = encode_base64(image.source.data)
    await complete(vendor, "text", messages=[UserMessage(["What is it?", ImageBlock(Base64Source(data), "image/png")])])
    assert vendor.received[-1].json()["contents"][0]["parts"] == [
        {"text": "What is it?"},
        {"inlineData": {"mimeType": "image/png", "data": data}},
    ]


async def test_code_that_ran_is_fenced_text(vendor: VendorServer) -> None:
    response = await complete(vendor, "code")
    assert [block.text for block in response.message.content if isinstance(block, TextBlock)] == [
        "I compute it.",
        "```python\nprint(sum([2, 3, 5]))\n```",
        "```\n10\n```",
        "The sum is 10.",
    ]


@pytest.mark.parametrize(
    ("name", "text", "stop_reason"),
    [("max_tokens", "It goes on and", "max_tokens"), ("safety", "", "content_filter"), ("empty", "", "end_turn")],
)
async def test_answers_that_are_short_of_something(
    vendor: VendorServer, name: str, text: str, stop_reason: str
) -> None:
    response = await complete(vendor, name)
    assert (response.message.text, response.stop_reason) == (text, stop_reason)


async def test_an_empty_answer_does_no_harm_later(vendor: VendorServer) -> None:
    empty = (await complete(vendor, "empty")).message
    await complete(vendor, "text", messages=[UserMessage("hi"), empty, UserMessage("well?")])
    assert [content["role"] for content in vendor.received[-1].json()["contents"]] == ["user", "user"]


@pytest.mark.parametrize(
    ("name", "code"), [("blocked", ErrorCode.CONTENT_FILTERED), ("malformed_call", ErrorCode.PROVIDER_ERROR)]
)
async def test_no_answer_is_an_error_whole_and_streamed(vendor: VendorServer, name: str, code: ErrorCode) -> None:
    assert (await failure(vendor, json_reply(fixture(name)))).code == code
    _, error = await stream_failure(vendor, sse_reply(f"data: {json.dumps(fixture(name))}\n\n"))
    assert error.code == code


async def test_a_structured_answer_has_data(vendor: VendorServer) -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    response = await complete(vendor, "structured", structure=schema)
    assert response.data == {"title": "Night", "year": 1956}
    config = vendor.received[-1].json()["generationConfig"]
    assert config == {"responseMimeType": "application/json", "responseJsonSchema": schema}


@pytest.mark.parametrize(("name", "code"), [("max_tokens", "INVALID_RESPONSE"), ("safety", "CONTENT_FILTERED")])
async def test_a_structured_answer_that_is_none_is_an_error(vendor: VendorServer, name: str, code: str) -> None:
    assert (await failure(vendor, json_reply(fixture(name)), structure={"type": "object"})).code == code


async def test_usage_counts_cache_thoughts_and_tools(vendor: VendorServer) -> None:
    assert (await complete(vendor, "usage")).usage == TokenUsage(1030, 25, 1055, 900)


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        (None, None),
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"name": "get_weather"}, {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}),
    ],
)
async def test_the_tool_choice_is_sent(
    vendor: VendorServer, choice: str | dict[str, Any] | None, config: Mapping[str, Any] | None
) -> None:
    await complete(vendor, "text", tools=[WEATHER], tool_choice=choice)
    assert vendor.received[-1].json().get("toolConfig") == (config and {"functionCallingConfig": config})


ERRORS = [
    ("minute", 429, ErrorCode.RATE_LIMITED),
    ("retry_info", 429, ErrorCode.RATE_LIMITED),
    ("exhausted", 429, ErrorCode.RATE_LIMITED),
    ("day", 429, ErrorCode.QUOTA_EXCEEDED),
    ("used_up", 429, ErrorCode.QUOTA_EXCEEDED),
    ("key", 400, ErrorCode.AUTHENTICATION_FAILED),
    ("too_long", 400, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
    ("argument", 400, ErrorCode.INVALID_REQUEST),
    ("permission", 403, ErrorCode.AUTHENTICATION_FAILED),
    ("not_found", 404, ErrorCode.MODEL_NOT_FOUND),
    ("internal", 500, ErrorCode.PROVIDER_ERROR),
    ("overloaded", 503, ErrorCode.PROVIDER_ERROR),
    ("deadline", 504, ErrorCode.PROVIDER_ERROR),
]


@pytest.mark.parametrize(("name", "status", "code"), ERRORS)
async def test_an_error_answer_has_its_code(vendor: VendorServer, name: str, status: int, code: ErrorCode) -> None:
    body = fixture(f"error_{name}")
    error = await failure(vendor, json_reply(body, status))
    assert (error.code, error.status_code, error.message) == (code, status, body["error"]["message"])
    # The streaming method wraps the same body into a list.
    _, streamed = await stream_failure(vendor, json_reply([body], status))
    assert (streamed.code, streamed.status_code, streamed.message) == (code, status, body["error"]["message"])


async def test_the_wait_of_retry_info_is_told(vendor: VendorServer) -> None:
    error = await failure(vendor, json_reply(fixture("error_minute"), 429))
    assert error.retry_after == timedelta(seconds=34.5)


@pytest.mark.parametrize(("name", "status", "code"), ERRORS)
async def test_an_error_inside_a_stream_has_the_code(
    vendor: VendorServer, name: str, status: int, code: ErrorCode
) -> None:
    event = f"data: {json.dumps(fixture(f'error_{name}'))}\n\n".encode()
    events, error = await stream_failure(
        vendor, sse_reply(raw("error.sse").split(b"\r\n\r\n")[0] + b"\r\n\r\n" + event)
    )
    assert [event.delta.text for event in events] == [None, "It be"]
    assert error.code == code


async def test_an_overloaded_model_in_the_middle_of_a_stream(vendor: VendorServer) -> None:
    events, error = await stream_failure(vendor, sse_reply(raw("error.sse")))
    assert (len(events), error.code, "overloaded" in error.message) == (2, ErrorCode.PROVIDER_ERROR, True)


async def test_the_key_is_in_no_error(vendor: VendorServer) -> None:
    body = {"error": {"code": 400, "message": f"bad key {KEY}", "status": "INVALID_ARGUMENT"}}
    assert KEY not in str(await failure(vendor, json_reply(body, 400)))


@pytest.mark.parametrize("end", ["finished", CUT])
async def test_a_stream_without_its_end_is_cut(vendor: VendorServer, end: Any) -> None:
    first = raw("text.sse").split(b"\r\n\r\n")[0] + b"\r\n\r\n"
    reply = sse_reply(first) if end == "finished" else sse_reply(first).then(CUT)
    events, error = await stream_failure(vendor, reply)
    assert (error.code, error.retryable) == (ErrorCode.NETWORK_ERROR, True)
    assert [event.delta.text for event in events] == [None, "AI learns "]


async def test_what_is_no_event_of_gemini_is_passed_over(vendor: VendorServer) -> None:
    noise = b": keep-alive\n\ndata: {not json\n\ndata: {}\n\n"
    _, response = await stream(vendor, sse_reply(noise + raw("text.sse")))
    assert response.message.text.startswith("AI learns")


async def test_an_event_of_another_shape_is_an_invalid_response(vendor: VendorServer) -> None:
    _, error = await stream_failure(vendor, sse_reply(b'data: {"candidates": {}}\n\n'))
    assert error.code == ErrorCode.INVALID_RESPONSE


async def test_a_slow_first_byte_is_waited_for(vendor: VendorServer) -> None:
    _, response = await stream(vendor, sse_reply(raw("text.sse")).after(0.2), config={"timeout": timedelta(seconds=60)})
    assert response.stop_reason == "end_turn"


async def test_a_vendor_that_says_nothing_is_a_timeout(vendor: VendorServer) -> None:
    limit = {"timeout": timedelta(milliseconds=100)}
    _, error = await stream_failure(vendor, sse_reply(raw("text.sse")).after(60.0), config=limit)
    assert error.code == ErrorCode.TIMEOUT


async def test_a_closed_stream_closes_the_connection(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(raw("text.sse").split(b"\r\n\r\n")[0] + b"\r\n\r\n").then(30.0))
    result = MODEL.stream(ask(vendor))
    await anext(result)
    await result.aclose()
    await vendor.hung_up()


async def test_nothing_is_sent_before_a_stream_is_read(vendor: VendorServer) -> None:
    await MODEL.stream(ask(vendor)).aclose()
    assert vendor.received == []


async def test_given_headers_and_address_win(vendor: VendorServer) -> None:
    vendor.replies(json_reply(fixture("text")))
    config = ProviderConfig(
        api_key=KEY, base_url=f"{vendor.url}/gateway/v1beta/", headers={"X-Goog-Api-Key": "other", "x-team": "7"}
    )
    await google("models/gemini-x").bind().complete(LLMRequest([UserMessage("hi")], config=config))
    (request,) = vendor.received
    assert request.path == "/gateway/v1beta/models/gemini-x:generateContent"
    assert (request.headers["x-goog-api-key"], request.headers["x-team"]) == ("other", "7")


@pytest.mark.parametrize(
    ("variables", "key"),
    [({"GOOGLE_API_KEY": "g", "GEMINI_API_KEY": "m"}, "g"), ({"GEMINI_API_KEY": "m"}, "m")],
)
async def test_the_key_comes_from_the_environment(
    vendor: VendorServer, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], key: str
) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    vendor.replies(json_reply(fixture("text")))
    await MODEL.complete(LLMRequest([UserMessage("hi")], config=ProviderConfig(base_url=vendor.url)))
    assert vendor.received[0].headers["x-goog-api-key"] == key


async def test_without_a_key_nothing_is_sent(vendor: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    with pytest.raises(UPPError, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
        await MODEL.complete(LLMRequest([UserMessage("hi")], config=ProviderConfig(base_url=vendor.url)))
    assert vendor.received == []


@pytest.mark.parametrize(("model_id", "options"), [("", {}), (" ", {}), ("gemini-x", {"api": "live"})])
def test_what_cannot_be_bound_is_refused(model_id: str, options: dict[str, object]) -> None:
    with pytest.raises(UPPError) as caught:
        google(model_id).provider.bind(model_id, options)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


async def test_lone_surrogates_go_out_as_valid_text(vendor: VendorServer) -> None:
    await complete(
        vendor, "text", messages=[UserMessage("a\ud83cb"), AssistantMessage("\ud83c\udf78"), UserMessage("c")]
    )
    contents = vendor.received[-1].json()["contents"]
    assert [content["parts"][0]["text"] for content in contents] == ["a\ufffdb", "🍸", "c"]
