"""How a model is asked during an inference: for whole answers, or for answers as they come."""

from __future__ import annotations

from typing import Protocol

from perdure.upp.event_flow import EventFlow
from perdure.upp.llm_middleware import MiddlewareChain
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse
from perdure.upp.retrying import complete_with_retries, stream_with_retries
from perdure.upp.stream import StreamEvent, StreamEventType, object_delta


class Exchange(Protocol):
    """What the tool loop needs of its surroundings, whether or not somebody reads along."""

    async def ask(self, request: LLMRequest) -> LLMResponse:
        """Returns the model's answer. Raises UPPError."""
        ...

    def tell(self, event: StreamEvent) -> None:
        """Takes an event of the tool loop's own."""
        ...


class WholeAnswers:
    """Nobody reads along."""

    def __init__(self, model: BoundLLMModel) -> None:
        self._model = model

    async def ask(self, request: LLMRequest) -> LLMResponse:
        return await complete_with_retries(self._model, request)

    def tell(self, event: StreamEvent) -> None:
        """Drops it."""


class StreamedAnswers:
    """A reader gets all events, after the middleware had them."""

    def __init__(self, model: BoundLLMModel, flow: EventFlow, chain: MiddlewareChain) -> None:
        self._model = model
        self._flow = flow
        self._chain = chain

    async def ask(self, request: LLMRequest) -> LLMResponse:
        stream = stream_with_retries(self._model, request)
        try:
            async for event in stream:
                events = self._chain.events(event)
                if request.structure is not None and event.type is StreamEventType.TEXT_DELTA:
                    events += self._chain.events(object_delta(event.delta.text or "", event.index))
                await self._flow.send(events)
            return await stream.response()
        finally:
            await stream.aclose()

    def tell(self, event: StreamEvent) -> None:
        self._flow.post(self._chain.events(event))
