"""Handling what was signalled, one thing after the other, beside the run."""

from __future__ import annotations

from temporalio import workflow

from perdure.activities import contracts
from perdure.errors import SessionGone
from perdure.uap.events import run_event
from perdure.upp.json_value import JSONObject
from perdure.workflows.effects import TemporalEffects
from perdure.workflows.outbox import Recorder
from perdure.workflows.signals import Control, SignalBox


class Controls:
    """Pauses, resumes and cancels, and the state they leave.

    Attributes:
        paused: the session is paused.
        cancel_asked: the active run is to be cancelled.
        cancel_ids: ids of the controls that asked for it.
        holding: controls wait: a run may be about to begin, and they may mean it.
    """

    def __init__(self, signals: SignalBox, recorder: Recorder, *, paused: bool, holding: bool = False) -> None:
        """Handle what `signals` notes; say so through `recorder`. `holding`: the session is yet to be opened."""
        self._signals = signals
        self._recorder = recorder
        self._handling = False
        self._early: list[Control] = []
        self._run: TemporalEffects | None = None
        self.paused = paused
        self.cancel_asked = False
        self.cancel_ids: list[str] = []
        self.holding = holding

    @property
    def busy(self) -> bool:
        """Whether something is noted or being handled."""
        return (self._signals.waiting and not self.holding) or self._handling or self._recorder.busy

    async def serve(self) -> None:
        """Handle signals until the session is gone; an error of ours ends it and is raised."""
        while True:
            await workflow.wait_condition(lambda: self._signals.waiting and not self.holding)
            self._handling = True
            try:
                if self._signals.unreadable:
                    number, text = self._signals.unreadable[0]
                    await self._recorder.note(f"signal:{number}", run_event("signal.unreadable", {"text": text}))
                    self._signals.unreadable.popleft()
                else:
                    await self._handle(self._signals.controls[0])
                    self._signals.controls.popleft()
            except SessionGone:
                return
            finally:
                self._handling = False

    async def begun(self, run: TemporalEffects) -> None:
        """A run is active now; cancels that came early for it are its own."""
        self._run = run
        self.holding = False
        await self._settle_early(run.frame.run)

    async def none_begun(self) -> None:
        """There was no run to begin; cancels that came early mean nothing."""
        self.holding = False
        await self._settle_early(None)

    def ended(self) -> None:
        """No run is active."""
        self._run = None
        self._signals.steered = False  # of the run that has ended; what waited for it is a run of its own
        self.cancel_ids, self.cancel_asked = [], False

    async def _handle(self, control: Control) -> None:
        if control.kind == contracts.CANCEL:
            await self._cancel(control)
            return
        self.paused = control.kind == contracts.PAUSE
        kind = "session.paused" if self.paused else "session.resumed"
        detail: JSONObject = {"control": control.id, "inFlight": self._run.in_flight if self._run else 0}
        if self._run is not None and self._run.calls_in_flight:
            detail["calls"] = self._run.calls_in_flight
        await self._recorder.note(f"signal:{control.number}", run_event(kind, detail), paused=self.paused)
        if self._run is not None:
            await self._run.tell_children(control.kind, control.id or str(control.number))

    async def _cancel(self, control: Control) -> None:
        if self._run is not None and control.run in (None, self._run.frame.run):
            self.cancel_asked = True
            self.cancel_ids.extend([control.id] if control.id else [])
            self._run.cancel_all()
        elif control.run is not None and self._run is None:
            self._early.append(control)
        else:
            await self._ignore(control)

    async def _settle_early(self, run: str | None) -> None:
        early, self._early = self._early, []
        for control in early:
            if control.run == run:
                await self._cancel(control)
            else:
                await self._ignore(control)

    async def _ignore(self, control: Control) -> None:
        detail: JSONObject = {
            "control": control.id,
            "kind": control.kind,
            "run": control.run,
            "reason": "not the active run",
        }
        await self._recorder.note(f"signal:{control.number}", run_event("control.ignored", detail))
