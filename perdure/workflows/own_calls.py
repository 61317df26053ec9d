"""The effects of a strategy of the user's own in a workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow

from perdure.activities.contracts import KeepTurnInput, ReadHistoryInput
from perdure.errors import StrategyError
from perdure.uap.hooks import Hook, HookCall, HookOutcome
from perdure.uap.ids import derive_id
from perdure.uap.own_effects import Answered, ModelView, OwnAsk, OwnEvent, Tell, ToolView, plain_metadata
from perdure.uap.run_limits import check_next_step
from perdure.uap.spec import AgentSpec, ToolSpec
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, message_from_json
from perdure.upp.timestamp import format_timestamp
from perdure.upp.tool_call import ToolExecution
from perdure.upp.turn import Turn
from perdure.workflows import calls
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.known_messages import KnownMessages
from perdure.workflows.own_answers import START, STOP, OwnAnswers
from perdure.workflows.own_hooks import own_hook
from perdure.workflows.parking import Gate
from perdure.workflows.paying import Paying
from perdure.workflows.step import Step
from perdure.workflows.user_calls import UserCalls

_GRACE = timedelta(seconds=2)
_BETWEEN = 1000
"""The first place of answers between a boundary and the next step: an execution that goes on there takes no earlier one."""


class OwnCalls:
    """`OwnEffects` of one run."""

    def __init__(
        self,
        run: RunInHand,
        user: UserCalls,
        paying: Paying,
        gate: Gate,
        reach: Callable[[], None],
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        """Act for the run.

        Args:
            run: the run.
            user: calls its hooks and its middleware.
            paying: holds what it may cost.
            gate: the session's word on cancelling.
            reach: records the step boundary.
            leave: continues as new if it is time; the strategy must be able to go on from the boundary.
        """
        self._run = run
        self._user = user
        self._paying = paying
        self._gate = gate
        self._reach = reach
        self._leave = leave
        self._resumable = run.frame.spec.strategy.resumable
        self._at_boundary = run.begun.step > 0
        self._input = run.frame.input
        self._known = KnownMessages()
        self._answers = OwnAnswers(run, user, self._known)
        self._stamps = 0
        self._told = 0

    @property
    def open_answers(self) -> dict[str, dict[str, Any]]:
        """Model calls that have given no answer yet, by row id: id, position and step of each."""
        return self._answers.open

    @property
    def agent(self) -> AgentSpec:
        """See `OwnEffects.agent`."""
        return self._run.frame.spec

    @property
    def tools(self) -> Sequence[ToolView]:
        """See `OwnEffects.tools`."""
        run = self._run
        return [*run.frame.spec.tools, *(ToolSpec(str(tool["name"]), "client") for tool in run.options.client_tools)]

    @property
    def model(self) -> ModelView:
        """See `OwnEffects.model`."""
        return ModelView()

    @property
    def streamed(self) -> bool:
        """See `OwnEffects.streamed`."""
        return self._run.options.stream

    def begun(self, *, resumable: bool) -> ExecutionState:
        """See `OwnEffects.begun`. Whether it can go on was frozen with the run."""
        state = self._run.state
        if not self._resumable:
            return ExecutionState()
        return ExecutionState(step=state.step, metadata=dict(state.metadata), plan=state.plan, done=state.done)

    def stamp(self) -> tuple[str, datetime]:
        """See `OwnEffects.stamp`."""
        self._stamps += 1
        return derive_id(self._run.frame.run, "own", self._run.begun.step, self._stamps), workflow.now()

    async def history(self) -> list[Message]:
        """See `OwnEffects.history`."""
        run, frame = self._run, self._run.frame
        run.parking.check_cancelled()
        call = ReadHistoryInput(
            run.start.tenant, run.start.session, frame.run, frame.spec.name, frame.node, frame.start, frame.epoch
        )
        run.step.answers = _BETWEEN if run.begun.step else 1  # the first place before any step is the input's
        if self.streamed:
            await self._note("stream", {"n": 0})
        result = await run.finish(calls.start_read_history(call), [])
        messages: list[Message] = [message_from_json(item) for item in result.messages]
        self._known.add_history(messages)
        row = frame.message if frame.input is self._input else derive_id(frame.run, "input")
        self._known.add_row(run.state.messages[0], row, frame.start)
        return messages

    # -- the model -------------------------------------------------------------------------------------------

    async def ask(self, ask: OwnAsk) -> Answered:
        """See `OwnEffects.ask`."""
        self._at_boundary = False
        await self._paying.ensure()
        return await self._answers.ask(ask)

    async def call_answer_tools(
        self, answer: AssistantMessage, tell: Tell | None
    ) -> tuple[ToolResultMessage, list[ToolExecution]]:
        """See `OwnEffects.call_answer_tools`. Their events are in the log as they come."""
        return await self._answers.call_tools(answer)

    # -- steps and hooks -------------------------------------------------------------------------------------

    async def open_step(self, number: int) -> None:
        """See `OwnEffects.open_step`. Its event rides on the next activity."""
        run = self._run
        check_next_step(run.options, run.state, run.frame.run, run.used(), run.allowance)
        run.parking.check_cancelled()
        if self._resumable and self._at_boundary:
            await self._leave()
        self._at_boundary = False
        await self._user.tell("step_start", number)
        run.state.step = number
        run.step = Step(number, position=run.position, answers=self._answers.taken_in(number))
        run.outbox.add({"k": "step", "step": number})

    async def close_step(self, number: int, state: ExecutionState) -> None:
        """See `OwnEffects.close_step`. The record rides on the next activity."""
        run = self._run
        run.parking.check_cancelled()
        if number != run.step.number:
            raise StrategyError(f"on_step_end({number}) was called while step {run.step.number} is in hand")
        self._sync(state)
        await self._user.tell("step_end", number)
        self._reach()
        self._at_boundary = True

    def _sync(self, state: ExecutionState) -> None:
        self._run.state.metadata = plain_metadata(state)
        self._run.state.plan = state.plan

    def has_hook(self, hook: Hook) -> bool:
        """See `OwnEffects.has_hook`."""
        return hook.value in self._run.frame.spec.hooks

    async def call_own_hook(self, call: HookCall) -> HookOutcome:
        """See `OwnEffects.call_own_hook`."""
        run = self._run
        run.parking.check_cancelled()
        outcome = await run.finish(calls.start_call_user(own_hook(run, self._known, call)), [])
        return HookOutcome(metadata=outcome.metadata, stop=outcome.stop)

    # -- the stream, the end ---------------------------------------------------------------------------------

    async def tell(self, event: OwnEvent) -> None:
        """See `OwnEffects.tell`. What `llm.stream` yields is in the log already."""
        if event.upp is START or event.upp is STOP:
            return
        self._told += 1
        row: JSONObject = {"n": self._told}
        if event.uap is not None:
            row["uap"] = {
                "type": str(event.uap.type),
                "step": event.uap.step,
                "agentId": event.uap.agent_id,
                "data": event.uap.data,
            }
            kind = str(event.uap.type)
        elif event.upp is not None:
            row["upp"] = event.upp.to_json()
            kind = str(event.upp.type)
        else:
            raise StrategyError("a strategy's stream yielded an event that is neither a UAP event nor a UPP event")
        await self._note(kind, row)

    async def _note(self, kind: str, row: JSONObject) -> None:
        run = self._run
        entry: dict[str, Any] = {"s": "own", "t": kind, "d": row, **({"p": run.state.step} if run.state.step else {})}
        await run.parking.recorder.note(f"{run.frame.run}:own:{row['n']}", entry, run=run.frame.run)

    async def guard(self, work: Coroutine[Any, Any, Turn], abort: Callable[[str], None]) -> Turn:
        """See `OwnEffects.guard`. What waits for nothing of ours when the run is cancelled is ended after a while."""
        task = asyncio.create_task(work)
        await workflow.wait_condition(lambda: task.done() or self._gate.cancelled)
        if not task.done():
            abort("the run was cancelled")
            try:
                await workflow.wait_condition(task.done, timeout=_GRACE)
            except TimeoutError:
                await workflow.wait_condition(lambda: task.done() or not self._run.in_flight)
                task.cancel()
        return await task

    async def keep(self, turn: Turn, state: ExecutionState) -> None:
        """See `OwnEffects.keep`. Where the turn is all that the run made, in order, nothing is to be done."""
        run = self._run
        self._sync(state)
        items = self._known.items(turn.messages)
        if [item.get("id") for item in items] == self._known.rows:
            return
        call = KeepTurnInput(
            tenant=run.start.tenant,
            session=run.start.session,
            run=run.frame.run,
            node=run.frame.node,
            start=run.frame.start,
            step=run.state.step,
            at=format_timestamp(workflow.now()),
            items=items,
            pending=run.outbox.take(),
        )
        result = await run.finish(calls.start_keep_turn(call), call.pending)
        run.check_kind(result.kind)
        run.position = max(run.position, result.position)
