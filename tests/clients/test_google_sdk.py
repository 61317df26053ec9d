"""The Gemini adapter beside Google's own SDK: its types read what we send, and its client reads what we read."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.genai import Client, errors, types
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from perdure.upp.content import AudioBlock, BinaryBlock, DocumentBlock, ImageBlock, VideoBlock
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.google import google
from perdure.upp.providers.google.request import build_body
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool
from tests.clients.vendor_server import VendorServer, json_reply, sse_reply

FIXTURES = Path(__file__).parent / "fixtures" / "google"
KEY = "AIza-secret-of-the-test"
MODEL = "gemini-3-pro-preview"
NO_ANSWERS = ("blocked", "malformed_call", "error_")
ANSWERS = sorted(path.stem for path in FIXTURES.glob("*.json") if not path.stem.startswith(NO_ANSWERS))
ERRORS = sorted(path.stem for path in FIXTURES.glob("error_*.json"))
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # else each client reads them all, and here is no TLS
SCHEMA: JSONObject = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
TOOL = Tool("look", "Looks.", SCHEMA, run=str)


class GenerateContentRequest(BaseModel):
    """A request's body in the SDK's types; neither knows fields that Google does not."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    contents: list[types.Content]
    system_instruction: types.Content | None = None
    tools: list[types.Tool] | None = None
    tool_config: types.ToolConfig | None = None
    safety_settings: list[types.SafetySetting] | None = None
    generation_config: types.GenerationConfig | None = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    service_tier: str | None = None


@pytest.fixture
async def sdk(vendor: VendorServer) -> AsyncGenerator[Any, None]:
    """The models of Google's client, whose Google is the vendor on this machine; not all of their types are known."""
    options = types.HttpOptions(
        base_url=vendor.url,
        api_version="v1beta",
        retry_options=types.HttpRetryOptions(attempts=1),
        client_args={"verify": NO_CERTIFICATES},
        async_client_args={"verify": NO_CERTIFICATES, "ssl": NO_CERTIFICATES},
    )
    client = Client(api_key=KEY, vertexai=False, http_options=options)
    yield client.aio.models
    await client.aio.aclose()
    client.close()


def fixture(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_bytes())


async def ours(vendor: VendorServer, messages: Sequence[Message] = (), **fields: Any) -> LLMResponse:
    config = ProviderConfig(api_key=KEY, base_url=vendor.url)
    return await google(MODEL).bind().complete(LLMRequest(messages or [UserMessage("hi")], config=config, **fields))


CONVERSATION = [
    UserMessage(
        [
            "Look.",
            ImageBlock(BytesSource(b"\0\1"), "image/png"),
            ImageBlock(UrlSource("https://generativelanguage.googleapis.com/v1beta/files/a1"), "image/png"),
            DocumentBlock(Base64Source("AAE="), "application/pdf", "Report"),
            DocumentBlock(TextSource("text"), "text/plain"),
            AudioBlock(b"\0\1", "audio/wav"),
            VideoBlock(b"\0\1", "video/mp4"),
            BinaryBlock(b"\0\1", "text/csv"),
        ]
    ),
    AssistantMessage(["Well."], [ToolCall("1", "look", {"a": "x"}), ToolCall("2", "look", "no json")]),
    ToolResultMessage([ToolResult("1", [1]), ToolResult("2", "arguments are no JSON", is_error=True)]),
    AssistantMessage(""),
    UserMessage("And now?"),
]


ASKED: list[dict[str, Any]] = [
    {},
    {"system": "Be kind."},
    {"system": [{"text": "Be kind."}, "Be short."]},
    {"tools": [TOOL]},
    {"tools": [TOOL], "params": {"tools": [{"googleSearch": {}}]}},
    *({"tools": [TOOL], "tool_choice": choice} for choice in ("auto", "none", "required", {"name": "look"})),
    {"structure": SCHEMA},
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_schema", "schema": SCHEMA, "name": "x", "strict": True}},
    {"modalities": ["text", "image"]},
    {"modalities": ["audio"]},
    {
        "params": {
            "temperature": 0.2,
            "thinkingConfig": {"includeThoughts": True},
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
            "cachedContent": "cachedContents/1",
            "labels": {"team": "x"},
            "serviceTier": "flex",
            "generationConfig": {"seed": 7},
        }
    },
]


@pytest.mark.parametrize("fields", ASKED)
def test_our_bodies_have_the_sdk_types(fields: dict[str, Any]) -> None:
    read = GenerateContentRequest.model_validate(build_body(LLMRequest(CONVERSATION, **fields), MODEL))
    assert [content.role for content in read.contents] == ["user", "model", "user", "user"]


def test_the_sdk_types_would_refuse_another_field() -> None:
    body = build_body(LLMRequest(CONVERSATION, params={"colour": "red"}), MODEL)
    with pytest.raises(ValidationError, match="colour"):
        GenerateContentRequest.model_validate(body)


async def test_our_body_is_the_sdk_body(vendor: VendorServer, sdk: Any) -> None:
    vendor.replies(json_reply(fixture("text")), json_reply(fixture("structured")))
    answer = (await ours(vendor)).message
    history = [
        UserMessage(["Look.", ImageBlock(BytesSource(b"\0\1"), "image/png")]),
        answer,
        UserMessage("Use the tool."),
    ]
    await ours(
        vendor,
        history,
        system="Be kind.",
        tools=[TOOL],
        tool_choice={"name": "look"},
        structure=SCHEMA,
        params={"temperature": 0.2, "maxOutputTokens": 9, "safetySettings": []},
    )
    contents = [
        types.Content(
            role="user", parts=[types.Part(text="Look."), types.Part.from_bytes(data=b"\0\1", mime_type="image/png")]
        ),
        types.Content.model_validate(fixture("text")["candidates"][0]["content"]),
        types.Content(role="user", parts=[types.Part(text="Use the tool.")]),
    ]
    config = types.GenerateContentConfig(
        system_instruction=types.Content(parts=[types.Part(text="Be kind.")]),
        tools=[
            types.Tool(
                function_declarations=[
                    types.FunctionDeclaration(name="look", description="Looks.", parameters_json_schema=SCHEMA)
                ]
            )
        ],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["look"]
            )
        ),
        response_mime_type="application/json",
        response_json_schema=SCHEMA,
        temperature=0.2,
        max_output_tokens=9,
        safety_settings=[],
    )
    await sdk.generate_content(model=MODEL, contents=contents, config=config)
    mine, theirs = vendor.received[-2:]
    assert _canonical(mine.json()) == _canonical(theirs.json())
    assert (mine.method, mine.path) == (theirs.method, theirs.path)
    assert mine.headers["x-goog-api-key"] == theirs.headers["x-goog-api-key"]


@pytest.mark.parametrize("name", ["calls", "mixed", "thinking", "image", "code"])
async def test_an_answer_goes_back_as_the_sdk_sends_it_back(vendor: VendorServer, sdk: Any, name: str) -> None:
    vendor.replies(json_reply(fixture(name)))
    answer = (await ours(vendor)).message
    theirs = await sdk.generate_content(model=MODEL, contents="hi")
    assert theirs.candidates is not None
    content = theirs.candidates[0].content
    assert content is not None
    content.parts = [part for part in content.parts or () if not part.thought]  # both may leave thoughts out
    asked = types.Content(role="user", parts=[types.Part(text="hi")])
    await sdk.generate_content(model=MODEL, contents=[asked, content, asked])
    await ours(vendor, [UserMessage("hi"), answer, UserMessage("hi")])
    sent, mine = (_canonical(request.json()["contents"]) for request in vendor.received[-2:])
    assert mine == sent


def _canonical(value: JSONValue) -> object:
    """Reads base64 and names away: the SDK writes another alphabet than it reads, and some names in snake case."""
    if isinstance(value, dict):
        encoded, renamed = ("thoughtSignature", "data"), {each: to_camel(each) for each in value if "_" in each}
        return {
            renamed.get(name, name): _bytes(item) if name in encoded else _canonical(item)
            for name, item in value.items()
        }
    return [_canonical(item) for item in value] if isinstance(value, list) else value


def _bytes(text: JSONValue) -> bytes:
    return base64.urlsafe_b64decode(str(text).replace("+", "-").replace("/", "_"))


def assert_same(mine: LLMResponse, theirs: Sequence[types.GenerateContentResponse]) -> None:
    """Compares what we made of an answer with the parts that the SDK gives, chunk by chunk."""
    candidates = [each.candidates[0] for each in theirs if each.candidates]
    parts = [part for each in candidates for part in (each.content.parts if each.content else None) or ()]
    fenced = [part for part in parts if part.executable_code or part.code_execution_result]
    text = "".join(part.text or "" for part in parts if not part.thought)
    if not fenced:
        assert "".join(mine.message.text.split("\n\n")) == text
    thoughts = "".join(part.text or "" for part in parts if part.thought)
    assert "".join(block.text for block in mine.message.reasoning) == thoughts
    calls = [part.function_call for part in parts if part.function_call]
    assert [(each.tool_name, each.arguments) for each in mine.message.tool_calls or ()] == [
        (call.name, call.args or {}) for call in calls
    ]
    images = [part.inline_data.data for part in parts if part.inline_data]
    assert [image.source.data for image in mine.message.images if isinstance(image.source, BytesSource)] == images
    usage = theirs[-1].usage_metadata
    assert usage is not None
    assert mine.usage.total_tokens == usage.total_token_count
    assert mine.usage.cache_read_tokens == (usage.cached_content_token_count or 0)
    assert mine.usage.input_tokens + mine.usage.output_tokens == usage.total_token_count
    assert mine.message.id == theirs[-1].response_id


@pytest.mark.parametrize("name", ANSWERS)
async def test_the_sdk_reads_the_same_answer(vendor: VendorServer, sdk: Any, name: str) -> None:
    vendor.replies(json_reply(fixture(name)))
    assert_same(await ours(vendor), [await sdk.generate_content(model=MODEL, contents="hi")])


@pytest.mark.parametrize("name", ["text", "calls", "thinking"])
async def test_the_sdk_reads_the_same_stream(vendor: VendorServer, sdk: Any, name: str) -> None:
    vendor.replies(sse_reply((FIXTURES / f"{name}.sse").read_bytes()))
    request = LLMRequest([UserMessage("hi")], config=ProviderConfig(api_key=KEY, base_url=vendor.url))
    mine = await google(MODEL).bind().stream(request).response()
    chunks = await sdk.generate_content_stream(model=MODEL, contents="hi")
    assert_same(mine, [chunk async for chunk in chunks])
    assert vendor.received[0].path == vendor.received[1].path


async def test_an_answer_made_of_the_sdk_types_is_read(vendor: VendorServer) -> None:
    parts = [
        types.Part(text="Well. "),
        types.Part(
            function_call=types.FunctionCall(id="c1", name="look", args={"a": [1, None, {"b": "ü"}]}),
            thought_signature=b"\xfb\xff sig",
        ),
    ]
    candidate = types.Candidate(
        content=types.Content(role="model", parts=parts), finish_reason=types.FinishReason.STOP, index=0
    )
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=3, candidates_token_count=4, total_token_count=7
    )
    answer = types.GenerateContentResponse(candidates=[candidate], usage_metadata=usage, response_id="r1")
    vendor.replies(json_reply(answer.model_dump(mode="json", by_alias=True, exclude_none=True)))
    mine = await ours(vendor)
    assert mine.message.tool_calls == [ToolCall("c1", "look", {"a": [1, None, {"b": "ü"}]})]
    await ours(vendor, [UserMessage("hi"), mine.message, ToolResultMessage([ToolResult("c1", 1)])])
    sent = vendor.received[-1].json()["contents"]
    assert types.Content.model_validate(sent[1]).parts == parts


@pytest.mark.parametrize("name", ERRORS)
async def test_the_sdk_reads_the_same_error(vendor: VendorServer, sdk: Any, name: str) -> None:
    body = fixture(name)
    vendor.replies(json_reply(body, body["error"]["code"]))
    with pytest.raises(UPPError) as mine:
        await ours(vendor)
    with pytest.raises(errors.APIError) as theirs:
        await sdk.generate_content(model=MODEL, contents="hi")
    assert (mine.value.status_code, mine.value.message) == (theirs.value.code, theirs.value.message)
