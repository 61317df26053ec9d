"""Model calls of a run: each is an activity that stores its answer before the workflow hears of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

from temporalio import workflow

from perdure.activities.contracts import AskInput, GenerateInput, GenerateResult, ToolAhead
from perdure.uap.checkpoint import MessageMark
from perdure.uap.hooks import Hook
from perdure.uap.ids import prompt_id
from perdure.uap.scaffold import REASON, prompt_message
from perdure.uap.stage_place import is_own
from perdure.uap.strategy import PLAIN, Ask
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import AssistantMessage, message_from_json
from perdure.upp.timestamp import format_timestamp, parse_timestamp
from perdure.upp.usage import TokenUsage, aggregate_usage, empty_usage
from perdure.workflows import calls
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.steering import Steering
from perdure.workflows.user_calls import UserCalls


class ModelCalls:
    """The model calls of one run.

    Attributes:
        open_answer: id, position and step of the call that has given no answer yet.
        data: what the last structured answer holds.
    """

    def __init__(self, run: RunInHand, user: UserCalls, steering: Steering) -> None:
        """Call the model of the run's agent, and its hooks through `user`; inputs join by `steering`."""
        self._run = run
        self._user = user
        self._steering = steering
        self.open_answer: dict[str, Any] | None = None
        self.data: JSONValue = None

    async def generate(self, ask: Ask = PLAIN) -> AssistantMessage:
        """See `Effects.generate`."""
        run = self._run
        await run.parking.hold()
        await self._steering.take()
        step = run.step
        message = step.next_scaffold(run.frame.run) if ask.scaffold else step.next_answer(run.frame.run)
        told = _ask_input(ask, message)
        position = run.position + bool(ask.prompt)
        self.open_answer = None if ask.scaffold else {"id": message, "position": run.position, "step": step.number}
        call = GenerateInput(
            tenant=run.start.tenant,
            session=run.start.session,
            run=run.frame.run,
            agent=run.frame.spec.name,
            node=run.frame.node,
            start=run.frame.start,
            position=position,
            epoch=run.frame.epoch,
            step=step.number,
            message=message,
            results=step.results,
            adopted=step.number == run.adopted_step,
            pending=run.outbox.take(),
            ask=told,
            ahead=_ahead(run, ask),
        )
        handle = calls.start_generate(call, run.frame.spec)
        result = await run.finish(handle, call.pending, {"kind": "model", "step": step.number})
        if result.message is None:  # cancelled with nothing to store, so these were perhaps not stored either
            run.outbox.put_back(call.pending)
        answer = self._take(call, result)
        if ask.scaffold == REASON:
            run.reasoning.append(message)
            run.state.reasoning.append(answer.text)
            await self._user.tell("reasoning", step.number, message)
            await self._user.hook(Hook.REASON)
        elif answer.has_tool_calls:
            await self._user.tell("action", step.number, message)
        return answer

    def _take(self, call: GenerateInput, result: GenerateResult) -> AssistantMessage:
        run, state, step = self._run, self._run.state, self._run.step
        run.check_kind(result.kind)
        if result.message is None:
            raise asyncio.CancelledError
        answer = cast(AssistantMessage, message_from_json(result.message))
        usage = TokenUsage.from_json(result.usage) if result.usage else empty_usage()
        self.open_answer = None
        run.position = call.position + 1
        self.data = result.data
        if call.ask is not None and call.ask.prompt:
            at = parse_timestamp(call.ask.at)
            state.messages.append(prompt_message(call.ask.prompt, id=call.ask.prompt_id, timestamp=at))
            step.marks.append(MessageMark(call.ask.prompt_id, result.prompt_sha256))
        state.messages.append(answer)
        state.cycles += 1
        state.usage = aggregate_usage([state.usage, usage])
        step.usage = aggregate_usage([step.usage, usage])
        step.marks.append(MessageMark(call.message, result.sha256))
        if call.ask is None or not call.ask.scaffold:
            step.args = list(result.args)
            step.stored = result.stored
            step.stage = result.stage
            step.ahead = list(result.called)
            run.started += [step.call_place(index) for index in range(len(step.ahead))]
        run.parking.check_cancelled()
        return answer


def _ahead(run: RunInHand, ask: Ask) -> dict[str, ToolAhead]:
    """The tools whose calls are carried out with the answer: short ones, if nothing is to happen in between."""
    spec = run.frame.spec
    if not ask.acts or Hook.ACT.value in spec.hooks or "action" in spec.listens:
        return {}
    usual = spec.limits.tool_timeout_s
    short = (tool for tool in spec.tools if tool.short and not tool.sequential and is_own(tool.name))
    return {tool.name: ToolAhead(tool.effect, tool.timeout_s or usual) for tool in short}


def _ask_input(ask: Ask, message: str) -> AskInput | None:
    if replace(ask, acts=False) == PLAIN:
        return None
    return AskInput(
        scaffold=ask.scaffold,
        prompt=ask.prompt,
        prompt_id=prompt_id(message) if ask.prompt else "",
        at=format_timestamp(workflow.now()),
        observe=ask.observe,
        tools=ask.tools,
        structure=ask.structure,
        stages=ask.stages,
    )
