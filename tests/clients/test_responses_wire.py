"""The Responses adapter against a vendor on this machine: what it sends, and what it makes of the answers."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from perdure.upp.content import DocumentBlock, ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.media_source import Base64Source
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.usage import TokenUsage
from tests.clients.responses_vendor import (
    KEY,
    SCHEMA,
    WEATHER,
    asking,
    complete,
    failure,
    model,
    raw,
    read_fixture,
    whole,
)
from tests.clients.vendor_server import VendorServer, json_reply, sse_reply

# The request


async def test_a_request_goes_to_the_endpoint_with_the_key_in_its_header(vendor: VendorServer) -> None:
    await complete(vendor, "text", config={"headers": {"OpenAI-Project": "proj_1", "authorization": "Bearer own"}})
    (received,) = vendor.received
    assert (received.method, received.path) == ("POST", "/responses")
    assert received.headers["authorization"] == "Bearer own"
    assert received.headers["openai-project"] == "proj_1"
    await complete(vendor, "text")
    assert vendor.received[1].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("path", "sent"), [("/v1", "/v1/responses"), ("/v1/responses", "/v1/responses"), ("/x/", "/x/responses")]
)
async def test_the_base_url_may_have_the_endpoints_path(vendor: VendorServer, path: str, sent: str) -> None:
    await complete(vendor, "text", config={"base_url": vendor.url + path})
    assert vendor.received[0].path == sent


async def test_the_environments_key_is_used_if_none_is_given(
    vendor: VendorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    await complete(vendor, "text", config={"api_key": None})
    assert vendor.received[0].headers["authorization"] == "Bearer sk-environment"


@pytest.mark.parametrize("base_url", [None, "https://eu.api.openai.com/v1"])
async def test_the_vendor_itself_is_not_asked_without_a_key(
    base_url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json=read_fixture("text"))

    config = ProviderConfig(base_url=base_url, transport=httpx.MockTransport(handle))
    with pytest.raises(UPPError, match="set OPENAI_API_KEY") as caught:
        await model().complete(LLMRequest([UserMessage("Hi")], config=config))
    assert (caught.value.code, asked) == (ErrorCode.AUTHENTICATION_FAILED, [])


async def test_another_server_needs_no_key(vendor: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    await complete(vendor, "text", config={"api_key": None})
    assert "authorization" not in vendor.received[0].headers


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_cannot_be_sent_is_refused_before_anything_is(vendor: VendorServer, streamed: bool) -> None:
    error = await failure(vendor, whole("text"), streamed=streamed, modalities=["audio"])
    assert error.code == ErrorCode.INVALID_REQUEST
    assert vendor.received == []


async def test_a_whole_request_has_everything_in_its_place(vendor: VendorServer) -> None:
    picture = ImageBlock(Base64Source("AQI="), "image/png")
    paper = DocumentBlock(Base64Source("JVBE"), "application/pdf", "paper.pdf")
    vendor.replies(whole("text"))
    await model().complete(
        asking(
            vendor,
            UserMessage(["Look:", picture, paper]),
            AssistantMessage("Let me see.", [ToolCall("call_1", "get_weather", {})]),
            ToolResultMessage([ToolResult("call_1", "rain")]),
            system="Be brief.",
            params={"max_output_tokens": 100},
            tools=[WEATHER],
            tool_choice="auto",
        )
    )
    assert vendor.received[0].json() == {
        "max_output_tokens": 100,
        "model": "gpt-5-mini",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [
            {"type": "message", "role": "system", "content": "Be brief."},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look:"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AQI=", "detail": "auto"},
                    {
                        "type": "input_file",
                        "filename": "paper.pdf",
                        "file_data": "data:application/pdf;base64,JVBE",
                    },
                ],
            },
            {"type": "message", "role": "assistant", "content": "Let me see."},
            {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
        ],
        "tools": [
            {
                "type": "function",
                "name": "get_weather",
                "description": "Says the weather.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "tool_choice": "auto",
    }


# Answers


async def test_an_answer_in_text(vendor: VendorServer) -> None:
    response = await complete(vendor, "text")
    assert response.message.content == [TextBlock("Rayleigh scattering. — ☀ 蓝")]
    assert response.message.tool_calls is None
    assert (response.message.id, response.stop_reason) == ("resp_text", "end_turn")
    assert response.usage == TokenUsage(38, 9, 47, cache_read_tokens=16, cache_write_tokens=8)
    metadata = (response.message.metadata or {})["openai"]
    assert {name: metadata[name] for name in ("response_id", "model", "status", "service_tier")} == {
        "response_id": "resp_text",
        "model": "gpt-4o-2024-08-06",
        "status": "completed",
        "service_tier": "default",
    }


async def test_several_calls_in_one_answer(vendor: VendorServer) -> None:
    response = await complete(vendor, "tools")
    assert response.message.tool_calls == [
        ToolCall("call_bern", "get_weather", {"city": "Bern", "unit": "celsius"}),
        ToolCall("call_oslo", "get_weather", {"city": "Oslo", "unit": "celsius"}),
    ]
    assert response.message.content == [ReasoningBlock("Two cities, two calls.")]
    assert response.stop_reason == "tool_use"


async def test_arguments_that_are_no_object_are_kept_as_they_are(vendor: VendorServer) -> None:
    response = await complete(vendor, "bad_arguments")
    assert [call.arguments for call in response.message.tool_calls or ()] == ['{"city": "Be', [1], {}]


async def test_calls_without_or_with_repeated_ids_get_their_own(vendor: VendorServer) -> None:
    answer = read_fixture("tools")
    answer["output"][1].update(call_id="", id="")
    answer["output"].append(answer["output"][2])
    vendor.replies(json_reply(answer))
    message = (await model().complete(asking(vendor))).message
    ids = [call.tool_call_id for call in message.tool_calls or ()]
    assert len(ids) == len(set(ids)) == 3
    assert all(ids)
    vendor.replies(whole("text"))
    await model().complete(asking(vendor, message))
    assert [item["call_id"] for item in vendor.received[1].json()["input"] if "call_id" in item] == ids


async def test_reasoning_comes_before_the_text_its_summaries_apart(vendor: VendorServer) -> None:
    response = await complete(vendor, "reasoning")
    assert response.message.content == [
        ReasoningBlock("**Adding**\n\n12 and 7 make 19.\n\n**Multiplying**\n\n19 by 3 is 57."),
        TextBlock("57"),
    ]


async def test_reasoning_in_the_open_is_read_too(vendor: VendorServer) -> None:
    assert (await complete(vendor, "open_reasoning")).message.reasoning == [
        ReasoningBlock("The user greets; greet back.")
    ]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("tools", ["reasoning", "function_call", "function_call"]),
        ("reasoning", ["reasoning", "message"]),
        ("open_reasoning", ["message"]),
        ("web_search", ["reasoning", "web_search_call", "message"]),
        ("image", ["reasoning", "image_generation_call", "message"]),
        ("refusal", ["message"]),
        ("commentary", ["message", "message"]),
        ("blank", []),
        ("only_reasoning", []),
    ],
)
async def test_what_the_vendor_said_goes_back_in_its_order(vendor: VendorServer, name: str, kinds: list[str]) -> None:
    message = (await complete(vendor, name)).message
    vendor.replies(whole("text"))
    await model().complete(asking(vendor, UserMessage("Hi"), message, UserMessage("And?")))
    items = vendor.received[1].json()["input"][1:-1]
    assert [item["type"] for item in items] == kinds
    said = {item["id"]: item for item in read_fixture(name)["output"]}
    kept = [item for item in items if item["type"] != "message"]
    assert [{**item, "content": None} for item in kept] == [{**said[item["id"]], "content": None} for item in kept]


async def test_a_refusal_is_text_and_the_stop_reason_says_so(vendor: VendorServer) -> None:
    response = await complete(vendor, "refusal")
    assert (response.message.text, response.stop_reason) == ("I'm sorry, I can't help with that.", "content_filter")


@pytest.mark.parametrize(
    ("name", "reason", "text"),
    [
        ("max_tokens", "max_tokens", "Once upon a"),
        ("only_reasoning", "max_tokens", ""),
        ("filtered", "content_filter", "The recipe"),
        ("blank", "end_turn", ""),
    ],
)
async def test_an_answer_that_ended_early_says_why(vendor: VendorServer, name: str, reason: str, text: str) -> None:
    response = await complete(vendor, name)
    assert (response.stop_reason, response.message.text) == (reason, text)


async def test_an_image_that_the_model_made_is_a_block(vendor: VendorServer) -> None:
    (image,) = (await complete(vendor, "image")).message.images
    assert image == ImageBlock(Base64Source("UklGRhYAAABXRUJQ"), "image/webp")


async def test_what_the_vendors_own_tools_did_is_kept(vendor: VendorServer) -> None:
    response = await complete(vendor, "web_search")
    assert (response.message.tool_calls, response.stop_reason) == (None, "end_turn")
    kept: Any = (response.message.metadata or {})["openai"]["output"]
    assert kept[1]["action"]["query"] == "mayor of Bern"
    assert kept[2]["content"][0]["annotations"][0]["url"] == "https://bern.ch/"


async def test_an_answer_without_an_id_gets_one(vendor: VendorServer) -> None:
    vendor.replies(json_reply({"output": [], "status": "completed"}))
    assert (await model().complete(asking(vendor))).message.id


async def test_an_answer_without_usage_used_nothing_that_is_known(vendor: VendorServer) -> None:
    vendor.replies(json_reply({"id": "resp_1", "output": [], "usage": None}))
    assert (await model().complete(asking(vendor))).usage == TokenUsage(0, 0, 0)


# Structured answers


async def test_a_structured_answer_has_data_from_its_final_text_only(vendor: VendorServer) -> None:
    response = await complete(vendor, "commentary", structure=SCHEMA)
    assert response.data == {"capital": "Paris"}
    assert response.message.text == 'I look it up.\n\n{"capital": "Paris"}'


async def test_text_is_no_data_unless_a_structure_was_asked_for(vendor: VendorServer) -> None:
    assert (await complete(vendor, "reasoning")).data is None


async def test_an_answer_that_calls_tools_first_has_no_data(vendor: VendorServer) -> None:
    response = await complete(vendor, "tools", structure=SCHEMA, tools=[WEATHER])
    assert (response.data, response.message.has_tool_calls) == (None, True)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("text", ErrorCode.INVALID_RESPONSE),
        ("max_tokens", ErrorCode.INVALID_RESPONSE),
        ("blank", ErrorCode.INVALID_RESPONSE),
        ("refusal", ErrorCode.CONTENT_FILTERED),
    ],
)
async def test_a_structured_answer_that_is_none_is_an_error(
    vendor: VendorServer, name: str, code: ErrorCode, streamed: bool
) -> None:
    reply = sse_reply(raw(name)) if streamed else whole(name)
    assert (await failure(vendor, reply, structure=SCHEMA, streamed=streamed)).code == code
