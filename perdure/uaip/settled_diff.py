"""What an action that is settled changes of the values of the shared state."""

from __future__ import annotations

from perdure.uaip.action import Action
from perdure.uaip.decision import Move, RunTask, Settling, TakeInput
from perdure.uaip.session import StageSession
from perdure.uaip.state import StateDiff
from perdure.uaip.task_outcome import TaskRun


def settled_diff(session: StageSession, action: Action, decision: Settling, run: TaskRun | None = None) -> StateDiff:
    """The change of the values that goes with `machine.commit`; an empty one if there is none.

    Args:
        session: before the action.
        action: as it was sent.
        decision: of the stage machine.
        run: of a task that was to be run.
    """
    match decision:
        case RunTask() if run is not None and run.outcome.change is not None:
            return run.diff
        case Move(_, _, change):
            return StateDiff(session.version, {}, change.deleted)
        case TakeInput():
            return StateDiff(session.version, action.updates)
        case _:
            return StateDiff(session.version)
