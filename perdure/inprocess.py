"""The host without Temporal: the same strategies over plain memory, for scripts, notebooks and tests.

Nothing survives the process. `async with connect():` makes the same calls durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from perdure.errors import RunCancelled
from perdure.uap.active_session import current_run
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult, is_aborted
from perdure.uap.answer import accepted
from perdure.uap.held_flow import HeldFlow
from perdure.uap.hook_calls import call_hook
from perdure.uap.hooks import Hook, HookCall, HookOutcome, state_copy
from perdure.uap.ids import derive_id, new_id, tool_call_key
from perdure.uap.middleware import MiddlewareContext, holds_deltas, run_pipeline
from perdure.uap.middleware_viewer import MiddlewareViewer
from perdure.uap.options import RunOptions
from perdure.uap.partial_turn import cancelled_execution, partial_answer, partial_turn, results_so_far
from perdure.uap.request import build_request
from perdure.uap.run_limits import check_next_step, check_start
from perdure.uap.run_turn import run_turn
from perdure.uap.scaffold import REASON, as_scaffold, prompt_message
from perdure.uap.spent import Spent
from perdure.uap.state import ExecutionState
from perdure.uap.strategy import PLAIN, Ask, ExecutionContext
from perdure.uap.viewer import NoViewer, StreamViewer, Viewer
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.event_flow import Flow
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.prices import PriceTable
from perdure.upp.provider import BoundLLMModel
from perdure.upp.tool_batch import execute_batch
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from perdure.upp.tool_loop import execute_tool
from perdure.upp.tools import ToolContext
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, aggregate_usage
from perdure.workflows.strategies import build


class InProcessHost:
    """Runs agents here, in memory.

    Args:
        prices: what models cost; by default nothing is known.
    """

    def __init__(self, prices: PriceTable | None = None) -> None:
        self._prices = prices or {}

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        """See `Host.run`."""

        async def execute(context: MiddlewareContext) -> Turn:
            effects = _Effects(context, options, self._prices)
            return await self._run(effects, agent, context.input, options)

        return await run_pipeline(agent.middleware, _context(agent, history, message), execute)

    async def resume(
        self, agent: Agent, history: Sequence[Message], state: ExecutionState, options: RunOptions
    ) -> Turn:
        """See `ResumingHost.resume`."""

        async def execute(context: MiddlewareContext) -> Turn:
            effects = _Effects(context, options, self._prices)
            effects.state = state
            return await self._run(effects, agent, state.messages[0], options)

        around = _context(agent, history, state.messages[0])
        around.spent = Spent.by(state)
        return await run_pipeline(agent.middleware, around, execute)

    def stream(
        self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions
    ) -> AgentStreamResult:
        """See `Host.stream`. The reader sets the pace: nothing is asked of the model beyond what was read."""

        async def work(flow: Flow[AgentStreamEvent]) -> Turn:
            held = HeldFlow(flow) if holds_deltas(agent.middleware) else None
            made: list[Turn] = []

            async def execute(context: MiddlewareContext) -> Turn:
                effects = _Effects(context, options, self._prices, held or flow)
                try:
                    made.append(await self._run(effects, agent, context.input, options))
                except asyncio.CancelledError:
                    if not is_aborted():
                        raise RunCancelled("the run was cancelled from within", run_id=effects.run) from None
                    made.append(effects.partial_turn())
                return made[0]

            turn = await run_pipeline(agent.middleware, _context(agent, history, message), execute)
            if held is not None and made:
                held.release(made[0], turn)
            return turn

        return AgentStreamResult(work, [message])

    async def _run(self, effects: _Effects, agent: Agent, message: Message, options: RunOptions) -> Turn:
        spec = agent.spec(prices=self._prices)
        check_start(options, spec)
        strategy = build(agent.execution)
        context = ExecutionContext(agent=spec, input=message, options=options, state=effects.state, effects=effects)
        try:
            over = effects.state.step > 0 and (await effects.call(Hook.STOP)).stop
            turn = effects.turn() if over else await strategy.execute(context)
            await effects.call(Hook.COMPLETE, turn=turn)
        except Exception as error:
            recovered = (await effects.call(Hook.ERROR, error=error)).turn
            if recovered is None:
                raise
            await effects.call(Hook.COMPLETE, turn=recovered)
            return recovered
        return turn


def _context(agent: Agent, history: Sequence[Message], message: Message) -> MiddlewareContext:
    run = current_run()
    return MiddlewareContext(
        agent=agent, input=message, history=list(history), session=None if run is None else run.session
    )


@dataclass(slots=True)
class _Step:
    """Where the step in hand began, and what it has used."""

    messages: int
    executions: int
    usages: list[TokenUsage] = field(default_factory=list[TokenUsage])


class _Effects:
    """`Effects` over memory."""

    def __init__(
        self,
        context: MiddlewareContext,
        options: RunOptions,
        prices: PriceTable,
        flow: Flow[AgentStreamEvent] | None = None,
    ) -> None:
        self.run, agent = new_id(), context.agent
        viewer = NoViewer() if flow is None else StreamViewer(flow, self.run, agent.id)
        self._viewer: Viewer = (
            MiddlewareViewer(viewer, agent.middleware, context, self.run) if agent.middleware else viewer
        )
        self._agent = agent
        self._prices = prices
        self._history = list(context.history)
        self._options = options
        self._model: BoundLLMModel = agent.model.bind()
        self._step = _Step(1, 0)
        self.state = ExecutionState(messages=[context.input])
        self.data: JSONValue = None

    async def start_step(self) -> int:
        check_next_step(self._options, self.state, self.run)
        await self._viewer.begun(self.state.step + 1)  # middleware may end the run here
        self.state.step += 1
        self._step = _Step(len(self.state.messages), len(self.state.tool_executions))
        await self.call(Hook.STEP_START)
        return self.state.step

    async def generate(self, ask: Ask = PLAIN) -> AssistantMessage:
        request = build_request(self._agent, self._options, [*self._history, *self.state.messages], ask)
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
        places = {id(call): place for place, call in enumerate(calls)}
        if hooks:
            await self.call(Hook.ACT, actions=calls)

        known: dict[int, ToolExecution] = {}

        async def run_one(call: ToolCall) -> ToolExecution:
            place = places[id(call)]
            known[place] = cancelled_execution(call)  # what stands there if it is cancelled
            known[place] = execution = await self._call_tool(place, call)
            self._viewer.executed(place, execution)
            return execution

        try:
            executions = await execute_batch(calls, run_one, self._is_sequential)
        except asyncio.CancelledError:
            self.state.tool_executions.extend(known[place] for place in sorted(known))
            self._append_results(results_so_far(calls, known))
            raise
        self.state.tool_executions.extend(executions)
        results = [execution.to_result() for execution in executions]
        answer = self._append_results(results)
        await self._viewer.observed(self.state.step, results)
        if hooks:
            await self.call(Hook.OBSERVE, observations=results)
        return answer

    def _append_results(self, results: Sequence[ToolResult]) -> ToolResultMessage:
        answer = ToolResultMessage(results, id=self._next_id(), timestamp=datetime.now(UTC))
        self.state.messages.append(answer)
        return answer

    def _next_id(self) -> str:
        """The id of the message that comes next; a step may have several answers and batches of calls."""
        return derive_id(self.run, "message", len(self.state.messages))

    def _is_sequential(self, call: ToolCall) -> bool:
        tool = self._agent.tool(call.tool_name)
        return tool is not None and tool.sequential

    async def _call_tool(self, index: int, call: ToolCall) -> ToolExecution:
        tool = self._agent.tool(call.tool_name)
        if tool is None and any(declared["name"] == call.tool_name for declared in self._options.client_tools):
            raise UPPError(
                f"tool '{call.tool_name}' is the client's; only a durable run can wait for its result: "
                "use `async with connect():`",
                ErrorCode.INVALID_REQUEST,
            )
        key = tool_call_key(self._next_id(), index)
        return await execute_tool(tool, call, ToolContext(call.tool_call_id, key, attempt=1))

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
