"""The effects of a strategy in a workflow: each is an activity, or a record that rides on one.

The conversation stays in the store; what comes back is a real UPP message whose long parts are previews. Every effect
first holds while the session is paused, and ends with `CancelledError` once the run is cancelled.
"""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any, TypeVar, cast

from temporalio import workflow
from temporalio.exceptions import ActivityError

from perdure.activities.border import from_failure
from perdure.activities.contracts import (
    AskInput,
    CallToolInput,
    CallToolResult,
    CallUserInput,
    CallUserResult,
    GenerateInput,
    GenerateResult,
    Progress,
    RunFrame,
    SessionInput,
)
from perdure.errors import SessionGone
from perdure.uap.checkpoint import CheckpointRecord, MessageMark
from perdure.uap.hooks import Hook
from perdure.uap.ids import checkpoint_id, prompt_id, wait_id
from perdure.uap.options import RunOptions
from perdure.uap.plan_steps import PlanStep
from perdure.uap.run_limits import check_next_step
from perdure.uap.run_turn import run_turn
from perdure.uap.scaffold import REASON, prompt_message
from perdure.uap.state import ExecutionState
from perdure.uap.strategy import PLAIN, Ask
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import AssistantMessage, ToolResultMessage, message_from_json
from perdure.upp.timestamp import format_timestamp, parse_timestamp
from perdure.upp.tool_batch import execute_batch
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, aggregate_usage, empty_usage
from perdure.workflows import calls
from perdure.workflows.outbox import Outbox
from perdure.workflows.parking import Gate, Parking
from perdure.workflows.step import Step, record_json, tool_execution, totals

T = TypeVar("T")

_FIRST_PAUSE = timedelta(milliseconds=200)
_LONGEST_PAUSE = timedelta(seconds=5)


class TemporalEffects:
    """`Effects` of one run in a workflow."""

    def __init__(
        self,
        start: SessionInput,
        frame: RunFrame,
        progress: Progress | None,
        started: list[int] | None,
        gate: Gate,
        outbox: Outbox,
        parking: Parking,
    ) -> None:
        """Go on from `progress`, or begin.

        Args:
            start: the session.
            frame: the run.
            progress: the last step boundary, or None.
            started: tool calls of the next step that an execution before this one started; None if it may be any.
            gate: the session's word on pausing, cancelling and leaving.
            outbox: takes records.
            parking: holds and parks.
        """
        self._start = start
        self._gate = gate
        self._outbox = outbox
        self._parking = parking
        self._options = RunOptions.from_json(frame.options)
        self._handles: list[workflow.ActivityHandle[Any]] = []
        begun = progress or Progress(step=0, position=frame.start + 1)
        self._adopted_step = begun.step + 1 if frame.adopted else 0
        self._started_before = started
        self.started: list[int] = []
        self._position = begun.position
        self._step = Step(begun.step)
        self.frame = frame
        self.boundary = begun
        self.open_answer: dict[str, Any] | None = None
        self._reasoning = list(begun.reasoning)
        self._data: JSONValue = None
        self.state = ExecutionState(
            step=begun.step,
            messages=[message_from_json(frame.input)],
            metadata=dict(begun.metadata),
            usage=TokenUsage.from_json(begun.usage) if begun.usage else empty_usage(),
            cycles=begun.cycles,
            done=begun.done,
            plan=None if begun.plan is None else [PlanStep.from_json(item) for item in begun.plan],
        )

    def cancel_all(self) -> None:
        """Ask every activity in flight to stop; each stores what it has and returns."""
        for handle in self._handles:
            handle.cancel()

    @property
    def in_flight(self) -> int:
        """Activities in flight."""
        return len(self._handles)

    async def start_step(self) -> int:
        """See `Effects.start_step`. Its event rides on the next activity."""
        check_next_step(self._options, self.state, self.frame.run)
        self._parking.check_cancelled()
        self.state.step += 1
        self._step = Step(self.state.step, position=self._position)
        self._outbox.add({"k": "step", "step": self.state.step})
        await self.call_hook(Hook.STEP_START)
        return self.state.step

    @property
    def data(self) -> JSONValue:
        """See `Effects.data`."""
        return self._data

    async def generate(self, ask: Ask = PLAIN) -> AssistantMessage:
        """See `Effects.generate`."""
        await self._parking.hold()
        run, step = self.frame.run, self._step.number
        message = self._step.next_scaffold(run) if ask.scaffold else self._step.next_answer(run)
        told = self._ask_input(ask, message)
        position = self._position + bool(ask.prompt)
        self.open_answer = None if ask.scaffold else {"id": message, "position": self._position, "step": step}
        call = GenerateInput(
            tenant=self._start.tenant,
            session=self._start.session,
            run=self.frame.run,
            agent=self.frame.spec.name,
            node=self.frame.node,
            start=self.frame.start,
            position=position,
            epoch=self.frame.epoch,
            step=step,
            message=message,
            results=self._step.results,
            adopted=step == self._adopted_step,
            pending=self._outbox.take(),
            ask=told,
        )
        handle = calls.start_generate(call, timeout_s=self.frame.spec.limits.model_timeout_s)
        result = await self._finish(handle, call.pending)
        if result.message is None:  # cancelled with nothing to store, so these were perhaps not stored either
            self._outbox.put_back(call.pending)
        answer = self._take_answer(call, result)
        if ask.scaffold == REASON:
            self._reasoning.append(message)
            self.state.reasoning.append(answer.text)
            await self.call_hook(Hook.REASON)
        return answer

    def _ask_input(self, ask: Ask, message: str) -> AskInput | None:
        if ask == PLAIN:
            return None
        return AskInput(
            scaffold=ask.scaffold,
            prompt=ask.prompt,
            prompt_id=prompt_id(message) if ask.prompt else "",
            at=format_timestamp(workflow.now()),
            observe=ask.observe,
            tools=ask.tools,
            structure=ask.structure,
        )

    def _take_answer(self, call: GenerateInput, result: GenerateResult) -> AssistantMessage:
        self._check_kind(result.kind)
        if result.message is None:
            raise asyncio.CancelledError
        answer = cast(AssistantMessage, message_from_json(result.message))
        usage = TokenUsage.from_json(result.usage) if result.usage else empty_usage()
        self.open_answer = None
        self._position = call.position + 1
        self._data = result.data
        if call.ask is not None and call.ask.prompt:
            at = parse_timestamp(call.ask.at)
            self.state.messages.append(prompt_message(call.ask.prompt, id=call.ask.prompt_id, timestamp=at))
            self._step.marks.append(MessageMark(call.ask.prompt_id, result.prompt_sha256))
        self.state.messages.append(answer)
        self.state.cycles += 1
        self.state.usage = aggregate_usage([self.state.usage, usage])
        self._step.usage = aggregate_usage([self._step.usage, usage])
        self._step.marks.append(MessageMark(call.message, result.sha256))
        if call.ask is None or not call.ask.scaffold:
            self._step.args = list(result.args)
            self._step.stored = result.stored
        self._parking.check_cancelled()
        return answer

    async def call_tools(self, message: AssistantMessage, *, hooks: bool = False) -> ToolResultMessage:
        """See `Effects.call_tools`."""
        if hooks:
            await self.call_hook(Hook.ACT)
        tool_calls = [dataclasses.replace(call) for call in message.tool_calls or ()]  # one may stand there twice
        places = {id(call): place for place, call in enumerate(tool_calls)}

        async def run_one(call: ToolCall) -> CallToolResult:
            return await self._call_tool(places[id(call)], call)

        results = await execute_batch(tool_calls, run_one, self._is_sequential)
        ident = self._step.results
        closing = next((result.batch_sha256 for result in results if result.batch_sha256), "")
        self._step.marks.append(MessageMark(ident, closing))
        self._position += 1
        pairs = list(zip(tool_calls, results, strict=True))
        self.state.tool_executions.extend(tool_execution(call, result) for call, result in pairs)
        told = [ToolResult(call.tool_call_id, result.result, result.is_error) for call, result in pairs]
        answer = ToolResultMessage(told, id=ident, timestamp=workflow.now())
        self.state.messages.append(answer)
        if hooks:
            await self.call_hook(Hook.OBSERVE)
        return answer

    def _is_sequential(self, call: ToolCall) -> bool:
        spec = self.frame.spec.tool(call.tool_name)
        return spec is not None and spec.sequential

    async def _call_tool(self, index: int, call: ToolCall) -> CallToolResult:
        spec = self.frame.spec.tool(call.tool_name)
        request = CallToolInput(
            tenant=self._start.tenant,
            session=self._start.session,
            run=self.frame.run,
            agent=self.frame.spec.name,
            step=self._step.number,
            message=self._step.message,
            index=index,
            args_sha256=self._step.args[index],
            effect=self._effect(call.tool_name),
            timeout_s=(spec.timeout_s if spec else None) or self.frame.spec.limits.tool_timeout_s,
            adopted=self._may_have_run(index),
        )
        result = await self._run_call(request)
        pause = _FIRST_PAUSE
        while result.kind in ("parked", "elsewhere"):
            if result.kind == "parked":
                await self._parking.wait_for_answer(self._wait(request, result, call))
                request = dataclasses.replace(request, adopted=True)
            else:  # not a retry of the activity: a second attempt would have to take the call for one that may have run
                await self._parking.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            result = await self._run_call(request)
        return result

    def _may_have_run(self, index: int) -> bool:
        before = self._started_before
        known = before is None or self._step.call_place(index) in before
        return self._step.stored and self._step.number == self._adopted_step and known

    def _effect(self, tool: str) -> str:
        spec = self.frame.spec.tool(tool)
        if spec is None and any(declared["name"] == tool for declared in self._options.client_tools):
            return "client"
        return spec.effect if spec else "none"

    async def _run_call(self, request: CallToolInput) -> CallToolResult:
        await self._parking.hold()
        request = dataclasses.replace(request, pending=self._outbox.take())
        self.started.append(self._step.call_place(request.index))
        result = await self._finish(calls.start_call_tool(request), request.pending)
        if result.kind == "elsewhere":
            self._outbox.put_back(request.pending)
        self._check_kind(result.kind)
        self._parking.check_cancelled()
        return result

    @staticmethod
    def _wait(request: CallToolInput, result: CallToolResult, call: ToolCall) -> dict[str, Any]:
        return {
            "id": wait_id(request.message, request.index),
            "kind": result.wait,
            "message": request.message,
            "index": request.index,
            "asked": {"tool": call.tool_name, "call": call.tool_call_id, "arguments": call.arguments},
        }

    async def end_step(self, *, last: bool) -> bool:
        """See `Effects.end_step`. The record rides on the next activity."""
        self._parking.check_cancelled()
        await self.call_hook(Hook.STEP_END)
        self.state.done = last
        self.boundary = self._progress(self._step.number)
        record = CheckpointRecord(
            id=checkpoint_id(self.frame.run, self._step.number),
            run=self.frame.run,
            step=self._step.number,
            node=self.frame.node,
            position=self._position,
            start=self.frame.start,
            at=format_timestamp(workflow.now()),
            usage=self.boundary.usage,
            step_usage=totals(self._step.usage),
            cycles=self.state.cycles,
            messages=self._step.marks,
            metadata=self.state.metadata,
            done=last,
            history_length=workflow.info().get_current_history_length(),
            reasoning=self.boundary.reasoning,
            plan=self.boundary.plan,
        )
        self._outbox.add({"k": "checkpoint", "r": record_json(record)})
        self.started = []
        while not last and self._gate.due_to_leave():
            self._gate.leave()
            await workflow.wait_condition(lambda: not self._gate.busy)
        return await self.is_over()

    async def is_over(self) -> bool:
        """Whether the run ends at the boundary where it stands; an execution that takes it up there asks, too."""
        outcome = await self.call_hook(Hook.STOP)
        return outcome.stop or self.state.done

    def _progress(self, step: int) -> Progress:
        return Progress(
            step=step,
            position=self._position,
            usage=totals(self.state.usage),
            cycles=self.state.cycles,
            metadata=self.state.metadata,
            done=self.state.done,
            reasoning=list(self._reasoning),
            plan=None if self.state.plan is None else [item.to_json() for item in self.state.plan],
        )

    async def call_hook(self, hook: Hook, error: dict[str, Any] | None = None) -> CallUserResult:
        """Call a hook of the agent in a worker, if it has it; what it left in the metadata counts."""
        if hook.value not in self.frame.spec.hooks:
            return CallUserResult(metadata=self.state.metadata)
        run, step = self.frame.run, self._step.number
        call = CallUserInput(
            tenant=self._start.tenant,
            session=self._start.session,
            run=run,
            agent=self.frame.spec.name,
            hook=hook.value,
            step=step,
            node=self.frame.node,
            start=self.frame.start,
            position=self._position,
            epoch=self.frame.epoch,
            step_position=self._step.position,
            message=self._step.message,
            results=self._step.results,
            scaffold=self._step.scaffold,
            progress=self._progress(step),
            error=error,
        )
        outcome = await self._finish(calls.start_call_user(call), [])
        self.state.metadata = dict(outcome.metadata)
        self._position += outcome.added
        return outcome

    def turn(self) -> Turn:
        """See `Effects.turn`."""
        state = self.state
        return run_turn(state.messages, state.tool_executions, state.usage, state.cycles)

    def _check_kind(self, kind: str) -> None:
        if kind == "gone":
            raise SessionGone(f"session {self._start.session} is being deleted")
        if kind == "late":
            raise asyncio.CancelledError

    async def _finish(self, handle: workflow.ActivityHandle[T], taken: list[dict[str, Any]]) -> T:
        self._handles.append(handle)
        try:
            return await handle
        except ActivityError as error:
            self._outbox.put_back(taken)
            self._parking.check_cancelled()
            raise from_failure(error) from error
        finally:
            self._handles.remove(handle)
