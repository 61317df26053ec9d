"""OpenRouter over HTTP."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from perdure.upp.content import ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import Base64Source
from perdure.upp.messages import ToolResultMessage, UserMessage
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.openai import openai
from perdure.upp.providers.openrouter import openrouter
from perdure.upp.stream import StreamEvent
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.usage import TokenUsage
from tests.clients.adapters import plain, read_stream
from tests.clients.vendor_server import CUT, Reply, VendorServer, json_reply, sse_reply

FIXTURES = Path(__file__).parent / "fixtures" / "openrouter"
KEY = "sk-or-v1-0123456789abcdef"
MODEL = openrouter("anthropic/claude-sonnet-4.5").bind()


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text()


def value_of(name: str) -> Any:
    return json.loads(text_of(name))


def ask(vendor: VendorServer, *messages: Any, headers: dict[str, str] | None = None, **fields: Any) -> LLMRequest:
    config = ProviderConfig(api_key=KEY, base_url=f"{vendor.url}/api/v1", headers=headers)
    return LLMRequest(messages or (UserMessage("hi"),), config=config, **fields)


@pytest.mark.parametrize("name", ["reasoning", "image"])
@pytest.mark.parametrize("piece", [None, 11])
async def test_a_stream_ends_in_the_same_response_as_a_whole_answer(
    vendor: VendorServer, name: str, piece: int | None
) -> None:
    vendor.replies(json_reply(value_of(f"{name}.json")), sse_reply(text_of(f"{name}.sse"), piece=piece))
    whole = await MODEL.complete(ask(vendor))
    _, streamed = await read_stream(MODEL, ask(vendor))
    assert plain(streamed) == plain(whole)


async def test_reasoning_is_shown_and_its_signed_parts_are_kept(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(text_of("reasoning.sse")))
    events, response = await read_stream(MODEL, ask(vendor))
    assert [event.delta.text for event in events if event.type == "reasoning_delta"] == [
        "The user asks ",
        "for the weather.",
    ]
    assert response.message.content == [ReasoningBlock("The user asks for the weather."), TextBlock("I look it up.")]
    kept = (response.message.metadata or {})["openrouter"]["reasoning_details"]
    assert kept == value_of("reasoning.json")["choices"][0]["message"]["reasoning_details"]
    assert response.usage == TokenUsage(410, 90, 500, 300, 50)


async def test_reasoning_parts_go_back_as_they_came(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(text_of("reasoning.sse")), json_reply(value_of("image.json")))
    _, first = await read_stream(MODEL, ask(vendor))
    result = ToolResultMessage([ToolResult("toolu_01A", "sunny")])
    await MODEL.complete(ask(vendor, UserMessage("hi"), first.message, result))
    original = value_of("reasoning.json")["choices"][0]["message"]
    assert vendor.received[1].json()["messages"][1] == {
        "role": "assistant",
        "content": "I look it up.",
        "reasoning_details": original["reasoning_details"],
        "tool_calls": [
            {
                "id": "toolu_01A",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"location":"Oslo"}'},
            }
        ],
    }
    assert first.message.tool_calls == [ToolCall("toolu_01A", "get_weather", {"location": "Oslo"})]


async def test_images_come_as_events_and_blocks(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(text_of("image.sse")))
    events, response = await read_stream(MODEL, ask(vendor, modalities=["image", "text"]))
    assert [event.delta.data for event in events if event.type == "image_delta"] == [b"\x89PNG\r\n\x1a\n"]
    assert response.message.images == [ImageBlock(Base64Source("iVBORw0KGgo="), "image/png")]
    assert vendor.received[0].json()["modalities"] == ["image", "text"]


async def test_the_application_may_name_itself(vendor: VendorServer) -> None:
    vendor.replies(json_reply(value_of("image.json")))
    await MODEL.complete(ask(vendor, headers={"HTTP-Referer": "https://example.org", "X-Title": "Example"}))
    (received,) = vendor.received
    assert received.path == "/api/v1/chat/completions"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert (received.headers["http-referer"], received.headers["x-title"]) == ("https://example.org", "Example")


async def test_a_key_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(UPPError, match="set OPENROUTER_API_KEY"):
        await MODEL.complete(LLMRequest([UserMessage("hi")]))


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (json_reply(value_of("moderation.json"), 403), ErrorCode.CONTENT_FILTERED),
        (json_reply({"error": {"code": 403, "message": "no"}}, 403), ErrorCode.AUTHENTICATION_FAILED),
        (json_reply({"error": {"code": 401, "message": "User not found."}}, 401), ErrorCode.AUTHENTICATION_FAILED),
        (json_reply({"error": {"code": 402, "message": "Insufficient credits"}}, 402), ErrorCode.QUOTA_EXCEEDED),
        (json_reply({"error": {"code": 404, "message": "No endpoints found"}}, 404), ErrorCode.MODEL_NOT_FOUND),
        (json_reply({"error": {"code": 402, "message": "none left"}}), ErrorCode.QUOTA_EXCEEDED),
        (json_reply({"error": {"code": 408, "message": "late"}}), ErrorCode.TIMEOUT),
        (json_reply(value_of("moderation.json")), ErrorCode.CONTENT_FILTERED),
        (json_reply(value_of("choice_error.json")), ErrorCode.RATE_LIMITED),
    ],
)
async def test_errors_become_codes(vendor: VendorServer, reply: Reply, code: ErrorCode) -> None:
    vendor.replies(reply)
    with pytest.raises(UPPError) as caught:
        await MODEL.complete(ask(vendor))
    assert (caught.value.code, caught.value.provider) == (code, "openrouter")


async def test_an_error_in_a_stream_comes_after_what_was_said_before(vendor: VendorServer) -> None:
    vendor.replies(sse_reply(text_of("error_chunk.sse")))
    events: list[StreamEvent] = []

    async def read() -> None:
        async for event in MODEL.stream(ask(vendor)):
            events.append(event)  # noqa: PERF401  # a comprehension would lose them

    with pytest.raises(UPPError, match="Provider returned error") as caught:
        await read()
    assert caught.value.code == ErrorCode.PROVIDER_ERROR
    assert [event.delta.text for event in events] == [None, "Partial"]


async def test_a_stream_that_finishes_with_an_error_is_one(vendor: VendorServer) -> None:
    raw = 'data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}\n\ndata: [DONE]\n\n'
    vendor.replies(sse_reply(raw))
    with pytest.raises(UPPError, match="broken off"):
        await read_stream(MODEL, ask(vendor))


RESPONSES = openrouter("openai/gpt-5-mini", api="responses").bind()
OPENAI_ANSWERS = FIXTURES.parent / "openai_responses"
ANSWERS = sorted(path.stem for path in OPENAI_ANSWERS.glob("*.json") if path.stem != "failed")
CAPITAL: JSONObject = {"type": "object", "properties": {"capital": {"type": "string"}}}


def response(name: str, *, streamed: bool) -> Reply:
    """An answer in OpenAI's words, which OpenRouter's Responses API speaks."""
    if streamed:
        return sse_reply((OPENAI_ANSWERS / f"{name}.sse").read_bytes())
    return json_reply(json.loads((OPENAI_ANSWERS / f"{name}.json").read_bytes()))


async def read(model: BoundLLMModel, request: LLMRequest, *, streamed: bool) -> LLMResponse:
    return await (model.stream(request).response() if streamed else model.complete(request))


async def test_responses_are_spoken_at_their_own_endpoint(vendor: VendorServer) -> None:
    vendor.replies(json_reply(value_of("moderation.json"), 403))
    with pytest.raises(UPPError) as caught:
        await RESPONSES.complete(ask(vendor))
    assert vendor.received[0].path == "/api/v1/responses"
    assert (caught.value.code, caught.value.provider) == (ErrorCode.CONTENT_FILTERED, "openrouter")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
async def test_responses_are_read_as_openais_are(vendor: VendorServer, name: str, streamed: bool) -> None:
    vendor.replies(response(name, streamed=streamed))
    ours = await read(RESPONSES, ask(vendor), streamed=streamed)
    theirs = await read(openai("gpt-5-mini").bind(), ask(vendor), streamed=streamed)
    said = json.dumps(plain(theirs)).replace('"openai": ', '"openrouter": ')
    drawn = re.compile(r"(openai|openrouter)_[0-9a-f]{32}")
    assert drawn.sub("drawn", json.dumps(plain(ours))) == drawn.sub("drawn", said)


@pytest.mark.parametrize("streamed", [False, True])
async def test_parallel_calls_of_a_response_go_back_with_ids_and_states(vendor: VendorServer, streamed: bool) -> None:
    vendor.replies(response("tools", streamed=streamed), response("text", streamed=False))
    message = (await read(RESPONSES, ask(vendor), streamed=streamed)).message
    assert [(call.tool_call_id, call.tool_name) for call in message.tool_calls or ()] == [
        ("call_bern", "get_weather"),
        ("call_oslo", "get_weather"),
    ]
    results = ToolResultMessage([ToolResult("call_bern", "rain"), ToolResult("call_oslo", "snow")])
    await RESPONSES.complete(ask(vendor, UserMessage("hi"), message, results))
    sent = vendor.received[1].json()["input"]
    assert [item["type"] for item in sent[1:]] == ["reasoning", *["function_call"] * 2, *["function_call_output"] * 2]
    assert all(item["id"] and item["status"] == "completed" for item in sent[2:])


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_structured_response_has_data(vendor: VendorServer, streamed: bool) -> None:
    vendor.replies(response("commentary", streamed=streamed))
    answer = await read(RESPONSES, ask(vendor, structure=CAPITAL), streamed=streamed)
    assert answer.data == {"capital": "Paris"}
    assert vendor.received[0].json()["text"]["format"]["schema"] == CAPITAL


def _broken_responses() -> list[Any]:
    whole = (OPENAI_ANSWERS / "text.sse").read_text()
    half = whole[: whole.index("event: response.completed")]
    busy = {"type": "error", "code": "server_error", "message": "busy"}
    return [
        pytest.param(response("failed", streamed=True), ErrorCode.RATE_LIMITED, id="failed"),
        pytest.param(sse_reply(f"{half}data: {json.dumps(busy)}\n\n"), ErrorCode.PROVIDER_ERROR, id="error"),
        pytest.param(sse_reply(half), ErrorCode.NETWORK_ERROR, id="ends too early"),
        pytest.param(sse_reply(half).then(CUT), ErrorCode.NETWORK_ERROR, id="connection breaks"),
    ]


@pytest.mark.parametrize(("reply", "code"), _broken_responses())
async def test_a_response_that_breaks_off_is_an_error(vendor: VendorServer, reply: Reply, code: ErrorCode) -> None:
    vendor.replies(reply)
    with pytest.raises(UPPError) as caught:
        await read(RESPONSES, ask(vendor), streamed=True)
    assert (caught.value.code, caught.value.provider) == (code, "openrouter")
