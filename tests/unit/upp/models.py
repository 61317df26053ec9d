"""A model for tests of `llm()`: it says what it is told, keeps what it was asked, and can be held in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMCapabilities, LLMRequest, LLMResponse, LLMStreamResult, ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.script import to_events
from perdure.upp.stream import StreamEvent
from perdure.upp.tool_call import ToolCall
from perdure.upp.tools import Tool
from perdure.upp.usage import TokenUsage

Said: TypeAlias = LLMResponse | Exception

ABLE = LLMCapabilities(image_input=True, document_input=True, video_input=True, audio_input=True)


class FakeModel:
    """A bound model and its provider in one.

    Attributes:
        requests: what it was asked, in order.
        checked: the tools and structures that it was shown.
        held: is set when a stream gives its first text; after `hold` it then waits.
        open_streams: how many streams were begun and have not ended.
        closed_early: how many streams ended before their response.
    """

    provider = "fake"
    name = "fake"
    version = "1"

    def __init__(self, *said: Said, capabilities: LLMCapabilities = ABLE) -> None:
        self.model_id = "fake-1"
        self.capabilities = capabilities
        self.requests: list[LLMRequest] = []
        self.checked: list[tuple[Sequence[Tool], JSONObject | None]] = []
        self.held = asyncio.Event()
        self.release = asyncio.Event()
        self.release.set()
        self.open_streams = 0
        self.closed_early = 0
        self._said = list(said)

    def reference(self, config: ProviderConfig | None = None) -> ModelReference:
        return ModelReference(self.model_id, self, config=config)

    def hold(self) -> None:
        self.release.clear()

    def bind(self, model_id: str, options: Mapping[str, object]) -> FakeModel:
        return self

    def check(self, tools: Sequence[Tool], structure: JSONObject | None) -> None:
        self.checked.append((tools, structure))

    async def complete(self, request: LLMRequest) -> LLMResponse:
        return self._next(request)

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        return LLMStreamResult(self._stream(request))

    async def _stream(self, request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
        response = self._next(request)
        self.open_streams += 1
        self.closed_early += 1
        try:
            for event in to_events(response.message, 1):
                if event.type == "text_delta":
                    self.held.set()
                yield event
                if event.type == "text_delta":
                    await self.release.wait()
            self.closed_early -= 1
            yield response
        finally:
            self.open_streams -= 1

    def _next(self, request: LLMRequest) -> LLMResponse:
        said = self._said[len(self.requests)]
        self.requests.append(request)
        if isinstance(said, Exception):
            raise said
        return said


def says(
    text: str = "", *calls: ToolCall, data: JSONValue = None, tokens: int = 1, stop_reason: str = "end_turn"
) -> LLMResponse:
    """An answer that cost `tokens` input tokens and as many output tokens."""
    message = AssistantMessage([text] if text else [], list(calls) or None)
    return LLMResponse(message, TokenUsage(tokens, tokens, 2 * tokens), stop_reason, data)


def calls(*names: str) -> LLMResponse:
    """An answer that calls tools without arguments; ids are "0", "1", ..."""
    return says("", *(ToolCall(str(number), name, {}) for number, name in enumerate(names)))


def tool_named(name: str, run: Callable[..., object] | None = None, **options: Any) -> Tool:
    """A tool that says "done", or runs what is given."""
    return Tool(name, f"Tool {name}.", {"type": "object", "properties": {}}, run or _done, **options)


def giving(answer: Any) -> Callable[..., Any]:
    """A function that takes anything and returns the answer."""

    def give(*_: object) -> Any:
        return answer

    return give


def never(*_: object) -> Any:
    """A function that must not be called."""
    raise AssertionError("called")


def _done(_: object) -> str:
    return "done"
