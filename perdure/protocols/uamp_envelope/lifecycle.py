"""The life of an exchange as a state machine: which state follows, on what. Nothing leaves a terminal state.

Source: UAMP envelope 1.0, section 10, with the states that its diagram forgets: `propose` and `deny`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.intent import Intent


class State(StrEnum):
    """Where an exchange is."""

    NEW = "new"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    ERROR = "error"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows."""
        return self not in (State.NEW, State.IN_PROGRESS)


class Step(StrEnum):
    """What happens to an exchange: an envelope or delta of that name, or time."""

    PROGRESS = "progress"
    DONE = "done"
    CONFIRM = "confirm"
    DENY = "deny"
    CANCEL = "cancel"
    ERROR = "error"
    TIMEOUT = "timeout"
    STALL = "stall"


_ENDS: Mapping[Step, State] = MappingProxyType(
    {
        Step.DONE: State.COMPLETED,
        Step.CONFIRM: State.COMPLETED,
        Step.DENY: State.COMPLETED,
        Step.CANCEL: State.CANCELLED,
        Step.ERROR: State.ERROR,
        Step.TIMEOUT: State.ERROR,
        Step.STALL: State.ERROR,
    }
)


def opened(intent: Intent) -> State:
    """The state right after an envelope is accepted that belongs to no exchange.

    Raises:
        UAMPError: 4.04 for an intent that answers: there is nothing that it could be about.
    """
    if intent.answers:
        raise UAMPError(Code.UNKNOWN_STREAM, f"{intent} names no exchange that is known here")
    return State.IN_PROGRESS if intent.opens else State.COMPLETED


def advanced(state: State, step: Step) -> State:
    """The state after a step. A terminal state stays, whatever comes late."""
    return state if state.is_terminal else _ENDS.get(step, State.IN_PROGRESS)
