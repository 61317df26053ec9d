"""Who reads along with a run in this process before anybody else, and so can end it: its middleware, and its parents'."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import RunError
from perdure.uap.agent_stream import AgentStreamEvent, UAPEvent, UAPEventType
from perdure.uap.ids import derive_id
from perdure.uap.lineage import Lineage, current
from perdure.uap.middleware import Middleware, MiddlewareContext, show, tell
from perdure.uap.viewer import NoViewer, StreamViewer, Viewer, step_usage
from perdure.upp.event_flow import Flow
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse
from perdure.upp.tool_call import ToolExecution, ToolResult
from perdure.upp.usage import TokenUsage


def viewer_of(context: MiddlewareContext, run: str, flow: Flow[AgentStreamEvent] | None) -> Viewer:
    """Who reads along with the run that begins here.

    Args:
        context: of the run.
        run: its id.
        flow: to the reader of its stream; None if it has none.
    """
    viewer = NoViewer() if flow is None else StreamViewer(flow, run, context.agent.id)
    return MiddlewareViewer(viewer, context.agent.middleware, context, run, current())


class MiddlewareViewer:
    """`Viewer` that tells a run's middleware of its UAP events, then another viewer. What a middleware raises it raises.

    The middleware of the runs that this one is part of is told of the ends of its steps, to know what they used.
    """

    def __init__(
        self,
        viewer: Viewer,
        middleware: Sequence[Middleware],
        context: MiddlewareContext,
        run: str,
        lineage: Lineage | None = None,
    ) -> None:
        """Tell of a run of the context's agent."""
        self._viewer = viewer
        self._lineage = lineage
        self._middleware = middleware
        self._context = context
        self._run = run

    @property
    def text(self) -> str:
        return self._viewer.text

    async def ask(self, model: BoundLLMModel, request: LLMRequest) -> LLMResponse:
        return await self._viewer.ask(model, request)

    async def begun(self, step: int) -> None:
        if self._lineage is not None:
            self._lineage.check_next_step()
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
        if self._lineage is not None:
            self._lineage.check_error()
        await self._tell(UAPEventType.OBSERVATION, step, {"results": [result.to_json() for result in results]})
        await self._viewer.observed(step, results)

    async def ended(self, step: int, usage: TokenUsage) -> None:
        event = await self._tell(UAPEventType.STEP_END, step, {"stepNumber": step, "usage": step_usage(usage)})
        for parent in self._lineage.up() if self._lineage else ():
            await _tell_parent(parent, event)
        await self._viewer.ended(step, usage)

    async def _tell(self, kind: UAPEventType, step: int, data: JSONObject) -> UAPEvent:
        ids: JSONObject = {"stepId": derive_id(self._run, "step", step), "turnId": self._run}
        parents = self._lineage.parents if self._lineage else {}
        event = UAPEvent(kind, step, self._context.agent.id, {**data, **ids, **parents})
        try:
            await tell(self._middleware, self._context, event)
        except RunError as error:
            error.run_id = error.run_id or self._run
            raise
        return event


async def _tell_parent(parent: Lineage, event: UAPEvent) -> None:
    """Tell a parent's middleware of the end of a sub-agent's step. What it raises ends the sub-agent, then the parent."""
    context = parent.context
    if context is None:  # the run was begun by a `before` hook
        return
    context.spent = context.spent.after_child(event.data)
    try:
        await show(parent.agent.middleware, context, event)
    except Exception as error:
        if isinstance(error, RunError):
            error.run_id = error.run_id or parent.turn
        parent.error = error
        raise
