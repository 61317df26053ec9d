"""The effects of a strategy in a plain process: model calls, tool calls and hooks over memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from perdure.inprocess.media import kept_media
from perdure.inprocess.stages import MemoryStages
from perdure.uap.agent_stream import AgentStreamEvent
from perdure.uap.answer import accepted
from perdure.uap.delegate import ids_told
from perdure.uap.hook_calls import call_hook
from perdure.uap.hooks import Hook, HookCall, HookOutcome, state_copy
from perdure.uap.ids import derive_id, tool_call_key
from perdure.uap.lineage import current, current_turn
from perdure.uap.middleware import MiddlewareContext
from perdure.uap.middleware_viewer import viewer_of
from perdure.uap.options import RunOptions
from perdure.uap.partial_turn import cancelled_execution, partial_answer, partial_turn, results_so_far
from perdure.uap.request import build_request
from perdure.uap.run_limits import check_next_step
from perdure.uap.run_turn import run_turn
from perdure.uap.scaffold import REASON, as_scaffold, prompt_message
from perdure.uap.stage_order import StageOrder
from perdure.uap.stage_place import StagePlace
from perdure.uap.state import ExecutionState
from perdure.uap.strategy import PLAIN, Ask
from perdure.uap.viewer import Viewer
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.event_flow import Flow
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import AssistantMessage, ToolResultMessage
from perdure.upp.prices import PriceTable
from perdure.upp.provider import BoundLLMModel
from perdure.upp.tool_batch import execute_batch
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from perdure.upp.tool_loop import execute_tool
from perdure.upp.tools import ToolContext
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, aggregate_usage


@dataclass(slots=True)
class MemoryStep:
    """Where the step in hand began, and what it has used."""

    messages: int
    executions: int
    usages: list[TokenUsage] = field(default_factory=list[TokenUsage])


class MemoryEffects:
    """`Effects` over memory.

    Attributes:
        run: the id of the run.
        state: the strategy's.
        data: what the last structured answer holds.
        stages: the stage session of an agent that walks a workflow.
    """

    def __init__(
        self,
        context: MiddlewareContext,
        options: RunOptions,
        prices: PriceTable,
        flow: Flow[AgentStreamEvent] | None = None,
    ) -> None:
        self.run, agent, running = current_turn(), context.agent, current()
        self._allowance = None if running is None else running.allowance
        self._viewer: Viewer = viewer_of(context, self.run, flow)
        self._agent = agent
        self._prices = prices
        self._history = list(context.history)
        self._options = options
        self._model: BoundLLMModel = agent.bind()
        self._step = MemoryStep(1, 0)
        self.state = ExecutionState(messages=[context.input])
        self.data: JSONValue = None
        self.stages: MemoryStages | None = None

    async def start_step(self) -> int:
        check_next_step(self._options, self.state, self.run, session=self._allowance)
        await self._viewer.begun(self.state.step + 1)  # middleware may end the run here
        self.state.step += 1
        self._step = MemoryStep(len(self.state.messages), len(self.state.tool_executions))
        await self.call(Hook.STEP_START)
        return self.state.step

    async def generate(self, ask: Ask = PLAIN) -> AssistantMessage:
        shown = await self.stages.tools(ask.stages, self.state.messages) if self.stages is not None else ()
        messages = kept_media.resolved(ids_told(self._agent, [*self._history, *self.state.messages]))
        request = build_request(self._agent, self._options, messages, ask, shown)
        request = kept_media.shown(request, self._model.capabilities)
        try:
            response = accepted(await self._viewer.ask(self._model, request), self._model, self._prices)
        except asyncio.CancelledError:
            self._keep_partial(ask)
            raise
        answer = as_scaffold(response.message, ask.scaffold) if ask.scaffold else response.message
        if ask.prompt:
            self.state.messages.append(prompt_message(ask.prompt))
        self.state.messages.append(answer)
        self.state.cycles += 1
        self.state.usage = aggregate_usage([self.state.usage, response.usage])
        self._step.usages.append(response.usage)
        if ask.structure is not None:
            self.data = response.data
        if ask.scaffold == REASON:
            self.state.reasoning.append(answer.text)
            await self._viewer.reasoned(self.state.step, answer.text)
            await self.call(Hook.REASON, reasoning=answer.text)
        elif answer.has_tool_calls:
            await self._viewer.acted(self.state.step, answer)
        return answer

    def _keep_partial(self, ask: Ask) -> None:
        """Keep what came of an answer that was cancelled, if it is any text."""
        if self._viewer.text.strip():
            self.state.messages.append(partial_answer(self._viewer.text, ask.scaffold))
            self.state.cycles += 1

    async def call_tools(self, message: AssistantMessage, *, hooks: bool = False) -> ToolResultMessage:
        calls = [replace(call) for call in message.tool_calls or ()]  # copies: the same call may stand there twice
        if hooks:
            await self.call(Hook.ACT, actions=calls)
        answer, _ = await self.run_batch(calls, self._next_id(), self._viewer.executed)
        await self._viewer.observed(self.state.step, answer.results)
        if hooks:
            await self.call(Hook.OBSERVE, observations=answer.results)
        return answer

    async def run_batch(
        self, calls: Sequence[ToolCall], message: str, executed: Callable[[int, ToolExecution], None]
    ) -> tuple[ToolResultMessage, list[ToolExecution]]:
        """Run the calls of one answer.

        Args:
            calls: each an object of its own.
            message: the id of the message that holds their results.
            executed: is told of each as it ends.
        """
        places = {id(call): place for place, call in enumerate(calls)}
        order = StageOrder(None, calls, ()) if self.stages is None else self.stages.order(calls)
        known: dict[int, ToolExecution] = {}

        async def run_one(call: ToolCall) -> ToolExecution:
            place = places[id(call)]
            known[place] = cancelled_execution(call)  # what stands there if it is cancelled
            known[place] = execution = await self._call_in_turn(order, place, call, message)
            executed(place, execution)
            return execution

        try:
            executions = await execute_batch(calls, run_one, self._is_sequential)
        except asyncio.CancelledError:
            self.state.tool_executions.extend(known[place] for place in sorted(known))
            self._append_results(results_so_far(calls, known), message)
            raise
        self.state.tool_executions.extend(executions)
        return self._append_results([execution.to_result() for execution in executions], message), executions

    def _append_results(self, results: Sequence[ToolResult], message: str) -> ToolResultMessage:
        answer = ToolResultMessage(results, id=message, timestamp=datetime.now(UTC))
        self.state.messages.append(answer)
        return answer

    def _next_id(self) -> str:
        """The id of the message that comes next; a step may have several answers and batches of calls."""
        return derive_id(self.run, "message", len(self.state.messages))

    def _is_sequential(self, call: ToolCall) -> bool:
        tool = self._agent.tool(call.tool_name)
        return tool is not None and tool.sequential

    async def _call_in_turn(self, order: StageOrder, index: int, call: ToolCall, message: str) -> ToolExecution:
        async def carry_out(place: StagePlace | None) -> ToolExecution:
            if place is None or self.stages is None:
                return await self._call_tool(index, call, message)
            key = tool_call_key(message, index)
            context = ToolContext(call.tool_call_id, key, attempt=1, contents=kept_media)
            return await self.stages.call(order, place, call, context)

        return await order.run(index, carry_out)

    async def _call_tool(self, index: int, call: ToolCall, message: str) -> ToolExecution:
        tool = self._agent.tool(call.tool_name)
        declared = any(item["name"] == call.tool_name for item in self._options.client_tools)
        if (tool is None and declared) or (tool is not None and tool.run is None):
            raise UPPError(
                f"tool '{call.tool_name}' is the client's; only a durable run can wait for its result: "
                "use `async with connect():`",
                ErrorCode.INVALID_REQUEST,
            )
        key = tool_call_key(message, index)
        context = ToolContext(call.tool_call_id, key, attempt=1, contents=kept_media)
        return kept_media.keep(await execute_tool(tool, call, context, self._agent.tool_strategy))

    async def end_step(self, *, last: bool) -> bool:
        turn = self._step_turn()
        await self.call(Hook.STEP_END, turn=turn)
        await self._viewer.ended(self.state.step, turn.usage)
        self.state.done = last
        stopped = (await self.call(Hook.STOP)).stop
        return last or stopped

    def _step_turn(self) -> Turn:
        step, state = self._step, self.state
        messages, executions = state.messages[step.messages :], state.tool_executions[step.executions :]
        return run_turn(messages, executions, aggregate_usage(step.usages), len(step.usages))

    def turn(self) -> Turn:
        state = self.state
        return run_turn(state.messages, state.tool_executions, state.usage, state.cycles)

    def partial_turn(self) -> Turn:
        """The turn of a run that was aborted here."""
        state = self.state
        return partial_turn(state.messages, state.tool_executions, state.usage, state.cycles)

    async def call(
        self,
        hook: Hook,
        *,
        reasoning: str = "",
        actions: Sequence[ToolCall] = (),
        observations: Sequence[ToolResult] = (),
        turn: Turn | None = None,
        error: Exception | None = None,
    ) -> HookOutcome:
        """Call a hook, if there is one; what it left in the metadata counts from now on."""
        if getattr(self._agent.strategy, hook.value) is None:
            return HookOutcome()
        call = HookCall(hook, self.state.step, state_copy(self.state), reasoning, actions, observations, turn, error)
        outcome = await call_hook(self._agent.strategy, call)
        self.state.metadata = outcome.metadata
        return outcome
