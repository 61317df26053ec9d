"""Real clients before a running server: `openai`, pydantic-ai's model for OpenAI's API, LangChain's `ChatOpenAI`."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI
from openai.types.chat import ChatCompletionMessageFunctionToolCall as FunctionCall
from pydantic import BaseModel, SecretStr
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.conformance.batch_place import AGENT, TIME, WEATHER, batch_api, batch_worker
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS: Any = [WEATHER, TIME]
WHERE = "Weather and time in Paris?"
ANSWER = "The tools say: rain; noon."


@pytest.fixture(scope="module")
def api(stack: Stack) -> Iterator[ApiProcess]:
    with batch_worker(stack), batch_api(stack) as process:
        yield process


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def client(api: ApiProcess) -> AsyncGenerator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{api.url}/v1", api_key="none", max_retries=0) as opened:
        yield opened


def brought(calls: list[Any]) -> list[Any]:
    """The messages that bring a client's results."""
    told = {"get_weather": "rain", "get_time": "noon"}
    asked = {"role": "assistant", "content": None, "tool_calls": [call.model_dump(exclude_none=True) for call in calls]}
    results = [{"role": "tool", "tool_call_id": call.id, "content": told[call.function.name]} for call in calls]
    return [{"role": "user", "content": WHERE}, asked, *results]


async def test_openai_completes_streams_and_lists(client: openai.AsyncOpenAI) -> None:
    said: Any = [{"role": "user", "content": "Hello"}]
    raw = await client.chat.completions.with_raw_response.create(model=AGENT, messages=said)
    body = raw.parse()
    assert body.choices[0].message.content == "you said: Hello"
    assert body.usage is not None
    assert body.usage.total_tokens > 0
    assert raw.headers["x-request-id"] == body.id
    stream = await client.chat.completions.create(
        model=AGENT, messages=said, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "you said: Hello"
    assert chunks[-1].usage == body.usage
    assert [model.id async for model in client.models.list()] == [AGENT]
    assert (await client.models.retrieve(AGENT)).owned_by == "perdure"


async def test_openai_calls_tools_in_parallel(client: openai.AsyncOpenAI) -> None:
    said: Any = [{"role": "user", "content": WHERE}]
    body = await client.chat.completions.create(model=AGENT, messages=said, tools=TOOLS)
    calls = body.choices[0].message.tool_calls or []
    assert [call.function.name for call in calls if isinstance(call, FunctionCall)] == ["get_weather", "get_time"]
    whole = await client.chat.completions.create(model=AGENT, messages=brought(calls), tools=TOOLS)
    assert whole.choices[0].message.content == ANSWER


async def test_openais_stream_helper(client: openai.AsyncOpenAI) -> None:
    """It puts chunks together: parallel calls, then text, and what its parser makes of a form."""
    said: Any = [{"role": "user", "content": WHERE}]
    async with client.chat.completions.stream(model=AGENT, messages=said, tools=TOOLS) as stream:
        kinds = [event.type async for event in stream]
        calls = (await stream.get_final_completion()).choices[0].message.tool_calls or []
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert [json.loads(call.function.arguments) for call in calls] == [{"location": "Paris"}, {}]
    async with client.chat.completions.stream(model=AGENT, messages=brought(list(calls)), tools=TOOLS) as stream:
        deltas = [event.delta async for event in stream if event.type == "content.delta"]
        final = await stream.get_final_completion()
    assert "".join(deltas) == final.choices[0].message.content == ANSWER


class Place(BaseModel):
    """A form."""

    city: str
    format: str


async def test_openai_parses_a_form(client: openai.AsyncOpenAI) -> None:
    said: Any = [{"role": "user", "content": "#json"}]
    body = await client.chat.completions.parse(model=AGENT, messages=said, response_format=Place)
    assert body.choices[0].message.parsed == Place(city="Tokyo", format="json_schema")


async def test_openais_errors(client: openai.AsyncOpenAI, api: ApiProcess) -> None:
    """Each status is the package's own error. A run that has failed is not begun again by a client's retries."""
    said: Any = [{"role": "user", "content": "x"}]
    with pytest.raises(openai.BadRequestError) as bad:
        await client.chat.completions.create(model=AGENT, messages=[])
    assert (bad.value.param, bad.value.type) == ("messages", "invalid_request_error")
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="none", messages=said)
    assert unknown.value.code == "model_not_found"
    failing: Any = [{"role": "user", "content": "#fail #limit"}]
    async with openai.AsyncOpenAI(base_url=f"{api.url}/v1", api_key="none", max_retries=2) as patient:
        with pytest.raises(openai.RateLimitError):
            await patient.chat.completions.create(model=AGENT, messages=failing)
        with pytest.raises(openai.RateLimitError):
            await patient.chat.completions.create(model=AGENT, messages=failing, stream=True)


async def test_pydantic_ai(api: ApiProcess) -> None:
    """Its agent runs its own tools against ours, whole and streamed; it checks each body strictly."""
    model = OpenAIChatModel(AGENT, provider=OpenAIProvider(base_url=f"{api.url}/v1", api_key="none"))
    caller: Agent[None, str] = Agent(model, instructions="Be brief.")

    @caller.tool_plain
    def get_weather(location: str) -> str:
        """Weather."""
        return f"rain in {location}"

    @caller.tool_plain
    def get_time() -> str:
        """Time."""
        return "noon"

    result = await caller.run(WHERE)
    assert result.output == "The tools say: rain in Paris; noon."
    asked = [part for message in result.all_messages() if isinstance(message, ModelResponse) for part in message.parts]
    assert len({part.tool_call_id for part in asked if isinstance(part, ToolCallPart)}) == 2
    assert result.usage.total_tokens > 0
    async with caller.run_stream(WHERE) as streamed:
        pieces = [piece async for piece in streamed.stream_text(delta=True, debounce_by=None)]
    assert "".join(pieces) == "The tools say: rain in Paris; noon."
    again = await caller.run("Weather in Tokyo?", message_history=result.all_messages())
    assert again.output == "The tools say: rain in Tokyo."


@langchain_tool("get_weather")
def weather(location: str) -> str:
    """Weather."""
    return f"rain in {location}"


@langchain_tool("get_time")
def clock() -> str:
    """Time."""
    return "noon"


async def test_langchain(api: ApiProcess) -> None:
    model = ChatOpenAI(model=AGENT, base_url=f"{api.url}/v1", api_key=SecretStr("none"), max_retries=0)
    plain = await model.ainvoke([SystemMessage("Be brief."), HumanMessage("Hello")])
    assert plain.content == "[Be brief.] you said: Hello"
    pieces = [str(chunk.content) async for chunk in model.astream("Hello")]
    assert "".join(pieces) == "you said: Hello"
    bound: Any = model.bind_tools([weather, clock])  # pyright: ignore[reportUnknownMemberType]
    messages: list[BaseMessage] = [HumanMessage(WHERE)]
    asked = await bound.ainvoke(messages)
    assert isinstance(asked, AIMessage)
    messages.append(asked)
    for call in asked.tool_calls:
        made = await {"get_weather": weather, "get_time": clock}[call["name"]].ainvoke(call)
        assert isinstance(made, ToolMessage)
        messages.append(made)
    assert (await bound.ainvoke(messages)).content == "The tools say: rain in Paris; noon."
