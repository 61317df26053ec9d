"""The port to a model: what goes in, what comes out, and what a provider must offer.

Source: UPP-1.2, providers. UPP's `signal` is asyncio's own cancellation here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.stream import StreamEvent
from perdure.upp.tool_choice import ToolChoice
from perdure.upp.tools import Tool
from perdure.upp.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class LLMCapabilities:
    """What a provider's models can do."""

    streaming: bool = True
    tools: bool = True
    structured_output: bool = True
    image_input: bool = False
    document_input: bool = False
    video_input: bool = False
    audio_input: bool = False
    image_output: bool = False


@dataclass(frozen=True, slots=True)
class LLMRequest:
    """One model call.

    Attributes:
        messages: the whole conversation, oldest first.
        system: the system prompt, or the vendor's own text blocks.
        params: the vendor's own parameters, passed through unread; what the adapter writes itself wins over them.
        tools: what the model may call.
        structure: a JSON Schema that the answer must fit; the response then has `data`.
        tool_choice: read by `read_tool_choice`.
        response_format: read by `read_response_format`.
        modalities: what the answer may hold, as ["text", "audio"]; None leaves it to the vendor.
        config: how the provider is reached; None means the environment's key and the vendor's own address.
    """

    messages: Sequence[Message]
    system: str | list[JSONValue] | None = None
    params: JSONObject | None = None
    tools: Sequence[Tool] = ()
    structure: JSONObject | None = None
    tool_choice: ToolChoice | None = None
    response_format: JSONObject | None = None
    modalities: Sequence[str] | None = None
    config: ProviderConfig | None = None


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """A model's answer.

    Attributes:
        stop_reason: "end_turn", "max_tokens", "tool_use", "content_filter", "error" or the vendor's own word.
        data: the structured answer; None unless a structure was asked for.
    """

    message: AssistantMessage
    usage: TokenUsage
    stop_reason: str = "end_turn"
    data: JSONValue = None


class LLMStreamResult:
    """The events of one model call as they come, then the response.

    Iterate it once. `response()` waits for the end, also if nobody iterates. Closing it early ends the call.
    """

    def __init__(self, parts: AsyncGenerator[StreamEvent | LLMResponse, None]) -> None:
        """Takes what a provider yields: the events, and last the response."""
        self._parts = parts
        self._response: LLMResponse | None = None
        self._error: Exception | None = None

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        try:
            part = await anext(self._parts)
            if isinstance(part, LLMResponse):
                self._response = part
                part = await anext(self._parts)
        except StopAsyncIteration:
            raise
        except Exception as error:
            self._error = error
            raise
        if isinstance(part, LLMResponse):
            raise TypeError("a provider's stream yielded two responses")
        return part

    async def response(self) -> LLMResponse:
        """Returns the response, after all events.

        Raises:
            UPPError: what the stream raised, or INVALID_RESPONSE if it ended without a response.
        """
        if self._response is None and self._error is None:
            async for _ in self:
                pass
        if self._error is not None:
            raise self._error
        if self._response is None:
            raise UPPError("the stream ended without a response", ErrorCode.INVALID_RESPONSE)
        return self._response

    async def aclose(self) -> None:
        """Ends the call; what was not read is lost."""
        await self._parts.aclose()


class BoundLLMModel(Protocol):
    """A model that can be called."""

    @property
    def provider(self) -> str:
        """The provider's name."""
        ...

    @property
    def model_id(self) -> str:
        """The vendor's name of the model."""
        ...

    @property
    def capabilities(self) -> LLMCapabilities:
        """What the model can do."""
        ...

    def check(self, tools: Sequence[Tool], structure: JSONObject | None) -> None:
        """Looks at what is defined once, before anything is sent; nothing of it is ever changed to fit.

        Raises:
            UPPError: INVALID_REQUEST if the vendor would refuse a tool's name or schema, or the structure.
        """
        ...

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """Returns the answer, whole. Raises UPPError."""
        ...

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        """Returns the answer as it comes; nothing is sent before it is read. Raises UPPError while it is read."""
        ...


class Provider(Protocol):
    """A vendor's models."""

    @property
    def name(self) -> str:
        """The provider's name, as messages' metadata and errors carry it."""
        ...

    @property
    def version(self) -> str:
        """The version of the adapter."""
        ...

    def bind(self, model_id: str, options: Mapping[str, object]) -> BoundLLMModel:
        """Returns the model; opens no connection. Raises UPPError if the model or an option cannot be used."""
        ...


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A model by name, not yet in use.

    Attributes:
        options: the provider's own options, as `api` is OpenAI's.
        config: how the provider is reached, below what an application says elsewhere.
        short: it answers within a second, as a small model beside the worker does, so that a durable run calls it
            where the run itself is worked on, which costs a third; signals of the run wait meanwhile. Perdure's.
    """

    model_id: str
    provider: Provider
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    config: ProviderConfig | None = None
    short: bool = False

    def bind(self) -> BoundLLMModel:
        """Returns the model, ready to be called. Raises UPPError if the model or an option cannot be used."""
        return self.provider.bind(self.model_id, self.options)
