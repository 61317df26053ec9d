"""Who reads along while a run is carried out in this process: nobody, or the reader of its stream.

What is told, and in which order, is what a durable run writes into its event log.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from perdure.uap.agent_stream import AgentStreamEvent, UAPEventType, of_step
from perdure.upp.event_flow import Flow
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse
from perdure.upp.retrying import complete_with_retries, stream_with_retries
from perdure.upp.stream import StreamEvent, StreamEventType, tool_execution_end, tool_execution_start
from perdure.upp.tool_call import ToolExecution, ToolResult
from perdure.upp.usage import TokenUsage


class Viewer(Protocol):
    """What is told of a run. What is awaited returns when the reader wants more."""

    @property
    def text(self) -> str:
        """The text of the model's last answer, as far as it came."""
        ...

    async def ask(self, model: BoundLLMModel, request: LLMRequest) -> LLMResponse:
        """The model's answer, told as it comes. Raises UPPError."""
        ...

    async def begun(self, step: int) -> None:
        """A step begins."""
        ...

    async def reasoned(self, step: int, text: str) -> None:
        """The strategy's reasoning is there."""
        ...

    async def acted(self, step: int, answer: AssistantMessage) -> None:
        """The model's calls are there, and about to be run."""
        ...

    def executed(self, index: int, execution: ToolExecution) -> None:
        """One of them has ended."""
        ...

    async def observed(self, step: int, results: Sequence[ToolResult]) -> None:
        """All of them have."""
        ...

    async def ended(self, step: int, usage: TokenUsage) -> None:
        """A step has ended."""
        ...


class NoViewer:
    """Nobody reads along."""

    text = ""

    async def ask(self, model: BoundLLMModel, request: LLMRequest) -> LLMResponse:
        return await complete_with_retries(model, request)

    async def begun(self, step: int) -> None:
        """Not told."""

    async def reasoned(self, step: int, text: str) -> None:
        """Not told."""

    async def acted(self, step: int, answer: AssistantMessage) -> None:
        """Not told."""

    def executed(self, index: int, execution: ToolExecution) -> None:
        """Not told."""

    async def observed(self, step: int, results: Sequence[ToolResult]) -> None:
        """Not told."""

    async def ended(self, step: int, usage: TokenUsage) -> None:
        """Not told."""


class StreamViewer:
    """The reader of a stream gets all of it."""

    def __init__(self, flow: Flow[AgentStreamEvent], run: str, agent_id: str) -> None:
        """Tell of a run of an agent."""
        self._flow = flow
        self._run = run
        self._agent_id = agent_id
        self._text: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._text)

    async def ask(self, model: BoundLLMModel, request: LLMRequest) -> LLMResponse:
        self._text.clear()

        async def tell(event: StreamEvent) -> None:
            if event.type is StreamEventType.TEXT_DELTA and event.delta.text:
                self._text.append(event.delta.text)
            await self._flow.send([AgentStreamEvent(upp=event)])

        return await told_answer(model, request, tell)

    async def begun(self, step: int) -> None:
        await self._tell(UAPEventType.STEP_START, step, {"stepNumber": step})

    async def reasoned(self, step: int, text: str) -> None:
        await self._tell(UAPEventType.REASONING, step, {"text": text})

    async def acted(self, step: int, answer: AssistantMessage) -> None:
        calls, now = answer.tool_calls or [], _now_ms()
        starts = [
            tool_execution_start(call.tool_call_id, call.tool_name, now, index) for index, call in enumerate(calls)
        ]
        await self._tell(UAPEventType.ACTION, step, {"toolCalls": [call.to_json() for call in calls]}, starts)

    def executed(self, index: int, execution: ToolExecution) -> None:
        event = tool_execution_end(
            execution.tool_call_id, execution.tool_name, execution.result, execution.is_error, _now_ms(), index
        )
        self._flow.post([AgentStreamEvent(upp=event)])

    async def observed(self, step: int, results: Sequence[ToolResult]) -> None:
        await self._tell(UAPEventType.OBSERVATION, step, {"results": [result.to_json() for result in results]})

    async def ended(self, step: int, usage: TokenUsage) -> None:
        await self._tell(UAPEventType.STEP_END, step, {"stepNumber": step, "usage": step_usage(usage)})

    async def _tell(self, kind: UAPEventType, step: int, data: JSONObject, then: Sequence[StreamEvent] = ()) -> None:
        event = of_step(kind, self._run, step, self._agent_id, data)
        await self._flow.send([event, *(AgentStreamEvent(upp=item) for item in then)])


async def told_answer(
    model: BoundLLMModel, request: LLMRequest, tell: Callable[[StreamEvent], Awaitable[None]]
) -> LLMResponse:
    """The model's answer, told as it comes if the provider can stream. Raises UPPError."""
    if not model.capabilities.streaming:
        return await complete_with_retries(model, request)
    stream = stream_with_retries(model, request)
    try:
        async for event in stream:
            await tell(event)
        return await stream.response()
    finally:
        await stream.aclose()


def step_usage(usage: TokenUsage) -> JSONObject:
    """A step's usage as its event has it: without its cycles, which are the turn's."""
    return {name: value for name, value in usage.to_json().items() if name != "cycles"}


def _now_ms() -> int:
    return int(time.time() * 1000)
