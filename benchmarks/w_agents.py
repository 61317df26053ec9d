"""The agents of W6 to W10, served by `perdure worker benchmarks.w_agents:app`. What a run does is said by its input's JSON."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.work import noise
from perdure import App, agent
from perdure.execution import loop
from perdure.upp import AssistantMessage, LLMRequest, ToolCall, tool
from perdure.upp.json_value import JSONObject
from perdure.upp.provider import LLMCapabilities, LLMResponse, LLMStreamResult, ModelReference
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from perdure.upp.stream import (
    StreamEvent,
    content_block_start,
    content_block_stop,
    message_start,
    message_stop,
    text_delta,
)
from perdure.upp.tools import Tool
from perdure.upp.usage import TokenUsage

TARGET = "benchmarks.w_agents:app"

STAMP_DIGITS = 19
"""A stamped delta begins with so many digits: the monotonic clock in ns, which all processes of a machine share."""
DELTA_CHARACTERS = 40
"""The length of a stamped delta."""
_MOST_STEPS = 100_000
_USAGE = TokenUsage(1, 1, 2)
"""Said outright: to count it takes the longer the longer a conversation is."""


def read_spec(request: LLMRequest) -> tuple[dict[str, Any], int]:
    """The JSON of the last input, and how many answers the model has given since."""
    last = max(place for place, message in enumerate(request.messages) if message.type == "user")
    given = sum(1 for message in request.messages[last:] if message.type == "assistant")
    return json.loads(request.messages[last].text), given


async def _stepping(request: LLMRequest) -> Answer:
    """Call the tool in every answer but the last. The input: "calls" of the model, "result_bytes", "latency_s", "tool_s"."""
    spec, given = read_spec(request)
    await asyncio.sleep(spec.get("latency_s", 0))
    if given >= spec["calls"] - 1:
        return Answer(text="done", usage=_USAGE)
    arguments = {"step": given, "size": spec.get("result_bytes", 100), "seconds": spec.get("tool_s", 0)}
    return Answer(text=f"step {given}", tool_calls=[ToolCall(f"call_{given}", "fetch", arguments)], usage=_USAGE)


@tool
async def fetch(step: int, size: int, seconds: float) -> str:
    """Fetch a text of so many characters, which takes so many seconds."""
    await asyncio.sleep(seconds)
    return noise(f"result {step}", size)


class StampedModel:
    """A model whose text deltas say when the provider gave them. The input: "deltas", "pause_s" between two, on average."""

    provider = "stamped"
    model_id = "stamped"
    capabilities = LLMCapabilities()

    def check(self, tools: Sequence[Tool], structure: JSONObject | None) -> None:
        """Accepts everything."""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """Returns the answer that the stream gives."""
        return await self.stream(request).response()

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        """Returns the answer in stamped deltas."""
        return LLMStreamResult(_stamped(request))


class StampedProvider:
    """The provider of the one stamped model."""

    name = "stamped"
    version = "1"

    def bind(self, model_id: str, options: Mapping[str, object]) -> StampedModel:
        """Returns the model."""
        return StampedModel()


async def _stamped(request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
    spec, _ = read_spec(request)
    yield message_start()
    yield content_block_start()
    texts: list[str] = []
    for pause in _pauses(spec["deltas"], spec["pause_s"]):
        await asyncio.sleep(pause)
        texts.append(f"{time.monotonic_ns():0{STAMP_DIGITS}d}".ljust(DELTA_CHARACTERS, "."))
        yield text_delta(texts[-1])
    yield content_block_stop()
    yield message_stop()
    count = len(texts)
    yield LLMResponse(AssistantMessage("".join(texts)), TokenUsage(1, count, 1 + count))


def _pauses(count: int, mean_s: float) -> Iterator[float]:
    """Unequal pauses, as vendors' tokens come: equal ones would fall in or out of step with what sends in batches."""
    chance = random.Random(1)
    return (chance.uniform(0, 2 * mean_s) for _ in range(count))


steps = loop(max_iterations=_MOST_STEPS)
app = App(
    agents=[
        agent(name="stepper", model=scripted(_stepping), tools=[fetch], execution=steps),
        agent(name="streamer", model=ModelReference("stamped", StampedProvider())),
    ]
)
