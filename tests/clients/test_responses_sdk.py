"""The Responses adapter against the vendor's own SDK: requests fit its types, answers read as it reads them."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai as sdk
import pytest
from openai.types.responses import (
    EasyInputMessageParam,
    FunctionToolParam,
    Response,
    ResponseFunctionToolCall,
    ResponseFunctionToolCallParam,
    ResponseFunctionWebSearchParam,
    ResponseInputFileParam,
    ResponseInputImageParam,
    ResponseInputTextParam,
    ResponseOutputMessageParam,
    ResponseOutputRefusalParam,
    ResponseOutputTextParam,
    ResponseReasoningItemParam,
    ResponseTextConfigParam,
    WebSearchToolParam,
)
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
    ToolChoice,
)
from openai.types.responses.response_input_param import FunctionCallOutput, ImageGenerationCall
from openai.types.responses.response_reasoning_item_param import Content as ReasoningContent
from openai.types.responses.response_reasoning_item_param import Summary
from pydantic import ConfigDict, TypeAdapter, ValidationError

from perdure.upp.content import DocumentBlock, ImageBlock, TextBlock
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._http import VendorRequest
from perdure.upp.providers.openai import openai
from perdure.upp.providers.openai_responses import OPENAI
from perdure.upp.providers.openai_responses.request import build_body
from perdure.upp.providers.openai_responses.response import read_response
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool
from tests.clients.vendor_server import VendorServer, json_reply, sse_reply

FIXTURES = Path(__file__).parent / "fixtures" / "openai_responses"
ANSWERS = sorted(path.stem for path in FIXTURES.glob("*.json") if path.stem != "failed")
STRICT = ConfigDict(extra="forbid")
SENT = VendorRequest("openai", "https://host/responses", {}, ProviderConfig())
NO_PROPERTIES: JSONObject = {"type": "object", "properties": {}}
SCHEMA: JSONObject = {**NO_PROPERTIES, "required": [], "additionalProperties": False}
LOOK = Tool("look", "Looks.", SCHEMA, run=print, metadata={"openai": {"strict": True}})
SEARCH: JSONObject = {"type": "web_search", "search_context_size": "low"}

HISTORY: list[Message] = [
    UserMessage(
        [
            "What is this?",
            ImageBlock(BytesSource(b"\x89PNG"), "image/png"),
            ImageBlock(UrlSource("https://host/a.webp"), "image/webp"),
            DocumentBlock(Base64Source("JVBE"), "application/pdf", "A paper"),
            DocumentBlock(UrlSource("https://host/a.pdf"), "application/pdf"),
            DocumentBlock(TextSource("plain words"), "text/plain", "Notes"),
        ]
    ),
    AssistantMessage("I look.", [ToolCall("toolu_1", "look", {"a": 1}), ToolCall("odd|id" * 20, "look", "{broken")]),
    ToolResultMessage([ToolResult("toolu_1", {"seen": True}), ToolResult("odd|id" * 20, "", is_error=True)]),
    UserMessage(" "),
]


def whole(name: str) -> JSONObject:
    return json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))


def read(name: str) -> LLMResponse:
    return read_response(whole(name), LLMRequest([]), SENT)


REQUESTS = {
    "plain": LLMRequest([UserMessage("Hi")], system="Be brief."),
    "everything": LLMRequest(
        HISTORY,
        system=[{"type": "input_text", "text": "Be brief.", "prompt_cache_breakpoint": {"mode": "explicit"}}],
        params={
            "max_output_tokens": 2048,
            "reasoning": {"effort": "low", "summary": "auto"},
            "text": {"verbosity": "low"},
            "tools": [SEARCH],
            "metadata": {"run": "1"},
        },
        tools=[LOOK, replace(LOOK, name="peek", parameters=NO_PROPERTIES, metadata=None)],
        tool_choice="auto",
        structure=SCHEMA,
    ),
    "required": LLMRequest([UserMessage("Hi")], tools=[LOOK], tool_choice="required"),
    "named": LLMRequest([UserMessage("Hi")], tools=[LOOK], tool_choice={"name": "look"}),
    "none": LLMRequest([UserMessage("Hi")], tools=[LOOK], tool_choice="none"),
    "json": LLMRequest([UserMessage("Hi")], response_format={"type": "json_object"}),
    "text": LLMRequest([UserMessage("Hi")], response_format={"type": "text"}),
    "schema": LLMRequest(
        [UserMessage("Hi")],
        response_format={"type": "json_schema", "json_schema": {"name": "x", "description": "X.", "schema": SCHEMA}},
    ),
    **{f"after {name}": LLMRequest([UserMessage("Hi"), read(name).message, UserMessage("And?")]) for name in ANSWERS},
}

ITEMS: dict[str, Any] = {
    "function_call": ResponseFunctionToolCallParam,
    "function_call_output": FunctionCallOutput,
    "reasoning": ResponseReasoningItemParam,
    "web_search_call": ResponseFunctionWebSearchParam,
    "image_generation_call": ImageGenerationCall,
}
PARTS: dict[str, Any] = {
    "input_text": ResponseInputTextParam,
    "input_image": ResponseInputImageParam,
    "input_file": ResponseInputFileParam,
    "output_text": ResponseOutputTextParam,
    "refusal": ResponseOutputRefusalParam,
    "summary_text": Summary,
    "reasoning_text": ReasoningContent,
}
TOOLS: dict[str, Any] = {"function": FunctionToolParam, "web_search": WebSearchToolParam}


@functools.cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    several: Any = list.__class_getitem__(kind)  # a list, as pydantic takes no configuration beside a TypedDict
    return TypeAdapter(several, config=STRICT)


def fits(kind: Any, value: object) -> None:
    """Raises ValidationError unless the value fits one of the SDK's types and has no field beyond it."""
    adapter(kind).validate_python([value])


def parts_of(item: dict[str, Any]) -> list[Any]:
    """The parts of an item's content; none if it is a string or there is none."""
    content: Any = item.get("content")
    return content if isinstance(content, list) else []  # pyright: ignore[reportUnknownVariableType]


def check_body(body: dict[str, Any]) -> None:
    """Validates a request part by part: pydantic reads the SDK's iterables lazily, and so not at all."""
    fits(ResponseCreateParamsStreaming if body.get("stream") else ResponseCreateParamsNonStreaming, body)
    for item in body["input"]:
        kind = ResponseOutputMessageParam if "id" in item else EasyInputMessageParam
        fits(ITEMS.get(item["type"], kind), item)
        for part in [*(item.get("summary") or ()), *parts_of(item)]:
            fits(PARTS[part["type"]], part)
    for tool in body.get("tools", ()):
        fits(TOOLS[tool["type"]], tool)
    if "tool_choice" in body:
        fits(ToolChoice, body["tool_choice"])
    if "text" in body:
        fits(ResponseTextConfigParam, body["text"])


def client(vendor: VendorServer) -> sdk.AsyncOpenAI:
    plain = sdk.DefaultAsyncHttpxClient(verify=False)  # loading certificates takes longer than all else here
    return sdk.AsyncOpenAI(api_key="k", base_url=vendor.url, max_retries=0, http_client=plain)


def asking(vendor: VendorServer) -> LLMRequest:
    return LLMRequest([UserMessage("Hi")], config=ProviderConfig(api_key="k", base_url=vendor.url))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_fits_the_sdks_types(name: str, stream: bool) -> None:
    check_body(build_body(REQUESTS[name], "gpt-5-mini", OPENAI, stream=stream))


WRONG: list[dict[str, Any]] = [
    {"inputs": []},
    {"store": "perhaps"},
    {"input": [{"type": "message", "role": "user", "content": "Hi", "name": "x"}]},
    {"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]},
    {"tools": [{"type": "function", "name": "f", "parameters": {}}]},
    {"tool_choice": "any"},
    {"text": {"format": {"type": "json_schema", "schema": {}}}},
]


@pytest.mark.parametrize("change", WRONG)
def test_a_request_that_is_wrong_does_not_fit(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        check_body({**build_body(REQUESTS["plain"], "gpt-5-mini", OPENAI, stream=False), **change})


def agree(ours: LLMResponse, theirs: Response) -> None:
    """Compares an answer as the adapter and as the SDK read it."""
    said = "".join(block.text for block in ours.message.content if isinstance(block, TextBlock))
    refused = [
        part.refusal
        for item in theirs.output
        if item.type == "message"
        for part in item.content
        if part.type == "refusal"
    ]
    assert said == theirs.output_text + "".join(refused)
    calls = [item for item in theirs.output if isinstance(item, ResponseFunctionToolCall)]
    assert [(call.tool_call_id, call.tool_name) for call in ours.message.tool_calls or ()] == [
        (call.call_id, call.name) for call in calls
    ]
    shown = [
        "\n\n".join(part.text for part in [*item.summary, *(item.content or ())])
        for item in theirs.output
        if item.type == "reasoning"
    ]
    assert [block.text for block in ours.message.reasoning] == [text for text in shown if text]
    assert ours.message.id == theirs.id
    assert theirs.usage is not None
    assert (ours.usage.input_tokens, ours.usage.output_tokens, ours.usage.total_tokens) == (
        theirs.usage.input_tokens,
        theirs.usage.output_tokens,
        theirs.usage.total_tokens,
    )
    assert ours.usage.cache_read_tokens == theirs.usage.input_tokens_details.cached_tokens
    assert ours.usage.cache_write_tokens == theirs.usage.input_tokens_details.cache_write_tokens


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_is_read_as_the_sdk_reads_it(vendor: VendorServer, name: str) -> None:
    vendor.replies(json_reply(whole(name)))
    async with client(vendor) as theirs:
        answer = await theirs.responses.create(model="gpt-5-mini", input="Hi")
    agree(await openai("gpt-5-mini").bind().complete(asking(vendor)), answer)


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_stream_is_read_as_the_sdk_reads_it(vendor: VendorServer, name: str) -> None:
    vendor.replies(sse_reply((FIXTURES / f"{name}.sse").read_bytes()))
    async with client(vendor) as theirs, theirs.responses.stream(model="gpt-5-mini", input="Hi") as stream:
        last: Any = [event async for event in stream][-1]
    assert last.type in ("response.completed", "response.incomplete")
    result = openai("gpt-5-mini").bind().stream(asking(vendor))
    agree(await result.response(), last.response)


async def test_the_sdk_sends_the_request_that_we_do(vendor: VendorServer) -> None:
    vendor.replies(json_reply(whole("commentary")))
    request = REQUESTS["everything"]
    config = ProviderConfig(api_key="k", base_url=vendor.url)
    await openai("gpt-5-mini").bind().complete(replace(request, config=config))
    body: Any = build_body(request, "gpt-5-mini", OPENAI, stream=False)
    async with client(vendor) as theirs:
        await theirs.responses.create(**body)
    ours, same = vendor.received
    assert (ours.path, ours.headers["authorization"]) == (same.path, same.headers["authorization"])
    assert ours.json() == same.json()


@pytest.mark.parametrize("name", [*ANSWERS, "failed"])
def test_a_fixture_is_what_the_sdk_takes_for_an_answer(name: str) -> None:
    adapter(Response).validate_python([whole(name)])
