"""The session workflow: takes the session's inputs one after the other, and ends when there is nothing to do.

An idle session is rows only. While a run is open this is the one writer of its conversation. Signals are noted as they
come and handled by one task beside the run. Nothing here may raise but on purpose: whatever a strategy raises ends its
run in a typed terminal state, and an error of our own ends the execution instead of trying for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from perdure.activities import contracts
from perdure.activities.contracts import BeginRunInput, Carried, EndRunInput, RunFrame, SessionInput
from perdure.errors import SessionGone
from perdure.uap.events import run_event
from perdure.uap.execution import ExecutionStrategy
from perdure.uap.hooks import Hook
from perdure.uap.options import RunOptions
from perdure.uap.run_limits import check_start
from perdure.uap.spec import StrategySpec
from perdure.upp.json_value import JSONObject
from perdure.upp.timestamp import format_timestamp
from perdure.workflows import calls, strategies
from perdure.workflows.beside import run_beside
from perdure.workflows.controls import Controls
from perdure.workflows.effects import TemporalEffects
from perdure.workflows.outbox import Outbox, Recorder
from perdure.workflows.outcome import context_of, outcome_of
from perdure.workflows.parking import Parking
from perdure.workflows.shown_run import ShownRun
from perdure.workflows.signals import SignalBox
from perdure.workflows.step import totals

_MAX_SIGNALS = 2000


@workflow.defn(name=contracts.SESSION, sandboxed=False)
class SessionWorkflow:
    """One session's open execution. Its id is `session/<tenant>/<session>`."""

    @workflow.init
    def __init__(self, start: SessionInput) -> None:
        """Go on with what was carried, or begin."""
        self._start = start
        self._carried = start.carried or Carried()
        self._signals = SignalBox(self._carried)
        self._outbox = Outbox(self._carried.pending)
        self._recorder = Recorder(start, self._outbox)
        opens = start.parent is not None and start.carried is None
        self._controls = Controls(self._signals, self._recorder, paused=self._carried.paused, holding=opens)
        self._effects: TemporalEffects | None = None
        self._parking: Parking | None = None
        self._shown = ShownRun()

    @workflow.run
    async def run(self, start: SessionInput) -> None:
        """Run what is in the inbox, then complete."""
        await run_beside(self._run(), self._controls.serve(), self._cancelled_by_temporal)

    def _cancelled_by_temporal(self) -> None:
        """Cancelling this workflow sets a flag, and what is in flight stops."""
        if self._effects is not None:
            self._effects.cancel_all()

    async def _run(self) -> None:
        try:
            if self._carried.frame is not None:
                await self._one_run(self._carried.frame, self._carried)
            first = self._start.parent is not None  # a sub-agent's run is ended also if it was cancelled before
            while (first or workflow.cancellation_reason() is None) and await self._next():
                first = False
        except SessionGone:
            return  # nothing of it is left to write to

    async def _next(self) -> bool:
        """Take one input, or learn that there is none; False ends the execution."""
        await workflow.wait_condition(lambda: not self.busy)
        noted = self._signals.noted
        self._controls.holding = True
        begun = await calls.begin_run(
            BeginRunInput(
                self._start.tenant,
                self._start.session,
                self._start.agent,
                format_timestamp(workflow.now()),
                self._start.parent,
            )
        )
        if begun.kind == "gone":
            raise SessionGone(f"session {self._start.session} does not exist or is being deleted")
        self._controls.paused = begun.paused
        if begun.frame is None:
            await self._controls.none_begun()
            return noted != self._signals.noted or self.busy
        self._controls.cancel_asked = begun.orphan
        self._signals.steered = self._signals.steered or begun.steered
        for record in begun.pending:
            self._outbox.add(record)
        if begun.source is not None:
            detail: JSONObject = {"source": begun.source, "step": begun.progress.step if begun.progress else 0}
            await self._recorder.note("adopted", run_event("run.adopted", detail), run=begun.frame.run)
        await self._one_run(begun.frame, Carried(progress=begun.progress))
        return True

    # -- one run ---------------------------------------------------------------------------------------------

    async def _one_run(self, frame: RunFrame, carried: Carried) -> None:
        self._parking = Parking(frame.run, self, self._recorder, carried.parked)
        self._effects = effects = TemporalEffects(
            self._start, frame, carried.progress, carried.started, self, self._outbox, self._parking, self._signals
        )
        self._shown.begun(effects, self._parking)
        await self._controls.begun(effects)
        status, error = await self._execute(effects, self._parking)
        ended = await calls.end_run(
            EndRunInput(
                tenant=self._start.tenant,
                session=self._start.session,
                run=frame.run,
                status=status,
                now=format_timestamp(workflow.now()),
                step=effects.state.step,
                usage=totals(effects.state.usage),
                cycles=effects.state.cycles,
                error=error,
                open_answer=effects.open_answer if status == "cancelled" else None,
                controls=self._controls.cancel_ids,
                pending=self._outbox.take(),
                usage_by_agent=effects.usage_by_agent,
                paid=frame.spec.paid is not None,
            )
        )
        if ended.kind == "gone":
            raise SessionGone(f"session {self._start.session} is being deleted")
        self._shown.ended(ended.status)
        self._effects, self._parking = None, None
        self._controls.ended()

    async def _execute(self, effects: TemporalEffects, parking: Parking) -> tuple[str, dict[str, Any] | None]:
        """Run the strategy; whatever it raises is a status. Only continuing as new and a deleted session pass."""
        status, error = await outcome_of(effects.pay())
        if status == "completed":
            status, error = await outcome_of(effects.enter())
        if status == "completed":
            work = self._strategy(effects.frame, effects, parking)
            status, error = await outcome_of(effects.clock.within(work, effects.frame.run, effects.cancel_all))
            if status == "failed" and not self.cancelled:
                status, error = await outcome_of(self._on_error(effects, error or {}))
        if effects.entered and status != "cancelled" and not self.cancelled:
            status, error = await outcome_of(effects.leave(error))
        if status != "completed" and self.cancelled:
            return "cancelled", None
        return status, error

    async def _strategy(self, frame: RunFrame, effects: TemporalEffects, parking: Parking) -> dict[str, Any] | None:
        if not effects.state.done:  # else taken over between its last step and its end
            check_start(RunOptions.from_json(frame.options), frame.spec, effects.allowance)
            await parking.resume_carried()
            strategy = strategies.build(frame.spec.strategy, self.own_strategy(frame.spec.strategy))
            if effects.state.step == 0 or not await effects.is_over():
                await strategy.execute(context_of(frame, effects))
        await effects.call_hook(Hook.COMPLETE)
        return None

    def own_strategy(self, spec: StrategySpec) -> ExecutionStrategy | None:
        """The strategy itself, if it is one of the user's own; none runs outside the sandbox."""
        return None

    async def _on_error(self, effects: TemporalEffects, error: dict[str, Any]) -> dict[str, Any] | None:
        """Ask `on_error` for a turn in place of the failure; without one the failure stands."""
        outcome = await effects.call_hook(Hook.ERROR, error)
        if not outcome.turned:
            return error
        await effects.call_hook(Hook.COMPLETE)
        return None

    # -- what the run's effects ask --------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """See `Gate.paused`."""
        return self._controls.paused

    @property
    def cancelled(self) -> bool:
        """See `Gate.cancelled`: by a signal, by Temporal's own cancellation, or because the run's time is over."""
        over = self._effects is not None and self._effects.clock.is_over
        return over or self._controls.cancel_asked or workflow.cancellation_reason() is not None

    @property
    def busy(self) -> bool:
        """See `Gate.busy`."""
        return self._controls.busy

    def answered(self, wait: str) -> bool:
        """See `Gate.answered`."""
        return wait in self._signals.answered

    def use_answer(self, wait: str) -> None:
        """See `Gate.use_answer`."""
        self._signals.use(wait)

    def due_to_leave(self) -> bool:
        """See `Gate.due_to_leave`."""
        if self._effects is None or self._effects.in_flight or self.cancelled:
            return False
        info = workflow.info()
        limits = self._effects.frame.spec.limits
        return (
            info.is_continue_as_new_suggested()
            or info.get_current_history_length() >= limits.continue_as_new_events
            or info.get_current_history_size() >= limits.continue_as_new_bytes
            or self._signals.noted >= _MAX_SIGNALS
        )

    def leave(self) -> None:
        """See `Gate.leave`. Nothing is awaited between this check and the command."""
        effects = self._effects
        if effects is None or self.busy:
            return
        in_hand = effects.state.step > effects.boundary.step
        carried = Carried(
            paused=self._controls.paused,
            seen=self._signals.seen,
            answered=self._signals.answered,
            frame=dataclasses.replace(
                effects.frame, adopted=in_hand or effects.starts_over, elapsed_s=effects.clock.elapsed_s
            ),
            progress=effects.boundary,
            started=effects.started if in_hand else None,
            parked=self._parking.details if self._parking else [],
            pending=self._outbox.pending,
            steered=self._signals.steered or (in_hand and effects.steered),
        )
        workflow.continue_as_new(dataclasses.replace(self._start, carried=carried))

    # -- signals ---------------------------------------------------------------------------------------------

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Note any signal: wake, pause, resume, cancel, answer, or something else."""
        self._signals.note(name, arguments)

    # -- queries ---------------------------------------------------------------------------------------------

    @workflow.query(name="status")
    def query_status(self) -> dict[str, Any]:
        """Run, status and step of the run that is open, or was the last of this execution."""
        shown = {"session": self._start.session, "paused": self._controls.paused, "status": "idle"}
        return {**shown, **self._shown.now}

    @workflow.query(name="state")
    def query_state(self) -> dict[str, Any]:
        """The small execution state at the last step boundary."""
        return dict(self._shown.now.get("state", {}))

    @workflow.query(name="checkpoints")
    def query_checkpoints(self) -> list[dict[str, Any]]:
        """Checkpoints of the open or last run, by id and step, oldest first."""
        return self._shown.checkpoints
