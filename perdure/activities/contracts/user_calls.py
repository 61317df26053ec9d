"""Calls of the user's own functions around a run, and what strategies of the user's own need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perdure.activities.contracts.session import NO_PROGRESS, Progress


@dataclass(frozen=True, slots=True)
class CallUserInput:
    """One call of a lifecycle hook. What it is given is read from the rows that these name.

    Attributes:
        position: messages of the node so far.
        message: id of the answer of the step, for the hooks that are about it.
        results: id of its tool-result message, likewise.
        scaffold: id of the strategy's own answer of the step.
        step_position: messages of the node before the step.
        progress: the state, as a checkpoint would have it.
        error: what failed, for `on_error`.
        own: what a strategy of the user's own gives the hook, see `perdure.activities.own_hook`.
    """

    tenant: str
    session: str
    run: str
    agent: str
    hook: str
    step: int
    node: str
    start: int
    position: int
    epoch: int
    step_position: int
    message: str = ""
    results: str = ""
    scaffold: str = ""
    progress: Progress = NO_PROGRESS
    error: dict[str, Any] | None = None
    own: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CallUserResult:
    """What a hook left.

    Attributes:
        metadata: the state's metadata.
        stop: what the stop condition said.
        turned: `on_error` returned a turn; its new messages are stored, this many from `position` on.
    """

    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    stop: bool = False
    turned: bool = False
    added: int = 0


@dataclass(frozen=True, slots=True)
class AroundInput:
    """One call of a run's middleware.

    Attributes:
        kind: "enter" calls `before`; "tell" calls `on_event`; "leave" calls `after` or `on_error`.
        event: to tell: "type", "step"; "message", the row that it is about; "usage", the step's.
        progress: what the run has spent: when it is told of an event, up to the last step that ended.
        outcome: the run's status, for "leave": "completed", or "failed" with `error`.
    """

    tenant: str
    session: str
    run: str
    agent: str
    kind: str
    node: str
    start: int
    position: int
    epoch: int
    step: int = 0
    event: dict[str, Any] | None = None
    outcome: str = ""
    error: dict[str, Any] | None = None
    progress: Progress = NO_PROGRESS
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class AroundResult:
    """What middleware left.

    Attributes:
        kind: "done"; "cancelled"; "late" (the run had ended); "gone".
        input: of "enter": the input in place of the caller's, MessageJSON, long parts cut; None if it stayed.
        epoch: of the session afterwards.
        position: of "enter": messages of the node afterwards.
        outcome: of "leave": what the run comes to.
        error: what `before` or `on_event` raised, or what goes on outwards of "leave"; the run fails of it.
        usage_by_agent: of "enter": TokenUsage JSON of model calls that middleware made, by `path#middleware`.
        turn_sha256: of "leave": of the stored turn that took the place of the run's own; "" if none did.
    """

    epoch: int = 0
    position: int = 0
    input: dict[str, Any] | None = None
    outcome: str = ""
    error: dict[str, Any] | None = None
    kind: str = "done"
    usage_by_agent: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    turn_sha256: str = ""


@dataclass(frozen=True, slots=True)
class ReadHistoryInput:
    """Ask for the messages before a run, for a strategy of the user's own."""

    tenant: str
    session: str
    run: str
    agent: str
    node: str
    start: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ReadHistoryResult:
    """The messages before a run, as MessageJSON, long parts cut, oldest first."""

    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class KeepTurnInput:
    """Make the turn that a strategy of the user's own returned the run's.

    Attributes:
        items: its messages as a view names them, see `perdure.activities.conversation`.
        at: the workflow's time, ISO 8601 with milliseconds.
    """

    tenant: str
    session: str
    run: str
    node: str
    start: int
    step: int
    at: str
    items: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class KeepTurnResult:
    """`kind`: "kept", "late" or "gone"; `position`: messages of the node afterwards."""

    kind: str = "kept"
    position: int = 0
