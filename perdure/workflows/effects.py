"""The effects of a strategy in a workflow: each is an activity, or a record that rides on one.

The conversation stays in the store; what comes back is a real UPP message whose long parts are previews. Every effect
first holds while the session is paused, and ends with `CancelledError` once the run is cancelled.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from perdure.activities.contracts import CallUserResult, Progress, RunFrame, SessionInput
from perdure.uap.allowance import Allowance
from perdure.uap.checkpoint import CheckpointRecord
from perdure.uap.hooks import Hook
from perdure.uap.ids import checkpoint_id
from perdure.uap.run_limits import check_next_step
from perdure.uap.run_turn import run_turn
from perdure.uap.state import ExecutionState
from perdure.uap.strategy import PLAIN, Ask
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import AssistantMessage, ToolResultMessage
from perdure.upp.timestamp import format_timestamp
from perdure.upp.turn import Turn
from perdure.workflows.children import pass_on
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.model_calls import ModelCalls
from perdure.workflows.outbox import Outbox
from perdure.workflows.own_calls import OwnCalls
from perdure.workflows.parking import Gate, Parking
from perdure.workflows.paying import Paying
from perdure.workflows.run_clock import RunClock
from perdure.workflows.signals import SignalBox
from perdure.workflows.steering import Steering
from perdure.workflows.step import Step, record_json, totals
from perdure.workflows.tool_calls import ToolCalls
from perdure.workflows.user_calls import UserCalls


class TemporalEffects:
    """`Effects` of one run in a workflow.

    Attributes:
        boundary: the last step boundary.
        own: the effects of a strategy of the user's own.
        starts_over: the strategy is carried out from the beginning by each execution.
    """

    def __init__(
        self,
        start: SessionInput,
        frame: RunFrame,
        progress: Progress | None,
        started: list[int] | None,
        gate: Gate,
        outbox: Outbox,
        parking: Parking,
        signals: SignalBox,
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
            signals: says whether inputs may join the run.
        """
        self.starts_over = frame.spec.strategy.starts_over
        if self.starts_over:
            progress, started = None, None
        self._run = RunInHand(start, frame, progress, started, outbox, parking)
        self._gate = gate
        self._user = UserCalls(self._run)
        self._steering = Steering(self._run, signals)
        self._paying = Paying(self._run)
        self._models = ModelCalls(self._run, self._user, self._steering)
        self._tools = ToolCalls(self._run, self._user)
        self.own = OwnCalls(self._run, self._user, self._paying, gate, self._reach_boundary, self._leave_if_due)
        self.boundary = self._run.begun

    @property
    def state(self) -> ExecutionState:
        """The strategy's state."""
        return self._run.state

    @property
    def frame(self) -> RunFrame:
        """What stays the same for the run."""
        return self._run.frame

    @property
    def allowance(self) -> Allowance | None:
        """What was left of its session's limits when the run began; None if it has none."""
        return self._run.allowance

    @property
    def clock(self) -> RunClock:
        """The time that the run takes."""
        return self._run.clock

    @property
    def started(self) -> list[int]:
        """Tool calls of the step in hand that were started."""
        return self._run.started

    @property
    def steered(self) -> bool:
        """Whether inputs have joined the run in the step in hand."""
        return self._steering.joined

    @property
    def open_answer(self) -> dict[str, Any] | None:
        """The model call that has given no answer yet."""
        return self._models.open_answer or next(iter(self.own.open_answers.values()), None)

    @property
    def in_flight(self) -> int:
        """Activities and sub-agents in flight."""
        return self._run.in_flight

    @property
    def calls_in_flight(self) -> list[JSONValue]:
        """Which model and tool calls, and sub-agents, are in flight."""
        return self._run.calls_in_flight

    @property
    def usage_by_agent(self) -> dict[str, dict[str, Any]]:
        """TokenUsage JSON of sub-agents and of middleware so far, by agent path."""
        return self._run.used_besides()

    def cancel_all(self) -> None:
        """Ask every activity in flight to stop; each stores what it has and returns."""
        self._run.cancel_all()

    async def tell_children(self, kind: str, control: str) -> None:
        """Have all open sub-agents pause or resume, too."""
        await pass_on(self._run, kind, control)

    async def start_step(self) -> int:
        """See `Effects.start_step`. Its event rides on the next activity."""
        run = self._run
        check_next_step(run.options, run.state, self.frame.run, run.used(), run.allowance)
        await self._paying.ensure()
        run.parking.check_cancelled()
        await self._user.tell("step_start", run.state.step + 1)
        run.state.step += 1
        run.step = Step(run.state.step, position=run.position)
        run.outbox.add({"k": "step", "step": run.state.step})
        await self._user.hook(Hook.STEP_START)
        return run.state.step

    @property
    def data(self) -> JSONValue:
        """See `Effects.data`."""
        return self._models.data

    async def generate(self, ask: Ask = PLAIN) -> AssistantMessage:
        """See `Effects.generate`."""
        return await self._models.generate(ask)

    async def call_tools(self, message: AssistantMessage, *, hooks: bool = False) -> ToolResultMessage:
        """See `Effects.call_tools`."""
        return await self._tools.call_tools(message, hooks=hooks)

    async def end_step(self, *, last: bool) -> bool:
        """See `Effects.end_step`. The record rides on the next activity."""
        run = self._run
        run.parking.check_cancelled()
        await self._user.hook(Hook.STEP_END)
        await self._user.tell("step_end", run.state.step)
        self._reach_boundary(last=last)
        if not last:
            await self._leave_if_due()
        return await self.is_over()

    def _reach_boundary(self, *, last: bool = False) -> None:
        run = self._run
        run.state.done = last
        self.boundary = run.progress()
        run.outbox.add({"k": "checkpoint", "r": record_json(self._record())})
        run.started = []

    async def _leave_if_due(self) -> None:
        """Go on in another execution, if this one is long enough. The run stands at a boundary, and needs another step."""
        while self._gate.due_to_leave():
            self._gate.leave()
            await workflow.wait_condition(lambda: not self._gate.busy)

    def _record(self) -> CheckpointRecord:
        run, step = self._run, self._run.step
        return CheckpointRecord(
            id=checkpoint_id(self.frame.run, step.number),
            run=self.frame.run,
            step=step.number,
            node=self.frame.node,
            position=run.position,
            start=self.frame.start,
            at=format_timestamp(workflow.now()),
            usage=self.boundary.usage,
            step_usage=totals(step.usage),
            cycles=run.state.cycles,
            messages=step.marks,
            metadata=run.state.metadata,
            done=run.state.done,
            history_length=workflow.info().get_current_history_length(),
            reasoning=self.boundary.reasoning,
            plan=self.boundary.plan,
            sub_agents=self.boundary.sub_agents,
            usage_by_agent=self.boundary.usage_by_agent,
        )

    async def is_over(self) -> bool:
        """Whether the run ends at the boundary where it stands; an execution that takes it up there asks, too."""
        outcome = await self._user.hook(Hook.STOP)
        return outcome.stop or self.state.done

    async def pay(self) -> None:
        """See that the run is paid for before it begins; one that has no further step needs nothing."""
        if self.frame.spec.paid is not None and not self.state.done:
            await self._run.parking.resume_carried()
            await self._paying.ensure()

    async def enter(self) -> dict[str, Any] | None:
        """Call the `before` hooks of the run's middleware; returns what one of them raised."""
        error = await self._user.enter()
        self.boundary = self._run.begun
        return error

    async def leave(self, error: dict[str, Any] | None) -> dict[str, Any] | None:
        """Call the hooks of the run's middleware with what it came to; returns what it fails of after them."""
        return await self._user.leave(error)

    @property
    def entered(self) -> bool:
        """Whether the run has middleware that is to be left."""
        return self._user.entered

    async def call_hook(self, hook: Hook, error: dict[str, Any] | None = None) -> CallUserResult:
        """Call a hook of the agent in a worker, if it has it; what it left in the metadata counts."""
        return await self._user.hook(hook, error)

    def turn(self) -> Turn:
        """See `Effects.turn`."""
        state = self.state
        return run_turn(state.messages, state.tool_executions, state.usage, state.cycles)
