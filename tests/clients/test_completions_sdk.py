"""Chat Completions as OpenAI's own client writes and reads it: our requests fit its types, we read what it reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from perdure.upp.content import DocumentBlock, ImageBlock
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.openai_completions import OPENAI, CompletionsModel
from perdure.upp.providers.openai_completions.request import to_body
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool
from perdure.upp.usage import TokenUsage
from tests.clients.vendor_server import VendorServer, json_reply, sse_reply

FIXTURES = Path(__file__).parent / "fixtures" / "openai_completions"
MODEL = CompletionsModel("gpt-x", OPENAI)
SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
HISTORY = [
    UserMessage(
        [
            "Look:",
            ImageBlock(UrlSource("https://x/y.png"), "image/png"),
            ImageBlock(BytesSource(b"\0"), "image/png"),
            DocumentBlock(Base64Source("JVBERg=="), "application/pdf", "a.pdf"),
            DocumentBlock(TextSource("text"), "text/plain"),
        ]
    ),
    AssistantMessage("One moment.", [ToolCall("a", "find", {"city": "Oslo"}), ToolCall("b", "find", '{"city":')]),
    ToolResultMessage([ToolResult("a", {"n": 1}), ToolResult("b", "no JSON", is_error=True)]),
    AssistantMessage([]),
    UserMessage(""),
]


def run(arguments: object) -> None:
    """Does what this tool does: nothing."""


FIND = Tool("find", "Finds.", SCHEMA, run, metadata={"openai": {"strict": True}})
REQUESTS = {
    "history": LLMRequest(HISTORY, system="Be brief.", tools=[FIND], tool_choice="auto"),
    "system blocks": LLMRequest([UserMessage("hi")], system=[{"type": "text", "text": "Be brief."}]),
    "required tool": LLMRequest([UserMessage("hi")], tools=[FIND], tool_choice="required"),
    "named tool": LLMRequest([UserMessage("hi")], tools=[FIND], tool_choice={"name": "find"}),
    "no tool": LLMRequest([UserMessage("hi")], tools=[FIND], tool_choice="none"),
    "structure": LLMRequest([UserMessage("hi")], structure=SCHEMA),
    "JSON object": LLMRequest([UserMessage("hi")], response_format={"type": "json_object"}),
    "named format": LLMRequest(
        [UserMessage("hi")],
        response_format={"type": "json_schema", "schema": SCHEMA, "name": "n", "description": "d"},
    ),
    "text format": LLMRequest([UserMessage("hi")], response_format={"type": "text"}),
    "spoken": LLMRequest(
        [UserMessage("hi")], modalities=["text", "audio"], params={"audio": {"voice": "alloy", "format": "wav"}}
    ),
    "params": LLMRequest([UserMessage("hi")], params={"temperature": 0, "max_completion_tokens": 5, "seed": 1}),
}


def check_against(kind: Any, body: Any) -> None:
    """Raises ValidationError unless the body is of the SDK's type, without anything beyond it."""
    kinds: Any = list
    adapter: TypeAdapter[Any] = TypeAdapter(kinds[kind], config=ConfigDict(extra="forbid"))
    read = adapter.validate_python([body])  # the iterables in it need the adapter
    _read_all(read)


def _read_all(value: Any) -> None:
    """Reads iterables to their end: pydantic looks at their items only then."""
    if isinstance(value, dict):
        for inner in value.values():  # pyright: ignore[reportUnknownVariableType]
            _read_all(inner)
    elif isinstance(value, list | Iterator):
        for inner in value:  # pyright: ignore[reportUnknownVariableType]
            _read_all(inner)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_fits_the_sdks_types(name: str) -> None:
    check_against(CompletionCreateParamsNonStreaming, to_body(REQUESTS[name], "gpt-x", OPENAI, stream=False))
    check_against(CompletionCreateParamsStreaming, to_body(REQUESTS[name], "gpt-x", OPENAI, stream=True))


@pytest.mark.parametrize(
    "change",
    [
        {"unknown": 1},
        {"messages": [{"role": "user", "content": "hi", "unknown": 1}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "unknown": 1}]}]},
        {"tools": [{"type": "function", "function": {"name": "f", "unknown": 1}}]},
    ],
)
def test_the_check_finds_what_the_types_do_not_have(change: Any) -> None:
    body = to_body(LLMRequest([UserMessage("hi")]), "gpt-x", OPENAI, stream=False)
    with pytest.raises(ValidationError):
        check_against(CompletionCreateParamsNonStreaming, {**body, **change})


def same(message: ChatCompletionMessage, response: LLMResponse) -> None:
    """Asserts that we read what the SDK read."""
    assert response.message.text == (message.content or message.refusal or "")
    assert [(call.tool_call_id, call.tool_name, call.arguments) for call in response.message.tool_calls or []] == [
        (call.id, call.function.name, json.loads(call.function.arguments))
        for call in message.tool_calls or []
        if call.type == "function"
    ]


def request_to(vendor: VendorServer) -> LLMRequest:
    config = ProviderConfig(api_key="sk-test", base_url=f"{vendor.url}/v1")
    return LLMRequest([UserMessage("hi")], config=config)


def client_of(vendor: VendorServer) -> AsyncOpenAI:
    plain = DefaultAsyncHttpxClient(verify=False)  # loading certificates takes longer than all else here
    return AsyncOpenAI(api_key="sk-test", base_url=f"{vendor.url}/v1", max_retries=0, http_client=plain)


@pytest.mark.parametrize("name", ["text", "tools", "refusal"])
async def test_the_sdks_client_reads_the_same_whole_answer(vendor: VendorServer, name: str) -> None:
    vendor.replies(json_reply(json.loads((FIXTURES / f"{name}.json").read_text())))
    async with client_of(vendor) as client:
        theirs = await client.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "hi"}])
    ours = await MODEL.complete(request_to(vendor))
    same(theirs.choices[0].message, ours)
    assert theirs.usage is not None
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (
        theirs.usage.prompt_tokens,
        theirs.usage.completion_tokens,
    )
    first, second = (received.json() for received in vendor.received)
    assert first == second


@pytest.mark.parametrize("name", ["text", "tools", "refusal"])
async def test_the_sdks_client_reads_the_same_stream(vendor: VendorServer, name: str) -> None:
    vendor.replies(sse_reply((FIXTURES / f"{name}.sse").read_text()))
    async with (
        client_of(vendor) as client,
        client.chat.completions.stream(model="gpt-x", messages=[{"role": "user", "content": "hi"}]) as stream,
    ):
        theirs = await stream.get_final_completion()
    ours = await MODEL.stream(request_to(vendor)).response()
    same(theirs.choices[0].message, ours)
    assert theirs.id == ours.message.id


async def test_the_sdk_fails_on_the_error_that_we_fail_on(vendor: VendorServer) -> None:
    vendor.replies(sse_reply('data: {"error":{"message":"busy","code":429}}\n\n'))
    async with client_of(vendor) as client:
        stream = await client.chat.completions.create(
            model="gpt-x", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        with pytest.raises(OpenAIError, match="busy"):
            async for _ in stream:
                pass


def dumped(model: BaseModel) -> Any:
    return model.model_dump(mode="json")


def _completion() -> ChatCompletion:
    return ChatCompletion.model_validate(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-x",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "logprobs": None,
                    "message": {
                        "role": "assistant",
                        "content": "Hi.",
                        "refusal": None,
                        "tool_calls": [
                            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
                        ],
                    },
                }
            ],
            "usage": {
                "prompt_tokens": 4,
                "completion_tokens": 3,
                "total_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
            },
        }
    )


async def test_an_answer_with_every_field_of_the_sdks_type_is_read(vendor: VendorServer) -> None:
    completion = _completion()
    vendor.replies(json_reply(dumped(completion)))
    ours = await MODEL.complete(request_to(vendor))
    same(completion.choices[0].message, ours)
    assert ours.usage == TokenUsage(4, 3, 7, 2, 1)


async def test_chunks_with_every_field_of_the_sdks_type_are_read(vendor: VendorServer) -> None:
    deltas: list[Any] = [
        {"role": "assistant", "content": "Hi"},
        {"content": "."},
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x": 1}'}}]},
        {},
    ]
    chunks: list[ChatCompletionChunk] = [
        ChatCompletionChunk.model_validate(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "gpt-x",
                "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "tool_calls"}],
            }
        )
        for delta in deltas
    ]
    vendor.replies(
        sse_reply("".join(f"data: {json.dumps(dumped(chunk))}\n\n" for chunk in chunks) + "data: [DONE]\n\n")
    )
    ours = await MODEL.stream(request_to(vendor)).response()
    same(_completion().choices[0].message, ours)
