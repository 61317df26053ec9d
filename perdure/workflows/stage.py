"""The stage workflow: has the actions of one stage session done one after the other, and ends when there is nothing to do.

An idle session is rows only. What needs no task is decided and answered in the store, by the local activity that takes the
action; only a task is scheduled from here. Signals are noted as they come and applied by one coroutine beside that. Nothing
here may raise but on purpose: an error of ours ends the execution instead of trying for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey
from temporalio.exceptions import ActivityError

from perdure.activities import contracts
from perdure.activities.border import describe, from_failure
from perdure.activities.contracts import (
    TERMINATE,
    ControlStageInput,
    FailTaskInput,
    RunTaskInput,
    RunTaskResult,
    StageCarried,
    StageInput,
    StageStanding,
    StageTask,
    TakeActionInput,
    TakeActionResult,
)
from perdure.workflows import stage_calls
from perdure.workflows.beside import run_beside
from perdure.workflows.stage_agents import run_agent_task
from perdure.workflows.stage_signals import StageSignals
from perdure.workflows.stage_tasks import TaskInHand

_STAGE = SearchAttributeKey.for_keyword(contracts.STAGE_ATTRIBUTE)
_MAX_SIGNALS = 2000
_CLOCKS = timedelta(milliseconds=50)
"""So much later than the store expects it a wait is looked at again: the store's clock decides."""


@workflow.defn(name=contracts.STAGE, sandboxed=False)
class StageWorkflow:
    """One stage session's open execution. Its id is `stage/<tenant>/<session>`."""

    @workflow.init
    def __init__(self, start: StageInput) -> None:
        """Go on with what was carried, or begin."""
        self._start = start
        carried = start.carried or StageCarried()
        self._signals = StageSignals(carried)
        self._indexed = carried.stage
        self._standing: StageStanding | None = None
        self._taken = TakeActionResult("none")
        self._hand: TaskInHand | None = None
        self._applying = False
        self._applied = 0
        self._has_ended = False

    @workflow.run
    async def run(self, start: StageInput) -> None:
        """Do what is in the inbox, then complete."""
        await run_beside(self._run(), self._apply_controls(), self._cancelled_by_temporal)

    async def _run(self) -> None:
        while await self._next():
            self._leave_if_due()

    async def _next(self) -> bool:
        """Take one action, or learn that there is none; False ends the execution."""
        await workflow.wait_condition(lambda: not self._is_busy)
        noted, answers = self._signals.noted, self._signals.answers
        taken = await stage_calls.take_action(TakeActionInput(self._start.tenant, self._start.session))
        self._note(taken)
        if taken.kind == "task" and taken.task is not None:
            await self._carry_out(taken, taken.task)
        elif taken.kind == "waiting":
            await self._wait(taken, answers)
        elif taken.kind != "settled":
            return noted != self._signals.noted or self._is_busy
        return True

    async def _wait(self, taken: TakeActionResult, answers: int) -> None:
        """Wait for a person's answer with nothing running; also until the time is over, or a control was applied."""
        limit = None if taken.expires_s is None else timedelta(seconds=taken.expires_s) + _CLOCKS
        applied = self._applied
        try:
            await workflow.wait_condition(
                lambda: (
                    self._signals.answers != answers
                    or self._applied != applied
                    or (self._signals.noted >= _MAX_SIGNALS and not self._is_busy)
                ),
                timeout=limit,
            )
        except TimeoutError:
            return  # that nobody has answered is found by whoever takes the action again

    # -- tasks -----------------------------------------------------------------------------------------------

    async def _carry_out(self, taken: TakeActionResult, task: StageTask) -> None:
        if self._has_ended:
            return  # terminated while it was taken
        self._hand = hand = TaskInHand()
        self._show()
        try:
            if task.kind == "agent":
                result = await run_agent_task(self._start, taken, hand)
            else:
                result = await self._run_task(taken, task, hand)
        except ActivityError as error:
            result = await self._failed(taken, error, hand)
        finally:
            self._hand = None
        self._stands(result.standing)

    async def _run_task(self, taken: TakeActionResult, task: StageTask, hand: TaskInHand) -> RunTaskResult:
        call = RunTaskInput(
            tenant=self._start.tenant,
            session=self._start.session,
            ordinal=taken.ordinal,
            workflow=taken.standing.workflow if taken.standing else "",
            stage=taken.from_stage,
            task=taken.name,
            kind=task.kind,
        )
        handle = stage_calls.start_run_task(call, task)
        hand.runs(handle)
        return await handle

    async def _failed(self, taken: TakeActionResult, error: ActivityError, hand: TaskInHand) -> RunTaskResult:
        """Answer a task that failed by a fault of ours, so that the session goes on."""
        if hand.stopped:
            return RunTaskResult("cancelled")
        told = describe(from_failure(error))
        call = FailTaskInput(
            self._start.tenant, self._start.session, taken.ordinal, str(told["type"]), str(told["message"])
        )
        return await stage_calls.fail_task(call)

    # -- controls --------------------------------------------------------------------------------------------

    @property
    def _is_busy(self) -> bool:
        return bool(self._signals.controls) or self._applying

    async def _apply_controls(self) -> None:
        """Apply pauses, resumes and terminations one after the other, also while a task runs."""
        while True:
            await workflow.wait_condition(lambda: bool(self._signals.controls))
            control = self._signals.controls.popleft()
            self._applying = True
            try:
                applied = await stage_calls.control_stage(
                    ControlStageInput(self._start.tenant, self._start.session, control)
                )
            finally:
                self._applying = False
            self._applied += 1
            self._stands(applied.standing)
            if applied.standing is None or applied.standing.has_ended:
                self._has_ended = True
                if self._hand is not None:
                    self._hand.stop()

    def _cancelled_by_temporal(self) -> None:
        """Whoever cancels the execution ends the session."""
        self._signals.add(TERMINATE, f"{workflow.info().run_id}:cancelled", "its workflow was cancelled")

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Note any signal: wake, answer, pause, resume, terminate, or something else."""
        self._signals.note(name, arguments)

    # -- continuing as new -----------------------------------------------------------------------------------

    def _leave_if_due(self) -> None:
        """Continue as new between actions if it is time. Nothing is awaited between this check and the command."""
        info = workflow.info()
        due = (
            info.is_continue_as_new_suggested()
            or info.get_current_history_length() >= self._taken.leave_events
            or info.get_current_history_size() >= self._taken.leave_bytes
            or self._signals.noted >= _MAX_SIGNALS
        )
        if not due or self._applying:
            return
        carried = StageCarried(
            list(self._signals.controls), self._signals.seen, self._signals.unreadable, self._indexed
        )
        workflow.continue_as_new(StageInput(self._start.tenant, self._start.session, carried))

    # -- what is shown ---------------------------------------------------------------------------------------

    def _note(self, taken: TakeActionResult) -> None:
        self._taken = taken
        self._stands(taken.standing)

    def _stands(self, standing: StageStanding | None) -> None:
        """Show where the session stands, in Temporal's lists and on its page of this execution."""
        if standing is None:
            return
        self._standing = standing
        if self._taken.indexed and standing.stage != self._indexed:
            said = [_STAGE.value_set(standing.stage)]
            workflow.upsert_search_attributes(said)  # pyright: ignore[reportUnknownMemberType]  # the SDK's own type
            self._indexed = standing.stage
        self._show()

    def _show(self) -> None:
        if self._standing is None:
            return
        told = f"Workflow `{self._standing.workflow}`, stage `{self._standing.stage}`: {self._standing.status}."
        workflow.set_current_details(f"{told} {self._doing}".rstrip())

    @property
    def _doing(self) -> str:
        if self._hand is not None:
            return f"Action {self._taken.ordinal}: task `{self._taken.name}` runs."
        if self._taken.kind == "waiting":
            return f"Action {self._taken.ordinal}: task `{self._taken.name}` waits for a person ({self._taken.wait})."
        return ""

    @workflow.query(name="status")
    def query_status(self) -> dict[str, Any]:
        """Where the session stands and which action is in hand."""
        in_hand = self._hand is not None or self._taken.kind == "waiting"
        standing = self._standing
        return {
            "session": self._start.session,
            **({} if standing is None else dataclasses.asdict(standing)),
            "action": self._taken.action_id if in_hand else None,
            "task": self._taken.name if in_hand else None,
            "waits_for": self._taken.wait if self._taken.kind == "waiting" else None,
            "unreadable_signals": self._signals.unreadable,
        }
