"""The effects of a strategy of the user's own in a plain process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from perdure.errors import StrategyError
from perdure.inprocess.effects import MemoryEffects, MemoryStep
from perdure.inprocess.media import kept_media
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamEvent
from perdure.uap.answer import accepted
from perdure.uap.delegate import ids_told
from perdure.uap.hook_calls import call_hook
from perdure.uap.hooks import Hook, HookCall, HookOutcome, state_copy
from perdure.uap.ids import derive_id, new_id
from perdure.uap.middleware import MiddlewareContext
from perdure.uap.options import RunOptions
from perdure.uap.own_effects import Answered, ModelView, OwnAsk, OwnEvent, Tell, ToolView, plain_metadata
from perdure.uap.request import build_request
from perdure.uap.run_limits import check_next_step
from perdure.uap.spec import ToolSpec
from perdure.uap.state import ExecutionState
from perdure.uap.viewer import told_answer
from perdure.upp.event_flow import Flow
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.prices import PriceTable
from perdure.upp.retrying import complete_with_retries
from perdure.upp.stream import StreamEvent, tool_execution_end, tool_execution_start
from perdure.upp.tool_call import ToolExecution
from perdure.upp.turn import Turn
from perdure.upp.usage import aggregate_usage


class MemoryOwnEffects(MemoryEffects):
    """`OwnEffects` over memory. Nobody is told of the host's steps: a stream has the strategy's events and no others."""

    def __init__(
        self,
        context: MiddlewareContext,
        options: RunOptions,
        prices: PriceTable,
        flow: Flow[AgentStreamEvent] | None = None,
    ) -> None:
        super().__init__(context, options, prices)
        self._flow = flow
        self._batches = 0

    @property
    def agent(self) -> Agent:
        return self._agent

    @property
    def tools(self) -> Sequence[ToolView]:
        return [*self._agent.resolved, *(ToolSpec(str(tool["name"]), "client") for tool in self._options.client_tools)]

    @property
    def model(self) -> ModelView:
        agent = self._agent
        return ModelView(agent.model, agent.system, dict(agent.params), self._model.capabilities)

    @property
    def streamed(self) -> bool:
        return self._flow is not None

    def begun(self, *, resumable: bool) -> ExecutionState:
        if resumable and self.state.step:
            return state_copy(self.state)
        state = self.state  # the same object: what it used so far has been counted
        state.step, state.done, state.plan = 0, False, None
        state.messages, state.tool_executions, state.reasoning = state.messages[:1], [], []
        state.metadata = {}
        return ExecutionState()

    def stamp(self) -> tuple[str, datetime]:
        return new_id(), datetime.now(UTC)

    async def history(self) -> list[Message]:
        return list(self._history)

    async def ask(self, ask: OwnAsk) -> Answered:
        request = build_request(self._agent, self._options, kept_media.resolved(ids_told(self._agent, ask.messages)))
        model, tell = self._model, ask.tell
        request = kept_media.shown(request, model.capabilities)
        response = await (complete_with_retries(model, request) if tell is None else told_answer(model, request, tell))
        response = accepted(response, model, self._prices)
        self.state.messages.append(response.message)
        self.state.cycles += 1
        self.state.usage = aggregate_usage([self.state.usage, response.usage])
        self._step.usages.append(response.usage)
        if response.message.has_tool_calls:
            await self._viewer.acted(self.state.step, response.message)
        return Answered(response.message, response.usage)

    async def call_answer_tools(
        self, answer: AssistantMessage, tell: Tell | None
    ) -> tuple[ToolResultMessage, list[ToolExecution]]:
        calls = [replace(call) for call in answer.tool_calls or ()]  # copies: the same call may stand there twice
        self._batches += 1
        message = derive_id(self.run, "results", self._batches)
        ended: list[StreamEvent] = []

        def executed(place: int, made: ToolExecution) -> None:
            ended.append(
                tool_execution_end(made.tool_call_id, made.tool_name, made.result, made.is_error, _now_ms(), place)
            )

        if tell is not None:
            for place, call in enumerate(calls):
                await tell(tool_execution_start(call.tool_call_id, call.tool_name, _now_ms(), place))
        results, executions = await self.run_batch(calls, message, executed)
        if tell is not None:
            for event in ended:
                await tell(event)
        await self._viewer.observed(self.state.step, results.results)
        return results, executions

    async def open_step(self, number: int) -> None:
        check_next_step(self._options, self.state, self.run, session=self._allowance)
        await self._viewer.begun(number)
        self.state.step = number
        self._step = MemoryStep(len(self.state.messages), len(self.state.tool_executions))

    async def close_step(self, number: int, state: ExecutionState) -> None:
        self._take(state)
        await self._viewer.ended(number, aggregate_usage(self._step.usages))

    def has_hook(self, hook: Hook) -> bool:
        return getattr(self._agent.strategy, hook.value) is not None

    async def call_own_hook(self, call: HookCall) -> HookOutcome:
        state = call.state
        state.usage, state.cycles = self.state.usage, self.state.cycles
        state.tool_executions = list(self.state.tool_executions)
        return await call_hook(self._agent.strategy, call)

    async def tell(self, event: OwnEvent) -> None:
        if not isinstance(event, AgentStreamEvent):
            raise StrategyError(f"a strategy's stream yields AgentStreamEvent objects, not {type(event).__name__}")
        if self._flow is not None:
            await self._flow.send([event])

    async def guard(self, work: Coroutine[Any, Any, Turn], abort: Callable[[str], None]) -> Turn:
        task = asyncio.create_task(work, name="strategy")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                abort("the run was cancelled")
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            raise

    async def keep(self, turn: Turn, state: ExecutionState) -> None:
        self._take(state)

    def _take(self, state: ExecutionState) -> None:
        """What of the strategy's state is the run's."""
        self.state.metadata = plain_metadata(state)
        self.state.reasoning, self.state.plan = list(state.reasoning), state.plan


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
