"""A host that puts middleware around in-process runs, and tells them of the runs' events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perdure.inprocess import InProcessHost
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult, UAPEvent, UAPEventType
from perdure.uap.held_flow import HeldFlow
from perdure.uap.hooks import StepResult
from perdure.uap.middleware import Execute, Middleware, MiddlewareContext, holds_deltas, run_pipeline, tell
from perdure.uap.options import RunOptions
from perdure.uap.state import ExecutionState
from perdure.uap.viewer import step_usage
from perdure.upp.event_flow import Flow
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.prices import PriceTable
from perdure.upp.turn import Turn


class PipelineHost:
    """`Host` in process, with middleware. Events come from the hooks of the run's steps."""

    def __init__(self, *middleware: Middleware, prices: PriceTable | None = None) -> None:
        self._middleware = middleware
        self._host = InProcessHost(prices)
        self.contexts: list[MiddlewareContext] = []

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        async def execute(entered: MiddlewareContext) -> Turn:
            watched = self._watched(agent, entered)
            return await self._host.run(watched, entered.history, entered.input, options)

        return await self._pipeline(agent, history, message, execute)

    def stream(
        self,
        agent: Agent,
        history: Sequence[Message],
        message: Message,
        options: RunOptions,
        *,
        sub_agents: bool = False,
    ) -> AgentStreamResult:
        async def work(flow: Flow[AgentStreamEvent]) -> Turn:
            held = HeldFlow(flow) if holds_deltas(self._middleware) else None
            made: list[Turn] = []

            async def execute(entered: MiddlewareContext) -> Turn:
                watched = self._watched(agent, entered)
                running = self._host.stream(watched, entered.history, entered.input, options)
                async for event in running:
                    await (held or flow).send([event])
                made.append(await running.turn)
                return made[0]

            turn = await self._pipeline(agent, history, message, execute)
            if held is not None and made:
                held.release(made[0], turn)
            return turn

        return AgentStreamResult(work, [message])

    async def _pipeline(self, agent: Agent, history: Sequence[Message], message: Message, execute: Execute) -> Turn:
        context = MiddlewareContext(agent=agent, input=message, history=list(history))

        async def kept(entered: MiddlewareContext) -> Turn:
            self.contexts.append(entered)
            return await execute(entered)

        return await run_pipeline(self._middleware, context, kept)

    def _watched(self, agent: Agent, context: MiddlewareContext) -> Agent:
        async def event(kind: UAPEventType, step: int, data: JSONObject) -> None:
            await tell(self._middleware, context, UAPEvent(kind, step, agent.id, {"stepNumber": step, **data}))

        async def start(step: int, _: ExecutionState) -> None:
            await event(UAPEventType.STEP_START, step, {})

        async def end(step: int, result: StepResult) -> None:
            for message in result.turn.messages:
                if isinstance(message, AssistantMessage) and message.tool_calls:
                    calls: list[JSONValue] = [call.to_json() for call in message.tool_calls]
                    await event(UAPEventType.ACTION, step, {"toolCalls": calls})
                elif isinstance(message, ToolResultMessage):
                    results: list[JSONValue] = [item.to_json() for item in message.results]
                    await event(UAPEventType.OBSERVATION, step, {"results": results})
            await event(UAPEventType.STEP_END, step, {"usage": step_usage(result.turn.usage)})

        return replace(agent, strategy=replace(agent.strategy, on_step_start=start, on_step_end=end))
