"""How middleware reads along with a run in this process: before whoever else does, so that it can end the run."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.uap.agent_stream import UAPEvent, UAPEventType
from perdure.uap.ids import derive_id
from perdure.uap.middleware import Middleware, MiddlewareContext, tell
from perdure.uap.viewer import Viewer, step_usage
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse
from perdure.upp.tool_call import ToolExecution, ToolResult
from perdure.upp.usage import TokenUsage


class MiddlewareViewer:
    """`Viewer` that tells a run's middleware of its UAP events, then another viewer. What a middleware raises it raises."""

    def __init__(self, viewer: Viewer, middleware: Sequence[Middleware], context: MiddlewareContext, run: str) -> None:
        """Tell of a run of the context's agent."""
        self._viewer = viewer
        self._middleware = middleware
        self._context = context
        self._run = run

    @property
    def text(self) -> str:
        return self._viewer.text

    async def ask(self, model: BoundLLMModel, request: LLMRequest) -> LLMResponse:
        return await self._viewer.ask(model, request)

    async def begun(self, step: int) -> None:
        await self._tell(UAPEventType.STEP_START, step, {"stepNumber": step})
        await self._viewer.begun(step)

    async def reasoned(self, step: int, text: str) -> None:
        await self._tell(UAPEventType.REASONING, step, {"text": text})
        await self._viewer.reasoned(step, text)

    async def acted(self, step: int, answer: AssistantMessage) -> None:
        calls = answer.tool_calls or []
        await self._tell(UAPEventType.ACTION, step, {"toolCalls": [call.to_json() for call in calls]})
        await self._viewer.acted(step, answer)

    def executed(self, index: int, execution: ToolExecution) -> None:
        self._viewer.executed(index, execution)

    async def observed(self, step: int, results: Sequence[ToolResult]) -> None:
        await self._tell(UAPEventType.OBSERVATION, step, {"results": [result.to_json() for result in results]})
        await self._viewer.observed(step, results)

    async def ended(self, step: int, usage: TokenUsage) -> None:
        await self._tell(UAPEventType.STEP_END, step, {"stepNumber": step, "usage": step_usage(usage)})
        await self._viewer.ended(step, usage)

    async def _tell(self, kind: UAPEventType, step: int, data: JSONObject) -> None:
        told: JSONObject = {**data, "stepId": derive_id(self._run, "step", step)}
        await tell(self._middleware, self._context, UAPEvent(kind, step, self._context.agent.id, told))
