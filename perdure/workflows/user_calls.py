"""Calls of the user's own functions around a run: an agent's lifecycle hooks, and its middleware."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias

from perdure.activities.border import from_description
from perdure.activities.contracts import AroundInput, AroundResult, CallUserInput, CallUserResult, Progress
from perdure.uap.hooks import Hook
from perdure.uap.recorded_usage import join_usage
from perdure.workflows import calls
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.step import totals

Told: TypeAlias = Literal["step_start", "reasoning", "action", "observation", "step_end"]


class UserCalls:
    """The hooks and the middleware of one run.

    Attributes:
        entered: the run has middleware that is to be left.
    """

    def __init__(self, run: RunInHand) -> None:
        """Call the hooks and the middleware of the run's agent."""
        self._run = run
        self._spent = run.begun
        self.entered = False

    async def hook(self, hook: Hook, error: dict[str, Any] | None = None) -> CallUserResult:
        """Call a hook of the agent in a worker, if it has it; what it left in the metadata counts."""
        run, step = self._run, self._run.step
        if hook.value not in run.frame.spec.hooks:
            return CallUserResult(metadata=run.state.metadata)
        call = CallUserInput(
            tenant=run.start.tenant,
            session=run.start.session,
            run=run.frame.run,
            agent=run.frame.spec.name,
            hook=hook.value,
            step=step.number,
            node=run.frame.node,
            start=run.frame.start,
            position=run.position,
            epoch=run.frame.epoch,
            step_position=step.position,
            message=step.message,
            results=step.results,
            scaffold=step.scaffold,
            progress=run.progress(),
            error=error,
        )
        outcome = await run.finish(calls.start_call_user(call), [])
        run.state.metadata = dict(outcome.metadata)
        run.position += outcome.added
        return outcome

    async def enter(self) -> dict[str, Any] | None:
        """Call the `before` hooks of the middleware, if there is any; returns what one of them raised.

        An execution that takes the run up calls again, and is told what was stored.
        """
        run = self._run
        if not run.frame.spec.middleware:
            return None
        entered = await self._around("enter", Progress(0, 0))
        self.entered = True
        run.enter(entered.position - 1, entered.epoch, entered.input)
        run.around = dict(entered.usage_by_agent)
        return entered.error

    async def tell(self, kind: Told, step: int, message: str = "") -> None:
        """Tell the middleware that listens to it of an event; what one raises is raised here.

        Args:
            kind: the event's type.
            step: its step's number.
            message: id of the row that it is about.
        """
        run = self._run
        if kind in ("step_start", "step_end"):
            self._spent = run.progress()  # between them the step in hand does not count yet
        if kind not in run.frame.spec.listens:
            return
        event: dict[str, Any] = {"type": kind, "step": step}
        if message:
            event["message"] = message
        if kind == "step_end":
            event["usage"] = totals(run.step.usage)
        told = await self._around("tell", self._spent, event=event)
        if told.error is not None:
            raise from_description(told.error)

    async def leave(self, error: dict[str, Any] | None) -> dict[str, Any] | None:
        """Call the hooks of the middleware that was entered with what the run came to; returns what it fails of then."""
        outcome = "completed" if error is None else "failed"
        return (await self._around("leave", self._run.progress(), outcome=outcome, error=error)).error

    async def _around(
        self,
        kind: str,
        progress: Progress,
        *,
        event: dict[str, Any] | None = None,
        outcome: str = "",
        error: dict[str, Any] | None = None,
    ) -> AroundResult:
        run = self._run
        run.parking.check_cancelled()
        spent = join_usage(progress.usage_by_agent, run.around)
        call = AroundInput(
            tenant=run.start.tenant,
            session=run.start.session,
            run=run.frame.run,
            agent=run.frame.spec.name,
            kind=kind,
            node=run.frame.node,
            start=run.frame.start,
            position=run.position,
            epoch=run.frame.epoch,
            event=event,
            outcome=outcome,
            error=error,
            # what was spent is all it asks
            progress=replace(progress, metadata={}, reasoning=[], plan=None, sub_agents={}, usage_by_agent=spent),
        )
        result = await run.finish(calls.start_around(call), [])
        run.check_kind(result.kind)
        run.parking.check_cancelled()
        return result
