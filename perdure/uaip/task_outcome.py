"""What came of a task: all of it for its row, and without the values for the stage machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.uaip.refusal import Refusal
from perdure.uaip.state import StateDiff
from perdure.uaip.state_change import StateChange
from perdure.upp.json_value import JSONValue


@dataclass(frozen=True, slots=True)
class TaskError:
    """What a task raised.

    Attributes:
        type: the exception's class, or a word of ours: `OutcomeUnknown`, `Denied`, `StateTooLarge`, `Cancelled`.
        message: its text; never a traceback.
    """

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What the machine is told: exactly one of the three.

    Attributes:
        change: the task returned; what it changed of the state, perhaps nothing.
        error: it raised, timed out, was denied, or nobody knows.
        refusal: it was not run.
    """

    change: StateChange | None = None
    error: TaskError | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class TaskRun:
    """What came of one call.

    Attributes:
        result: what the task returned, as JSON; None if it returned nothing, or did not return.
        diff: what it changed of the state; empty if it did not return.
        error: what it raised.
        refusal: the arguments do not fit, and it was not run.
    """

    result: JSONValue = None
    diff: StateDiff = field(default_factory=StateDiff)
    error: TaskError | None = None
    refusal: Refusal | None = None

    @property
    def outcome(self) -> TaskOutcome:
        """What of it the stage machine is told."""
        failed = self.error is not None or self.refusal is not None
        return TaskOutcome(None if failed else self.diff.change(), self.error, self.refusal)
