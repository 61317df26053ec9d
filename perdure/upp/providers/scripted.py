"""A model that says what a script tells it: for tests, demos and benchmarks.

It has no state across calls: answer number k is given to a request that holds k assistant messages, so a restarted
process gives the same answers. Only `failures` counts calls, per process.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TypeAlias

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMCapabilities, LLMRequest, LLMResponse, LLMStreamResult, ModelReference
from perdure.upp.providers.script import Answer, Script, ScriptedAnswer, call, respond, to_events
from perdure.upp.stream import StreamEvent
from perdure.upp.tools import Tool

__all__ = ["Answer", "ScriptedModel", "StreamCut", "call", "cut_after", "scripted"]

PROVIDER = "scripted"


Failures: TypeAlias = Sequence[Exception | None] | Callable[[LLMRequest, int], Exception | None]


class StreamCut(UPPError):
    """A connection that broke in the middle of an answer."""

    def __init__(self, chunks: int) -> None:
        super().__init__(f"the stream was cut after {chunks} chunks", ErrorCode.NETWORK_ERROR, PROVIDER)
        self.chunks = chunks

    def __reduce__(self) -> tuple[type[StreamCut], tuple[int]]:
        return StreamCut, (self.chunks,)


def cut_after(chunks: int) -> StreamCut:
    """Returns a failure that lets a stream give so many deltas before it breaks; retryable."""
    return StreamCut(chunks)


def scripted(
    script: Script,
    *,
    name: str = "scripted",
    latency: float = 0.0,
    chunk_size: int | None = None,
    chunk_delay: float = 0.0,
    failures: Failures | None = None,
    short: bool = False,
) -> ModelReference:
    """Returns a model that answers from a script.

    Args:
        script: the answers in order, or a function of the request.
        name: the model's id.
        latency: seconds before the first event.
        chunk_size: characters per text delta; None means the whole text in one.
        chunk_delay: seconds between two deltas.
        failures: what a call raises instead of answering, by the call's number in this process (the first is 0):
            a list, in which None means no failure, or a function of request and number.
        short: see ModelReference.
    """
    model = ScriptedModel(script, name, latency, chunk_size, chunk_delay, failures)
    return ModelReference(name, ScriptedProvider(model), short=short)


class ScriptedProvider:
    """The provider of one scripted model."""

    name = PROVIDER
    version = "1"

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    def bind(self, model_id: str, options: Mapping[str, object]) -> ScriptedModel:
        """Returns the one model; the call numbers of `failures` go on."""
        return self._model


class ScriptedModel:
    """A model that answers from a script; see `scripted`."""

    provider = PROVIDER
    capabilities = LLMCapabilities(True, True, True, True, True, True, True, True)

    def __init__(
        self,
        script: Script,
        model_id: str,
        latency: float,
        chunk_size: int | None,
        chunk_delay: float,
        failures: Failures | None,
    ) -> None:
        self.model_id = model_id
        self._script = script
        self._latency = latency
        self._chunk_size = chunk_size
        self._chunk_delay = chunk_delay
        self._failures = failures
        self._numbers = itertools.count()

    def check(self, tools: Sequence[Tool], structure: JSONObject | None) -> None:
        """Accepts everything."""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """Returns the answer. Raises what the script or `failures` say."""
        failure = self._next_failure(request)
        if failure is not None:
            raise failure
        response = await self._answer(request)
        await asyncio.sleep(self._latency)
        return response

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        """Returns the answer in deltas. Raises, while it is read, what the script or `failures` say."""
        return LLMStreamResult(self._stream(request))

    async def _stream(self, request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
        failure = self._next_failure(request)
        if failure is not None and not isinstance(failure, StreamCut):
            raise failure
        response = await self._answer(request)
        await asyncio.sleep(self._latency)
        deltas = 0
        for event in to_events(response.message, self._chunk_size):
            if event.type.endswith("_delta"):
                if failure is not None and deltas == failure.chunks:
                    raise failure
                if deltas and self._chunk_delay:
                    await asyncio.sleep(self._chunk_delay)
                deltas += 1
            yield event
        if failure is not None:
            raise failure
        yield response

    def _next_failure(self, request: LLMRequest) -> Exception | None:
        number = next(self._numbers)
        if callable(self._failures):
            return self._failures(request, number)
        return self._failures[number] if self._failures and number < len(self._failures) else None

    async def _answer(self, request: LLMRequest) -> LLMResponse:
        number = sum(isinstance(message, AssistantMessage) for message in request.messages)
        given = await self._look_up(request, number)
        if isinstance(given, Exception):
            raise given
        return respond(request, given, number)

    async def _look_up(self, request: LLMRequest, number: int) -> ScriptedAnswer:
        if callable(self._script):
            made = self._script(request)
            return await made if inspect.isawaitable(made) else made
        if number >= len(self._script):
            raise UPPError(f"script has no answer number {number}", ErrorCode.INVALID_REQUEST, PROVIDER)
        return self._script[number]
