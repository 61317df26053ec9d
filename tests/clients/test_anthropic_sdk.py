"""The Anthropic adapter against the vendor's own SDK: requests fit its types, answers read as it reads them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import GenericAlias
from typing import Any, cast

import anthropic as sdk
import pytest
from anthropic._constants import ANTHROPIC_API_VERSION
from anthropic.types import (
    ContentBlockParam,
    Message,
    MessageParam,
    OutputConfigParam,
    RawMessageStreamEvent,
    TextBlockParam,
    ToolChoiceParam,
    ToolUnionParam,
)
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from pydantic import ConfigDict, TypeAdapter, ValidationError

from perdure.upp.content import DocumentBlock, ImageBlock, TextBlock
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.anthropic import anthropic
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool
from tests.clients.vendor_server import VendorServer, json_reply, sse_reply

FIXTURES = Path(__file__).parent / "fixtures" / "anthropic"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))
REFUSED = {"refusal"}
STRICT = ConfigDict(extra="forbid")

PERSON: JSONObject = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
TREE: JSONObject = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
}
LOOK = Tool("look", "Looks.", TREE, str, metadata={"anthropic": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}})
SEARCH: JSONObject = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}

HISTORY = [
    UserMessage(
        [
            TextBlock("What is this?"),
            ImageBlock(BytesSource(b"\x89PNG"), "image/png"),
            ImageBlock(Base64Source("AAAA"), "image/jpeg"),
            ImageBlock(UrlSource("https://example.com/a.webp"), "image/webp"),
            DocumentBlock(Base64Source("JVBERi0="), "application/pdf", "A paper"),
            DocumentBlock(UrlSource("https://example.com/a.pdf"), "application/pdf"),
            DocumentBlock(TextSource("plain words"), "text/plain", "Notes"),
        ],
        metadata={"anthropic": {"cache_control": {"type": "ephemeral"}}},
    ),
    AssistantMessage("I look.", [ToolCall("toolu_1", "look", {"a": 1}), ToolCall("odd|id", "look", "{broken")]),
    ToolResultMessage([ToolResult("toolu_1", {"seen": True}), ToolResult("odd|id", "", is_error=True)]),
    UserMessage(" "),
]
REQUESTS = {
    "plain": LLMRequest([UserMessage("hi")], system="Be brief."),
    "everything": LLMRequest(
        HISTORY,
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        params={
            "max_tokens": 2048,
            "tools": [SEARCH],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "stop_sequences": ["END"],
            "metadata": {"user_id": "u1"},
        },
        tools=[LOOK],
        tool_choice="auto",
    ),
    "thinking": LLMRequest([UserMessage("hi")], params={"thinking": {"type": "enabled", "budget_tokens": 2000}}),
    "required": LLMRequest([UserMessage("hi")], tools=[LOOK], tool_choice="required"),
    "named": LLMRequest([UserMessage("hi")], tools=[LOOK], tool_choice={"name": "look"}),
    "none": LLMRequest([UserMessage("hi")], tools=[LOOK], tool_choice="none"),
    "structure": LLMRequest([UserMessage("hi")], structure=PERSON),
    "structure and tools": LLMRequest([UserMessage("hi")], structure=PERSON, tools=[LOOK]),
    "structure by tool": LLMRequest([UserMessage("hi")], structure=TREE, tools=[LOOK]),
    "response format": LLMRequest(
        [UserMessage("hi")],
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}},
    ),
}


@functools.cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    several: Any = GenericAlias(list, (kind,))  # as pydantic takes no configuration beside a TypedDict itself
    return TypeAdapter(several, config=STRICT)


def fits(kind: Any, value: object) -> None:
    """Raises ValidationError unless the value fits one of the SDK's types and has no field beyond it."""
    adapter(kind).validate_python([value])


def check_body(body: dict[str, Any]) -> None:
    """Validates a request part by part: pydantic reads the SDK's iterables lazily, and so not at all."""
    fits(MessageCreateParamsStreaming if body.get("stream") else MessageCreateParamsNonStreaming, body)
    for message in body["messages"]:
        assert set(message) == {"role", "content"}
        for block in message["content"]:
            fits(ContentBlockParam, block)
    for tool in body.get("tools", ()):
        fits(ToolUnionParam, tool)
    for block in body["system"] if isinstance(body.get("system"), list) else ():
        fits(TextBlockParam, block)
    if "tool_choice" in body:
        fits(ToolChoiceParam, body["tool_choice"])
    if "output_config" in body:
        fits(OutputConfigParam, body["output_config"])


def whole(name: str) -> JSONObject:
    return json.loads((FIXTURES / f"{name}.json").read_text())


def events(name: str) -> Iterator[JSONObject]:
    for line in (FIXTURES / f"{name}.sse").read_text().splitlines():
        if line.startswith("data:"):
            yield json.loads(line.removeprefix("data:"))


def with_server(request: LLMRequest, vendor: VendorServer) -> LLMRequest:
    return replace(request, config=ProviderConfig(api_key="k", base_url=vendor.url))


def client(vendor: VendorServer) -> sdk.AsyncAnthropic:
    without_certificates = sdk.DefaultAsyncHttpxClient(verify=False)  # reading them takes longer than the test
    return sdk.AsyncAnthropic(api_key="k", base_url=vendor.url, max_retries=0, http_client=without_certificates)


async def ask_the_sdk(vendor: VendorServer, by_stream: bool) -> Message:
    question: MessageParam = {"role": "user", "content": "hi"}
    async with client(vendor) as theirs:
        if not by_stream:
            return await theirs.messages.create(model="claude-sonnet-4-6", max_tokens=99, messages=[question])
        async with theirs.messages.stream(model="claude-sonnet-4-6", max_tokens=99, messages=[question]) as stream:
            return cast(Message, await stream.get_final_message())


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("by_stream", [False, True])
async def test_the_request_fits_the_sdks_types(vendor: VendorServer, name: str, by_stream: bool) -> None:
    fixture = "structured" if "structure" in name else "text"
    vendor.replies(sse_reply((FIXTURES / f"{fixture}.sse").read_bytes()) if by_stream else json_reply(whole(fixture)))
    model = anthropic("claude-sonnet-4-6").bind()
    request = with_server(REQUESTS[name], vendor)
    if by_stream:
        await model.stream(request).response()
    else:
        await model.complete(request)
    check_body(vendor.received[0].json())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REFUSED])
async def test_what_goes_back_fits_the_sdks_types(vendor: VendorServer, name: str) -> None:
    vendor.replies(json_reply(whole(name)), json_reply(whole("text")))
    model = anthropic("claude-sonnet-4-6").bind()
    said = (await model.complete(with_server(LLMRequest([UserMessage("hi")]), vendor))).message
    results = [ToolResult(call.tool_call_id, "done") for call in said.tool_calls or ()]
    follow = [ToolResultMessage(results)] if results else [UserMessage("go on")]
    await model.complete(with_server(LLMRequest([UserMessage("hi"), said, *follow]), vendor))
    check_body(vendor.received[1].json())


WRONG: dict[str, tuple[Any, JSONObject]] = {
    "a block": (ContentBlockParam, {"type": "tool_result", "tool_use_id": "t", "content": "x", "name": "look"}),
    "inside a block": (
        ContentBlockParam,
        {"type": "image", "source": {"type": "url", "url": "https://example.com", "media_type": "image/png"}},
    ),
    "a request": (
        MessageCreateParamsNonStreaming,
        {"model": "m", "max_tokens": 1, "messages": [], "response_format": {"type": "text"}},
    ),
    "a tool": (ToolUnionParam, {"name": "look", "input_schema": {"type": "object"}, "parameters": {}}),
}


@pytest.mark.parametrize("where", WRONG)
def test_the_check_itself_notices_a_field_too_many(where: str) -> None:
    kind, value = WRONG[where]
    with pytest.raises(ValidationError):
        fits(kind, value)


@pytest.mark.parametrize("name", NAMES)
def test_the_fixtures_are_what_the_sdk_documents(name: str) -> None:
    Message.model_validate(whole(name))
    reader = TypeAdapter[RawMessageStreamEvent](RawMessageStreamEvent)
    kinds = [reader.validate_python(event).type for event in events(name) if event["type"] != "ping"]
    assert (kinds[0], kinds[-2], kinds[-1]) == ("message_start", "message_delta", "message_stop")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REFUSED])
@pytest.mark.parametrize("by_stream", [False, True])
async def test_the_sdk_reads_the_same_from_the_same_bytes(vendor: VendorServer, name: str, by_stream: bool) -> None:
    vendor.replies(sse_reply((FIXTURES / f"{name}.sse").read_bytes()) if by_stream else json_reply(whole(name)))
    shown = await ask_the_sdk(vendor, by_stream)
    request = with_server(LLMRequest([UserMessage("hi")]), vendor)
    model = anthropic("claude-sonnet-4-6").bind()
    ours = await (model.stream(request).response() if by_stream else model.complete(request))
    calls = [(b.id, b.name, b.input) for b in shown.content if b.type == "tool_use"]
    reasoning = [b.thinking for b in shown.content if b.type == "thinking" and b.thinking]
    texts = "".join(b.text for b in shown.content if b.type == "text")
    fenced = "```\n42\n```" if name == "code" else ""
    assert ours.message.id == shown.id
    assert ours.stop_reason == shown.stop_reason
    assert [b.text for b in ours.message.reasoning] == reasoning
    assert "".join(b.text for b in ours.message.content if isinstance(b, TextBlock)) == fenced + texts
    assert [(c.tool_call_id, c.tool_name, c.arguments or {}) for c in ours.message.tool_calls or ()] == calls
    assert ours.usage.input_tokens == shown.usage.input_tokens
    assert ours.usage.output_tokens == shown.usage.output_tokens
    assert ours.usage.cache_read_tokens == (shown.usage.cache_read_input_tokens or 0)
    assert ours.usage.cache_write_tokens == (shown.usage.cache_creation_input_tokens or 0)


async def test_our_request_is_the_one_that_the_sdk_sends(vendor: VendorServer) -> None:
    vendor.replies(json_reply(whole("structured")))
    config = ProviderConfig(api_key="k", base_url=vendor.url, api_version=ANTHROPIC_API_VERSION)
    request = replace(REQUESTS["structure and tools"], config=config)
    await anthropic("claude-sonnet-4-6", betas=["some-beta"]).bind().complete(request)
    ours = vendor.received[0]
    async with client(vendor) as theirs:
        await theirs.messages.create(**ours.json(), extra_headers={"anthropic-beta": "some-beta"})
    shown = vendor.received[1]
    assert (ours.method, ours.path) == (shown.method, shown.path)
    assert ours.json() == shown.json()
    for header in ("anthropic-version", "anthropic-beta", "content-type"):
        assert ours.headers[header] == shown.headers[header]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, sdk.BadRequestError),
        (401, sdk.AuthenticationError),
        (403, sdk.PermissionDeniedError),
        (404, sdk.NotFoundError),
        (429, sdk.RateLimitError),
        (500, sdk.InternalServerError),
        (529, sdk.InternalServerError),
    ],
)
async def test_an_error_is_one_to_both(vendor: VendorServer, status: int, kind: type[sdk.APIStatusError]) -> None:
    vendor.replies(json_reply({"type": "error", "error": {"type": "some_error", "message": "what happened"}}, status))
    async with client(vendor) as theirs:
        with pytest.raises(kind) as shown:
            await theirs.messages.create(
                model="claude-sonnet-4-6", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
            )
    with pytest.raises(UPPError) as caught:
        await anthropic("claude-sonnet-4-6").bind().complete(with_server(LLMRequest([UserMessage("hi")]), vendor))
    assert caught.value.status_code == shown.value.status_code
    assert "what happened" in caught.value.message
