"""The tool loop of `llm()`: ask the model, run its tools, ask again, until it calls none.

Written once for `generate` and `stream`. One tool call is `tool_loop`'s part, a batch of them `tool_batch`'s.
Source: UPP-1.2, tool loop.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.exchange import Exchange
from perdure.upp.inference import check_media
from perdure.upp.llm_middleware import MiddlewareChain
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.prices import PriceTable, with_cost
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse
from perdure.upp.stream import tool_execution_end, tool_execution_start
from perdure.upp.tool_batch import execute_batch
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.tool_loop import execute_tool
from perdure.upp.tool_use import ToolUseStrategy
from perdure.upp.tools import Tool, ToolContext
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, aggregate_usage


class Generation:
    """One inference."""

    def __init__(
        self,
        model: BoundLLMModel,
        strategy: ToolUseStrategy,
        chain: MiddlewareChain,
        inputs: Sequence[Message],
        prices: PriceTable,
    ) -> None:
        """Takes the model, what guides its tools, and the middleware, whose context has the request.

        Args:
            model: only what it can take is asked of it; asking is the exchange's part.
            strategy: limit and hooks of the tools.
            chain: the middleware.
            inputs: which of the request's messages are new; the turn begins with them.
            prices: what models cost.
        """
        self._model = model
        self._strategy = strategy
        self._chain = chain
        self._inputs = inputs
        self._prices = prices
        self._produced: list[Message] = []
        self._executions: list[ToolExecution] = []
        self._usages: list[TokenUsage] = []

    async def run(self, exchange: Exchange) -> Turn:
        """Returns the turn.

        Raises:
            UPPError: what the provider raised, or INVALID_REQUEST at the limit with tool calls open.
            Exception: what an approval handler or a hook raised.
        """
        try:
            return await self._run(exchange)
        except asyncio.CancelledError:
            await self._chain.failed(self._error("the inference was cancelled", ErrorCode.CANCELLED), aborted=True)
            raise
        except Exception as error:
            aborted = isinstance(error, UPPError) and error.code is ErrorCode.CANCELLED
            await self._chain.failed(error, aborted=aborted)
            raise

    async def _run(self, exchange: Exchange) -> Turn:
        context = self._chain.context
        await self._chain.before()
        check_media(context.request.messages, self._model.capabilities, self._model.provider)
        last = await self._converse(context.request, exchange)
        if context.streaming:
            await self._chain.stream_end()
        data = None if context.request.structure is None else last.data
        context.response = replace(last, usage=aggregate_usage(self._usages), data=data)
        context.end_time = _now_ms()
        await self._chain.response()
        turn = self._turn(context.response)
        await self._chain.after(turn)
        return turn

    async def _converse(self, request: LLMRequest, exchange: Exchange) -> LLMResponse:
        limit = self._strategy.max_iterations
        for rounds in range(limit + 1):
            answer = await exchange.ask(replace(request, messages=[*request.messages, *self._produced]))
            response = with_cost(answer, self._prices, self._model.provider, self._model.model_id)
            self._usages.append(response.usage)
            self._produced.append(response.message)
            if limit == 0 or _is_last(request, response):
                return response
            if rounds < limit:
                self._produced.append(await self._call_tools(response.message, request.tools, exchange))
        await self._strategy.exhausted()
        raise self._error(f"Tool execution exceeded maximum iterations ({limit})", ErrorCode.INVALID_REQUEST)

    async def _call_tools(
        self, message: AssistantMessage, tools: Sequence[Tool], exchange: Exchange
    ) -> ToolResultMessage:
        by_name = {tool.name: tool for tool in tools}
        calls = [replace(call) for call in message.tool_calls or ()]  # copies: the same call may stand there twice
        places = {id(call): place for place, call in enumerate(calls)}

        async def run_one(call: ToolCall) -> ToolExecution:
            place, tool = places[id(call)], by_name.get(call.tool_name)
            exchange.tell(tool_execution_start(call.tool_call_id, call.tool_name, _now_ms(), place))
            execution = await self._call_tool(tool, call)
            exchange.tell(
                tool_execution_end(
                    call.tool_call_id, call.tool_name, execution.result, execution.is_error, _now_ms(), place
                )
            )
            return execution

        def is_sequential(call: ToolCall) -> bool:
            tool = by_name.get(call.tool_name)
            return tool is not None and tool.sequential

        executions = await execute_batch(calls, run_one, is_sequential)
        self._executions.extend(executions)
        return ToolResultMessage([execution.to_result() for execution in executions])

    async def _call_tool(self, tool: Tool | None, call: ToolCall) -> ToolExecution:
        context = ToolContext(call.tool_call_id, str(uuid.uuid4()), attempt=1)
        if tool is not None:
            await self._chain.tool_call(tool, call.arguments)
        execution = await execute_tool(tool, call, context, self._strategy)
        if tool is not None:
            await self._chain.tool_result(tool, execution.result)
        return execution

    def _turn(self, response: LLMResponse) -> Turn:
        messages = [*self._inputs, *self._produced[:-1], response.message]
        return Turn(messages, self._executions, response.usage, len(self._usages), response.data)

    def _error(self, problem: str, code: ErrorCode) -> UPPError:
        return UPPError(problem, code, self._model.provider)


def _is_last(request: LLMRequest, response: LLMResponse) -> bool:
    """Whether the answer ends the inference: no calls, nobody here to carry them out, or a structured answer."""
    answered = request.structure is not None and response.data is not None
    return answered or not response.message.has_tool_calls or not request.tools


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
