"""Asking a model until there is an answer, an error that no repetition cures, or too many of the other kind."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import activity

from perdure.activities.deltas import DeltaLog
from perdure.activities.permits import Permits
from perdure.upp.errors import UPPError
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse
from perdure.upp.retry import ExponentialBackoff
from perdure.upp.retrying import Attempts

_BY_DEFAULT = ExponentialBackoff(
    max_attempts=4, base_delay=timedelta(seconds=0.5), max_delay=timedelta(seconds=30), jitter=True
)
_LONGEST_WAIT = timedelta(seconds=120)


async def ask(model: BoundLLMModel, request: LLMRequest, deltas: DeltaLog, permits: Permits) -> LLMResponse:
    """The model's answer, streamed into the event log; a broken stream is begun anew and viewers are told so.

    The configuration's retry strategy decides what is tried again, else an exponential back-off that goes by the
    server's Retry-After, of at most two minutes. Each try holds permits of the limits that all workers share.

    Raises:
        UPPError: the last failure.
    """
    attempts = Attempts(request, by_default=_BY_DEFAULT, longest_wait=_LONGEST_WAIT)
    while True:
        await attempts.begin()
        try:
            async with permits.request():
                response = await _permitted(model, request, deltas, permits)
        except UPPError as error:
            wait = attempts.failed(error)
            activity.logger.warning("model.retried", extra={"code": str(error.code), "attempt": attempts.number})
            deltas.restart()
            await asyncio.sleep(wait.total_seconds())
        else:
            attempts.succeeded()
            return response


async def _permitted(model: BoundLLMModel, request: LLMRequest, deltas: DeltaLog, permits: Permits) -> LLMResponse:
    """One try. A refusal is told to the other workers while the permit is still held, so that none slips in between."""
    try:
        return await _once(model, request, deltas, permits)
    except UPPError as error:
        await permits.failed(error)
        raise


async def _once(model: BoundLLMModel, request: LLMRequest, deltas: DeltaLog, permits: Permits) -> LLMResponse:
    if not model.capabilities.streaming:
        return await model.complete(request)
    stream = model.stream(request)
    try:
        async for event in stream:
            deltas.add(event)
            if permits.probing:
                await permits.answered()
        return await stream.response()
    finally:
        await stream.aclose()
