"""What the stage machine decides on an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from perdure.uaip.definition import TaskSpec
from perdure.uaip.refusal import Refusal
from perdure.uaip.state_change import StateChange


@dataclass(frozen=True, slots=True)
class Known:
    """The action was settled before: its row has the answer, nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Held:
    """The session is paused: the action waits, and those after it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing is done, and the caller is told why."""

    refusal: Refusal


@dataclass(frozen=True, slots=True)
class RunTask:
    """The task is to be run with the action's arguments; if it wants approval, a person is asked first."""

    stage: str
    task: TaskSpec


@dataclass(frozen=True, slots=True)
class Move:
    """The session goes to another stage.

    Attributes:
        source: where it is.
        target: where it goes.
        change: what of the state is dropped on this way.
    """

    source: str
    target: str
    change: StateChange


@dataclass(frozen=True, slots=True)
class TakeInput:
    """The action's updates are written into the state."""

    change: StateChange


@dataclass(frozen=True, slots=True)
class Terminate:
    """The session ends."""


@dataclass(frozen=True, slots=True)
class Greet:
    """Nothing changes; the caller is told where the session is."""


Settling: TypeAlias = Refused | RunTask | Move | TakeInput | Terminate | Greet
"""Decisions after which the action is settled."""

Decision: TypeAlias = Known | Held | Settling
