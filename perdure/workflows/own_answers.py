"""The model's answers to a strategy of the user's own in a workflow, and the tool calls that they hold."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, cast

from perdure.activities.contracts import AskInput, GenerateInput, GenerateResult
from perdure.uap.checkpoint import MessageMark
from perdure.uap.own_effects import Answered, OwnAsk
from perdure.upp.messages import AssistantMessage, ToolResultMessage, message_from_json
from perdure.upp.stream import message_start, message_stop
from perdure.upp.tool_call import ToolExecution
from perdure.upp.usage import TokenUsage, aggregate_usage, empty_usage
from perdure.workflows import calls
from perdure.workflows.answer_in_hand import AnswerInHand
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.known_messages import KnownMessages
from perdure.workflows.step import Step
from perdure.workflows.tool_calls import ToolCalls
from perdure.workflows.user_calls import UserCalls

START, STOP = message_start(), message_stop()
"""What `llm.stream` yields around an answer: the log has events of its own for these."""


class OwnAnswers:
    """The answers of one run.

    Attributes:
        open: model calls that have given no answer yet, by row id: id, position and step of each.
    """

    def __init__(self, run: RunInHand, user: UserCalls, known: KnownMessages) -> None:
        """Ask for the run.

        Args:
            run: the run.
            user: calls its hooks and its middleware.
            known: which rows its messages are; answers and results are added.
        """
        self._run = run
        self._user = user
        self._known = known
        self._steps: dict[int, int] = {}
        self._hands: dict[str, Step] = {}
        self.open: dict[str, dict[str, Any]] = {}

    def taken_in(self, number: int) -> int:
        """How many places of answers have been taken in a step, which may be begun more than once."""
        return self._steps.get(number, 0)

    async def ask(self, ask: OwnAsk) -> Answered:
        """Ask the model once. The places of the answer and of its results are taken before anything is awaited."""
        run, whole = self._run, self._run.step
        room = sum(self._known.row_of(message) is None for message in ask.messages[len(ask.messages) - ask.inputs :])
        hand = dataclasses.replace(whole, position=run.position + room)
        message = hand.next_answer(run.frame.run)
        whole.answers, whole.message, whole.results = hand.answers, hand.message, hand.results
        self._steps[whole.number] = whole.answers
        run.position = hand.position + 2
        call = GenerateInput(
            tenant=run.start.tenant,
            session=run.start.session,
            run=run.frame.run,
            agent=run.frame.spec.name,
            node=run.frame.node,
            start=run.frame.start,
            position=hand.position,
            epoch=run.frame.epoch,
            step=hand.number,
            message=message,
            results=hand.results,
            adopted=run.frame.adopted,
            ask=AskInput(view=self._known.items(ask.messages), quiet=run.options.stream and ask.tell is None),
        )
        if ask.tell is not None:
            await ask.tell(START)
        answered = await self._generate(call, hand, whole)
        if ask.tell is not None:
            await ask.tell(STOP)
        if answered.message.has_tool_calls:
            await self._user.tell("action", hand.number, message)
        return answered

    async def _generate(self, call: GenerateInput, hand: Step, whole: Step) -> Answered:
        run = self._run
        await run.parking.hold()
        call = dataclasses.replace(call, pending=run.outbox.take())
        self.open[call.message] = {"id": call.message, "position": call.position, "step": call.step}
        handle = calls.start_generate(call, run.frame.spec)
        result = await run.finish(handle, call.pending, {"kind": "model", "step": call.step})
        if result.message is None:  # cancelled with nothing to store, so these were perhaps not stored either
            run.outbox.put_back(call.pending)
        run.check_kind(result.kind)
        if result.message is None:
            raise asyncio.CancelledError
        del self.open[call.message]
        return self._take(call, result, hand, whole)

    def _take(self, call: GenerateInput, result: GenerateResult, hand: Step, whole: Step) -> Answered:
        run, state = self._run, self._run.state
        answer = cast(AssistantMessage, message_from_json(cast("dict[str, Any]", result.message)))
        usage = TokenUsage.from_json(result.usage) if result.usage else empty_usage()
        state.cycles += 1
        state.usage = aggregate_usage([state.usage, usage])
        whole.usage = aggregate_usage([whole.usage, usage])
        whole.marks.append(MessageMark(call.message, result.sha256))
        hand.args, hand.stored = list(result.args), result.stored
        self._known.add_row(answer, call.message, call.position)
        if not answer.has_tool_calls and run.position == call.position + 2:
            run.position -= 1  # nobody has taken the place behind it
        self._hands[call.message] = hand
        run.parking.check_cancelled()
        return Answered(answer, usage)

    async def call_tools(self, answer: AssistantMessage) -> tuple[ToolResultMessage, list[ToolExecution]]:
        """Carry out the calls of an answer that was asked for here."""
        row = self._known.row_of(answer)
        assert row is not None, "the answer to an ask"
        hand, state = self._hands[row], self._run.state
        results = await ToolCalls(AnswerInHand(self._run, hand), self._user).call_tools(answer)
        self._known.add_row(results, hand.results, hand.position + 1)
        return results, state.tool_executions[-len(answer.tool_calls or ()) :]
