"""The host without Temporal: the same strategies over plain memory, for scripts, notebooks and tests.

Nothing survives the process. `async with connect():` makes the same calls durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from perdure.uap.agent import Agent
from perdure.uap.answer import accepted
from perdure.uap.ids import answer_id, new_id, results_id, tool_call_key
from perdure.uap.options import RunOptions
from perdure.uap.request import build_request
from perdure.uap.run_limits import check_next_step, check_start
from perdure.uap.state import ExecutionState
from perdure.uap.strategy import ExecutionContext
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.prices import PriceTable
from perdure.upp.provider import BoundLLMModel
from perdure.upp.retrying import complete_with_retries
from perdure.upp.tool_batch import execute_batch
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from perdure.upp.tool_loop import execute_tool
from perdure.upp.tools import ToolContext
from perdure.upp.turn import Turn
from perdure.upp.usage import aggregate_usage
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
        effects = _Effects(agent, history, message, options, self._prices)
        context = ExecutionContext(agent=spec, input=message, options=options, state=effects.state, effects=effects)
        return await build(agent.execution).execute(context)


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
        self.state = ExecutionState(messages=[message])

    async def start_step(self) -> int:
        check_next_step(self._options, self.state, self._run)
        self.state.step += 1
        return self.state.step

    async def generate(self) -> AssistantMessage:
        conversation = [*self._history, *self.state.messages]
        request = build_request(self._agent, self._options, conversation)
        answer = await complete_with_retries(self._model, request)
        response = accepted(answer, self._model, self._prices)
        self.state.messages.append(response.message)
        self.state.cycles += 1
        self.state.usage = aggregate_usage([self.state.usage, response.usage])
        return response.message

    async def call_tools(self, message: AssistantMessage) -> ToolResultMessage:
        calls = list(message.tool_calls or [])
        places = {id(call): place for place, call in enumerate(calls)}

        async def run_one(call: ToolCall) -> ToolExecution:
            return await self._call_tool(places[id(call)], call)

        executions = await execute_batch(calls, run_one, self._is_sequential)
        self.state.tool_executions.extend(executions)
        results = [ToolResult(item.tool_call_id, item.result, item.is_error) for item in executions]
        answer = ToolResultMessage(results, id=results_id(self._run, self.state.step), timestamp=datetime.now(UTC))
        self.state.messages.append(answer)
        return answer

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
        key = tool_call_key(answer_id(self._run, self.state.step), index)
        return await execute_tool(tool, call, ToolContext(call.tool_call_id, key, attempt=1))

    async def end_step(self, *, last: bool) -> None:
        self.state.done = last

    def turn(self) -> Turn:
        return Turn(self.state.messages, self.state.tool_executions, self.state.usage, self.state.cycles)
