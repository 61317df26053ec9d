"""Model calls with the retries that their configuration asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

from perdure.upp.errors import UPPError
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse, LLMStreamResult
from perdure.upp.retry import NoRetry, RetryStrategy
from perdure.upp.stream import StreamEvent


class Attempts:
    """The attempts of one request, with the waits between them."""

    def __init__(
        self, request: LLMRequest, *, by_default: RetryStrategy | None = None, longest_wait: timedelta | None = None
    ) -> None:
        """Waits as the request's configuration says.

        Args:
            request: what is asked.
            by_default: the strategy where the configuration has none; by default nothing is tried again.
            longest_wait: what a longer wait after a failure becomes.
        """
        chosen = request.config.retry if request.config else None
        self._strategy = (chosen or by_default or NoRetry()).fork()
        self._longest_wait = longest_wait
        self.number = 0

    async def begin(self) -> None:
        """Waits until the next attempt may be sent."""
        self.number += 1
        await asyncio.sleep(self._strategy.before_request().total_seconds())

    def failed(self, error: UPPError) -> timedelta:
        """Returns the wait before the next attempt.

        Raises:
            UPPError: the error itself, if there shall be no next attempt.
        """
        delay = self._strategy.on_retry(error, self.number)
        if delay is None:
            raise error
        return delay if self._longest_wait is None else min(delay, self._longest_wait)

    def succeeded(self) -> None:
        """Tells the strategy."""
        self._strategy.reset()


async def complete_with_retries(model: BoundLLMModel, request: LLMRequest) -> LLMResponse:
    """Returns the model's answer; failures are tried again as `request.config.retry` says.

    Raises:
        UPPError: the last failure.
    """
    attempts = Attempts(request)
    while True:
        await attempts.begin()
        try:
            response = await model.complete(request)
        except UPPError as error:
            await asyncio.sleep(attempts.failed(error).total_seconds())
        else:
            attempts.succeeded()
            return response


def stream_with_retries(model: BoundLLMModel, request: LLMRequest) -> LLMStreamResult:
    """Returns the answer as it comes; a failure before its first event is tried again, as the strategy says.

    What a reader has seen cannot be taken back, so a later failure is raised.
    """
    return LLMStreamResult(_stream(model, request))


async def _stream(model: BoundLLMModel, request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
    attempts = Attempts(request)
    while True:
        begun = False
        await attempts.begin()
        stream = model.stream(request)
        try:
            async for event in stream:
                begun = True
                yield event
            response = await stream.response()
        except UPPError as error:
            if begun:
                raise
            await asyncio.sleep(attempts.failed(error).total_seconds())
        else:
            attempts.succeeded()
            yield response
            return
        finally:
            await stream.aclose()
