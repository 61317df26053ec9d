"""The run in hand: what its model calls, its tool calls and its hooks share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

from perdure.activities.border import from_failure
from perdure.activities.contracts import Progress, RunFrame, SessionInput
from perdure.errors import SessionGone
from perdure.uap.allowance import Allowance, shorter
from perdure.uap.options import RunOptions
from perdure.uap.plan_steps import PlanStep
from perdure.uap.recorded_usage import join_usage, total_usage
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import message_from_json
from perdure.upp.usage import TokenUsage, aggregate_usage, empty_usage
from perdure.workflows.open_child import OpenChild
from perdure.workflows.outbox import Outbox
from perdure.workflows.parking import Parking
from perdure.workflows.run_clock import RunClock
from perdure.workflows.step import Step, totals

T = TypeVar("T")


class RunInHand:
    """One run as far as this execution has it.

    Attributes:
        start: the session.
        frame: what stays the same for the run, from when its middleware was entered.
        options: of its submit.
        allowance: what was left of its session's limits when it began; None if it has none.
        clock: the time that it takes.
        outbox: takes records.
        parking: holds and parks.
        state: the strategy's.
        step: the step in hand.
        position: messages of the node so far.
        reasoning: ids of react's reasoning so far.
        sub_agents: sessions of finished sub-agents, by tool call id.
        usage_by_agent: TokenUsage JSON of sub-agents, by agent path.
        around: TokenUsage JSON of model calls of its middleware's own, by `path#middleware`; told by each entering.
        children: sub-agents whose calls are open, by session.
        started: tool calls of the step in hand that this execution started.
        started_before: those that an execution before it did; None if it may be any.
        adopted_step: the step that another execution may have begun; 0 if none.
    """

    def __init__(
        self,
        start: SessionInput,
        frame: RunFrame,
        progress: Progress | None,
        started: list[int] | None,
        outbox: Outbox,
        parking: Parking,
    ) -> None:
        """Go on from `progress`, or begin."""
        begun = progress or Progress(step=0, position=frame.start + 1)
        self.start = start
        self.frame = frame
        self.options = RunOptions.from_json(frame.options)
        self.allowance = Allowance.from_json(frame.session) if frame.session else None
        timed = shorter(Allowance.by(self.options), self.allowance)
        self.clock = RunClock(timed, lambda: parking.reason is not None, elapsed_s=frame.elapsed_s)
        self.outbox = outbox
        self.parking = parking
        self.begun = begun
        self.position = begun.position
        self.step = Step(begun.step)
        self.reasoning = list(begun.reasoning)
        self.sub_agents = dict(begun.sub_agents)
        self.usage_by_agent = dict(begun.usage_by_agent)
        self.around: dict[str, dict[str, Any]] = {}
        self.children: dict[str, OpenChild] = {}
        self.started: list[int] = []
        self.started_before = started
        self.adopted_step = begun.step + 1 if frame.adopted else 0
        self._handles: list[asyncio.Future[Any]] = []
        self._calls: dict[int, JSONObject] = {}
        self.state = ExecutionState(
            step=begun.step,
            messages=[message_from_json(frame.input)],
            metadata=dict(begun.metadata),
            usage=TokenUsage.from_json(begun.usage) if begun.usage else empty_usage(),
            cycles=begun.cycles,
            done=begun.done,
            plan=None if begun.plan is None else [PlanStep.from_json(item) for item in begun.plan],
        )

    @property
    def in_flight(self) -> int:
        """Activities and sub-agents in flight."""
        return len(self._handles) + sum(child.in_flight for child in self.children.values())

    @property
    def calls_in_flight(self) -> list[JSONValue]:
        """Model and tool calls, and sub-agents, that are in flight."""
        known = [self._calls[id(handle)] for handle in self._handles if id(handle) in self._calls]
        return [*known, *({"kind": "agent", "session": child} for child in self.children)]

    def cancel_all(self) -> None:
        """Ask all that is in flight to stop; each stores what it has and returns."""
        for open_one in [*self._handles, *self.children.values()]:
            open_one.cancel()

    def take_child(self, call: str, child: str, usage: Mapping[str, dict[str, Any]]) -> None:
        """Note that a sub-agent has ended.

        Args:
            call: the tool call's id.
            child: the sub-agent's session.
            usage: of it and its own, by agent path.
        """
        self.sub_agents[call] = child
        self.usage_by_agent = join_usage(self.usage_by_agent, usage)

    def enter(self, start: int, epoch: int, input: dict[str, Any] | None) -> None:
        """Go on with what the run's middleware left of its beginning.

        Args:
            start: position of the input, which may stand in place of the caller's.
            epoch: of the session.
            input: that other input as MessageJSON, long parts cut; None if it is the caller's.
        """
        given = self.frame.input if input is None else input
        self.frame = replace(self.frame, start=start, epoch=max(epoch, self.frame.epoch), input=given)
        self.state.messages[0] = message_from_json(given)
        if self.begun.step == 0:
            self.position = start + 1
            self.begun = replace(self.begun, position=self.position)

    def spent(self) -> TokenUsage:
        """What the run, its sub-agents and its middleware have used so far."""
        return aggregate_usage([self.state.usage, total_usage(self.used_besides().values())])

    def used(self) -> TokenUsage | None:
        """The same; None if its agent alone has used anything."""
        return self.spent() if self.used_besides() else None

    def used_besides(self) -> dict[str, dict[str, Any]]:
        """TokenUsage JSON of what others than its agent have used for the run, by agent path."""
        return join_usage(self.usage_by_agent, self.around)

    def progress(self) -> Progress:
        """Where the run stands after the step in hand."""
        return Progress(
            step=self.step.number,
            position=self.position,
            usage=totals(self.state.usage),
            cycles=self.state.cycles,
            metadata=self.state.metadata,
            done=self.state.done,
            reasoning=list(self.reasoning),
            plan=None if self.state.plan is None else [item.to_json() for item in self.state.plan],
            sub_agents=dict(self.sub_agents),
            usage_by_agent=dict(self.usage_by_agent),
        )

    async def finish(
        self, handle: workflow.ActivityHandle[T], taken: Sequence[dict[str, Any]], call: JSONObject | None = None
    ) -> T:
        """The result of an activity; the records that it took are pending again if it failed.

        Args:
            handle: of the activity.
            taken: the records.
            call: how it is told of while it is in flight; None if it is not.

        Raises:
            PerdureError: what it raised.
            asyncio.CancelledError: the run is to be cancelled.
        """
        self._handles.append(handle)
        if call is not None:
            self._calls[id(handle)] = call
        try:
            return await handle
        except ActivityError as error:
            self.outbox.put_back(taken)
            self.parking.check_cancelled()
            raise from_failure(error) from error
        finally:
            self._handles.remove(handle)
            self._calls.pop(id(handle), None)

    def check_kind(self, kind: str) -> None:
        """Raise what an activity's "gone" or "late" means."""
        if kind == "gone":
            raise SessionGone(f"session {self.start.session} is being deleted")
        if kind == "late":
            raise asyncio.CancelledError
