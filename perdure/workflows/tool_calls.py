"""Tool calls of a run: one activity each, and what is to do where it cannot simply be run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import workflow

from perdure.activities.contracts import CallToolInput, CallToolResult
from perdure.errors import OutcomeUnknown
from perdure.uap.checkpoint import MessageMark
from perdure.uap.delegated import delegated_agent
from perdure.uap.hooks import Hook
from perdure.uap.ids import child_session_id, wait_id
from perdure.uap.spec import ToolSpec
from perdure.uap.stage_order import StageOrder
from perdure.uap.stage_place import StagePlace, is_own, qualified
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, ToolResultMessage
from perdure.upp.tool_batch import execute_batch
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.workflows import calls
from perdure.workflows.children import ChildCalls
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.step import tool_execution
from perdure.workflows.user_calls import UserCalls

_FIRST_PAUSE = timedelta(milliseconds=200)
_LONGEST_PAUSE = timedelta(seconds=5)


class _Batch:
    """The calls of one answer, until somebody stops the run because nobody knows what came of one of them.

    Attributes:
        order: of those that go to a stage.
    """

    def __init__(self, cancel: Callable[[list[str]], None], order: StageOrder) -> None:
        self.order = order
        self.error: OutcomeUnknown | None = None
        self.children: list[str] = []
        self._cancel = cancel

    @property
    def stopped(self) -> bool:
        """Whether no answer is waited for any more."""
        return self.error is not None

    def stop(self, error: OutcomeUnknown) -> None:
        """Let the others go: what is parked wakes, sub-agents are cancelled, tools that run are waited for."""
        if self.error is None:
            self.error = error
            self._cancel(self.children)

    def check(self) -> None:
        """Raise what stopped the run."""
        if self.error is not None:
            raise self.error


class ToolCalls:
    """The tool calls of one run."""

    def __init__(self, run: RunInHand, user: UserCalls) -> None:
        """Call the tools of the run's agent, and its hooks through `user`."""
        self._run = run
        self._user = user
        self._children = ChildCalls(run, lambda request: self._ask(request, None))

    async def call_tools(self, message: AssistantMessage, *, hooks: bool = False) -> ToolResultMessage:
        """See `Effects.call_tools`."""
        if hooks:
            await self._user.hook(Hook.ACT)
        tool_calls = [dataclasses.replace(call) for call in message.tool_calls or ()]  # one may stand there twice
        places = {id(call): place for place, call in enumerate(tool_calls)}
        batch = _Batch(self._cancel_children, StageOrder(self._run.step.stage, tool_calls, self._own_names()))

        async def run_one(call: ToolCall) -> CallToolResult:
            try:
                return await self._call_in_turn(places[id(call)], call, batch)
            except OutcomeUnknown as error:  # somebody stopped the run: nothing of the batch is waited for any more
                batch.stop(error)
                raise

        results = await execute_batch(tool_calls, run_one, self._is_sequential)
        answer = self._take(tool_calls, results)
        await self._user.tell("observation", self._run.step.number, self._run.step.results)
        if hooks:
            await self._user.hook(Hook.OBSERVE)
        return answer

    def _take(self, tool_calls: list[ToolCall], results: list[CallToolResult]) -> ToolResultMessage:
        run, state, ident = self._run, self._run.state, self._run.step.results
        closing = next((result.batch_sha256 for result in results if result.batch_sha256), "")
        run.step.marks.append(MessageMark(ident, closing))
        run.position += 1
        pairs = list(zip(tool_calls, results, strict=True))
        state.tool_executions.extend(tool_execution(call, result) for call, result in pairs)
        told = [ToolResult(call.tool_call_id, result.result, result.is_error) for call, result in pairs]
        answer = ToolResultMessage(told, id=ident, timestamp=workflow.now())
        state.messages.append(answer)
        return answer

    def _is_sequential(self, call: ToolCall) -> bool:
        spec = self._run.frame.spec.tool(call.tool_name)
        return spec is not None and spec.sequential

    def _own_names(self) -> list[str]:
        """The names of the tools that are no stage's: the agent's and the client's."""
        run = self._run
        own = [tool.name for tool in run.frame.spec.tools if is_own(tool.name)]
        return [*own, *(str(tool["name"]) for tool in run.options.client_tools)]

    async def _call_in_turn(self, index: int, call: ToolCall, batch: _Batch) -> CallToolResult:
        async def carry_out(place: StagePlace | None) -> CallToolResult:
            result = await self._call(index, call, batch, place)
            batch.order.left(result.stage)
            return result

        return await batch.order.run(index, carry_out)

    async def _call(self, index: int, call: ToolCall, batch: _Batch, place: StagePlace | None) -> CallToolResult:
        run = self._run
        name = call.tool_name if place is None else qualified(place.stage, call.tool_name)
        named = delegated_agent(call) if place is None else None
        spec = (run.frame.spec.tool(named) if named else None) or run.frame.spec.tool(name)
        request = CallToolInput(
            tenant=run.start.tenant,
            session=run.start.session,
            run=run.frame.run,
            agent=run.frame.spec.name,
            step=run.step.number,
            message=run.step.message,
            index=index,
            args_sha256=run.step.args[index],
            effect=self._effect(name),
            timeout_s=(spec.timeout_s if spec else None) or run.frame.spec.limits.tool_timeout_s,
            adopted=self._may_have_run(index),
            approval=spec.approval if spec else "",
            stage=place,
        )
        if spec is not None and spec.agent:
            batch.children.append(child_session_id(request.message, index))
            return await self._children.call(request, spec, call.tool_call_id)
        result = await self._run_call(request, spec)
        pause = _FIRST_PAUSE
        while result.kind in ("parked", "elsewhere"):
            if result.kind == "parked":
                await run.parking.wait_for_answer(
                    _wait(request, result, call), expires_s=result.expires_s, stopped=lambda: batch.stopped
                )
                request = dataclasses.replace(request, adopted=True)
            else:  # not a retry of the activity: a second attempt would have to take the call for one that may have run
                await run.parking.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            batch.check()
            result = await self._run_call(request, spec)
        return result

    def _cancel_children(self, sessions: list[str]) -> None:
        for session in sessions:
            if session in self._run.children:
                self._run.children[session].cancel()

    def _may_have_run(self, index: int) -> bool:
        run = self._run
        known = run.started_before is None or run.step.call_place(index) in run.started_before
        return run.step.stored and run.step.number == run.adopted_step and known

    def _effect(self, tool: str) -> str:
        spec = self._run.frame.spec.tool(tool)
        if spec is None and any(declared["name"] == tool for declared in self._run.options.client_tools):
            return "client"
        return spec.effect if spec else "none"

    async def _run_call(self, request: CallToolInput, spec: ToolSpec | None) -> CallToolResult:
        run, place = self._run, self._run.step.call_place(request.index)
        await run.parking.hold()
        if place not in run.started:
            run.started.append(place)
        ahead = run.step.take_ahead(request.index)
        if ahead is not None:
            run.check_kind(ahead.kind)
        result = ahead or await self._ask(request, spec)
        run.parking.check_cancelled()
        return result

    async def _ask(self, request: CallToolInput, spec: ToolSpec | None) -> CallToolResult:
        run = self._run
        request = dataclasses.replace(request, pending=run.outbox.take())
        told: JSONObject = {"kind": "tool", "step": request.step, "index": request.index}
        result = await run.finish(calls.start_call_tool(request, spec), request.pending, told)
        if result.kind in ("parked", "elsewhere"):
            run.outbox.put_back(request.pending)
        run.check_kind(result.kind)
        return result


def _wait(request: CallToolInput, result: CallToolResult, call: ToolCall) -> dict[str, Any]:
    return {
        "id": wait_id(request.message, request.index),
        "kind": result.wait,
        "message": request.message,
        "index": request.index,
        "asked": {"tool": call.tool_name, "call": call.tool_call_id, "arguments": call.arguments},
    }
