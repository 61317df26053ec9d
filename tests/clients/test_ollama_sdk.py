"""Our Ollama adapter and Ollama's own Python client say and understand the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from ollama import AsyncClient, ChatResponse, Image, Message, Options, ResponseError

from perdure.upp.content import ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import BytesSource
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.ollama import ollama
from perdure.upp.providers.ollama.request import build_body
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool
from tests.clients.vendor_server import VendorServer, json_reply, lines_reply

FIXTURES = Path(__file__).parent / "fixtures" / "ollama"
WHOLE = ["text.json", "tools.json", "structured.json", "image.json", "thinking.json"]
STREAMS = ["text.ndjson", "parallel.ndjson", "thinking.ndjson"]
MODEL = ollama("qwen3").bind()

PNG = b"\x89PNG\r\n\x1a\n"
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "$defs": {"City": {"type": "string"}},
    "required": ["city"],
    "properties": {"city": {"type": "string", "description": "Where.", "enum": ["Paris", "Oslo"]}},
}
STRUCTURE: dict[str, Any] = {"type": "object", "properties": {"age": {"type": "integer"}}}
MESSAGES = [
    UserMessage(["What is it?", ImageBlock(BytesSource(PNG), "image/png")]),
    AssistantMessage([ReasoningBlock("Hm."), TextBlock("A dot in")], [ToolCall("c", "weather", {"city": "Paris"})]),
    ToolResultMessage([ToolResult("c", "20 °C")]),
]
SAME_MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is it?", "images": [PNG]},
    {
        "role": "assistant",
        "content": "A dot in",
        "thinking": "Hm.",
        "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Paris"}}}],
    },
    {"role": "tool", "tool_name": "weather", "content": "20 °C"},
]
TOOL = Tool("weather", "The weather.", PARAMETERS, run=print)
SAME_TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather.", "parameters": PARAMETERS},
}


ASKED: list[dict[str, Any]] = [{"tools": [TOOL]}, {"structure": STRUCTURE}]
"""Tools or a form: Ollama cannot do both at once."""


def our_request(asked: dict[str, Any], url: str = "http://unused") -> LLMRequest:
    return LLMRequest(
        MESSAGES,
        system="Be brief.",
        **asked,
        params={
            "temperature": 0.5,
            "num_ctx": 4096,
            "stop": ["\n"],
            "keep_alive": "5m",
            "think": "low",
            "top_logprobs": 2,
        },
        config=ProviderConfig(base_url=url),
    )


async def ask(url: str) -> LLMResponse:
    return await MODEL.complete(LLMRequest([UserMessage("x")], config=ProviderConfig(base_url=url)))


async def ask_stream(url: str) -> LLMResponse:
    return await MODEL.stream(LLMRequest([UserMessage("x")], config=ProviderConfig(base_url=url))).response()


def in_our_words(message: Message) -> tuple[str, str, list[tuple[str, Any]]]:
    calls = [(call.function.name, dict(call.function.arguments)) for call in message.tool_calls or ()]
    return message.content or "", message.thinking or "", calls


def of_ours(message: AssistantMessage) -> tuple[str, str, list[tuple[str, Any]]]:
    thought = "".join(block.text for block in message.reasoning)
    return message.text, thought, [(call.tool_name, call.arguments) for call in message.tool_calls or ()]


@pytest.mark.parametrize("asked", ASKED, ids=["tools", "form"])
async def test_the_client_sends_the_same_body(asked: dict[str, Any], vendor: VendorServer) -> None:
    """One conversation, told to both: with images, tools or a schema, results, and parameters of each kind."""
    vendor.replies(json_reply(json.loads((FIXTURES / "structured.json").read_text())))
    await MODEL.complete(our_request(asked, vendor.url))
    client = AsyncClient(host=vendor.url)
    async with client:
        await client.chat(  # pyright: ignore[reportUnknownMemberType]
            "qwen3",
            SAME_MESSAGES,
            tools=[SAME_TOOL] if "tools" in asked else None,
            format=asked.get("structure"),
            options={"temperature": 0.5, "num_ctx": 4096, "stop": ["\n"]},
            keep_alive="5m",
            think="low",  # type: ignore[arg-type]
            top_logprobs=2,
        )
    ours, theirs = vendor.received
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    assert {"tools": [], **ours.json()} == theirs.json()  # the client says that there are none


def test_the_clients_types_know_every_field_of_our_body() -> None:
    """Its models drop what they do not know: what comes back of a body is the body."""
    body = build_body("qwen3", our_request(ASKED[0]), stream=False)
    for said in cast("list[dict[str, Any]]", body["messages"]):
        images = said.get("images")
        typed: dict[str, Any] = {**said}
        if images is not None:
            typed["images"] = [Image(value=image) for image in images]
        assert Message.model_validate(typed).model_dump(exclude_none=True) == said
    assert Options.model_validate(body["options"]).model_dump(exclude_none=True) == body["options"]


@pytest.mark.parametrize("name", WHOLE)
async def test_both_read_an_answer_alike(name: str, vendor: VendorServer) -> None:
    vendor.replies(json_reply(json.loads((FIXTURES / name).read_text())))
    ours = await ask(vendor.url)
    client = AsyncClient(host=vendor.url)
    async with client:
        theirs = await client.chat("qwen3", [{"role": "user", "content": "x"}])  # pyright: ignore[reportUnknownMemberType]
    assert of_ours(ours.message) == in_our_words(theirs.message)
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (theirs.prompt_eval_count, theirs.eval_count)


@pytest.mark.parametrize("name", STREAMS)
async def test_both_read_a_stream_alike(name: str, vendor: VendorServer) -> None:
    if name == "text.ndjson":  # the client insists on a message in the last line, which the documentation leaves out
        *first, last = (FIXTURES / name).read_text().splitlines()
        text = "\n".join([*first, last.replace('"done"', '"message":{"role":"assistant","content":""},"done"')])
    else:
        text = (FIXTURES / name).read_text()
    vendor.replies(lines_reply(text, piece=50))
    ours = await ask_stream(vendor.url)
    client = AsyncClient(host=vendor.url)
    async with client:
        parts = [
            part
            async for part in await client.chat(  # pyright: ignore[reportUnknownMemberType]
                "qwen3", [{"role": "user", "content": "x"}], stream=True
            )
        ]
    said = [in_our_words(part.message) for part in parts]
    calls = [call for _, _, made in said for call in made]
    assert of_ours(ours.message) == ("".join(s[0] for s in said), "".join(s[1] for s in said), calls)
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (parts[-1].prompt_eval_count, parts[-1].eval_count)


def made_by_the_client(**fields: Any) -> JSONObject:
    call = Message.ToolCall(function=Message.ToolCall.Function(name="weather", arguments={"city": "Paris"}))
    message = Message(role="assistant", content="On it.", thinking="Hm.", tool_calls=[call])
    answer = ChatResponse(model="qwen3", message=message, prompt_eval_count=3, eval_count=4, **fields)
    return json.loads(answer.model_dump_json())


async def test_an_answer_of_the_clients_types_is_read_whole(vendor: VendorServer) -> None:
    """With all its fields, null where they are not set."""
    vendor.replies(json_reply(made_by_the_client(done=True, done_reason="stop")))
    response = await ask(vendor.url)
    assert of_ours(response.message) == ("On it.", "Hm.", [("weather", {"city": "Paris"})])
    assert (response.usage.total_tokens, response.stop_reason) == (7, "tool_use")


async def test_a_stream_of_the_clients_types_is_read_whole(vendor: VendorServer) -> None:
    values = [made_by_the_client(done=False), made_by_the_client(done=True, done_reason="length")]
    vendor.replies(lines_reply("\n".join(json.dumps(value) for value in values)))
    response = await ask_stream(vendor.url)
    call = ("weather", {"city": "Paris"})
    assert of_ours(response.message) == ("On it.On it.", "Hm.Hm.", [call, call])
    assert (response.usage.total_tokens, response.stop_reason) == (7, "max_tokens")


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_both_understand_an_error(status: int, vendor: VendorServer) -> None:
    vendor.replies(json_reply({"error": "model 'qwen3' is ill"}, status))
    client = AsyncClient(host=vendor.url)
    async with client:
        with pytest.raises(ResponseError) as theirs:
            await client.chat("qwen3", [{"role": "user", "content": "x"}])  # pyright: ignore[reportUnknownMemberType]
    with pytest.raises(UPPError) as ours:
        await ask(vendor.url)
    assert ours.value.status_code == theirs.value.status_code
    assert theirs.value.error in ours.value.message


async def test_both_understand_an_error_inside_a_stream(vendor: VendorServer) -> None:
    vendor.replies(lines_reply((FIXTURES / "error.ndjson").read_text()))
    client = AsyncClient(host=vendor.url)
    async with client:
        parts = await client.chat("x", [{"role": "user", "content": "x"}], stream=True)  # pyright: ignore[reportUnknownMemberType]
        with pytest.raises(ResponseError) as theirs:
            [part async for part in parts]
    with pytest.raises(UPPError) as ours:
        await ask_stream(vendor.url)
    assert ours.value.message == theirs.value.error
