"""The host without Temporal: the same strategies over plain memory, for scripts, notebooks and tests.

Nothing survives the process. `async with connect():` makes the same calls durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from perdure.uap.agent import Agent
from perdure.uap.answer import accepted
from perdure.uap.hook_calls import call_hook
from perdure.uap.hooks import Hook, HookCall, HookOutcome, state_copy
from perdure.uap.ids import derive_id, new_id, tool_call_key
from perdure.uap.options import RunOptions
from perdure.uap.request import build_request
from perdure.uap.run_limits import check_next_step, check_start
from perdure.uap.run_turn import run_turn
from perdure.uap.scaffold import REASON, as_scaffold, prompt_message
from perdure.uap.state import ExecutionState
from perdure.uap.strategy import PLAIN, Ask, ExecutionContext
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.prices import PriceTable
from perdure.upp.provider import BoundLLMModel
from perdure.upp.retrying import complete_with_retries
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
        spec = agent.spec(prices=self._prices)
        check_start(options, spec)
        strategy = build(agent.execution)
        effects = _Effects(agent, history, message, options, self._prices)
        context = ExecutionContext(agent=spec, input=message, options=options, state=effects.state, effects=effects)
        try:
            turn = await strategy.execute(context)
            await effects.call(Hook.COMPLETE, turn=turn)
        except Exception as error:
            recovered = (await effects.call(Hook.ERROR, error=error)).turn
            if recovered is None:
                raise
            await effects.call(Hook.COMPLETE, turn=recovered)
            return recovered
        return turn


@dataclass(slots=True)
class _Step:
    """Where the step in hand began, and what it has used."""

    messages: int
    executions: int
    usages: list[TokenUsage] = field(default_factory=list[TokenUsage])


class _Effects:
    """`Effects` over memory."""

    def __init__(
        self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions, prices: PriceTable
    ) -> None:
        self._agent = agent
        self._prices = prices
        self._history = list(history)
        self._options = options
        self._run = new_id()
        self._model: BoundLLMModel = agent.model.bind()
        self._step = _Step(1, 0)
        self.state = ExecutionState(messages=[message])
        self.data: JSONValue = None

    async def start_step(self) -> int:
        check_next_step(self._options, self.state, self._run)
        self.state.step += 1
        self._step = _Step(len(self.state.messages), len(self.state.tool_executions))
        await self.call(Hook.STEP_START)
        return self.state.step

    async def generate(self, ask: Ask = PLAIN) -> AssistantMessage:
        request = build_request(self._agent, self._options, [*self._history, *self.state.messages], ask)
        response = accepted(await complete_with_retries(self._model, request), self._model, self._prices)
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
            await self.call(Hook.REASON, reasoning=answer.text)
        return answer

    async def call_tools(self, message: AssistantMessage, *, hooks: bool = False) -> ToolResultMessage:
        calls = [replace(call) for call in message.tool_calls or ()]  # copies: the same call may stand there twice
        places = {id(call): place for place, call in enumerate(calls)}
        if hooks:
            await self.call(Hook.ACT, actions=calls)

        async def run_one(call: ToolCall) -> ToolExecution:
            return await self._call_tool(places[id(call)], call)

        executions = await execute_batch(calls, run_one, self._is_sequential)
        self.state.tool_executions.extend(executions)
        results = [execution.to_result() for execution in executions]
        answer = ToolResultMessage(results, id=self._next_id(), timestamp=datetime.now(UTC))
        self.state.messages.append(answer)
        if hooks:
            await self.call(Hook.OBSERVE, observations=results)
        return answer

    def _next_id(self) -> str:
        """The id of the message that comes next; a step may have several answers and batches of calls."""
        return derive_id(self._run, "message", len(self.state.messages))

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
        await self.call(Hook.STEP_END, turn=self._step_turn())
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
