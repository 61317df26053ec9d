"""What must not wait, and the end of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RecordInput:
    """Records and a note that must not wait.

    `note` names it within the execution by what it is about, never by its place: a workflow task that is lost may be
    redone with signals that had not come before, and then notes come in another order.
    """

    tenant: str
    session: str
    note: str
    run: str | None = None
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    paused: bool | None = None
    status: str | None = None
    wait: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RecordResult:
    """What became of it, and the records themselves: a local activity's marker holds its result, not its input.

    `wait` is the id of the wait that is open now.
    """

    kind: str
    wait: str | None = None
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class EndRunInput:
    """End a run.

    Attributes:
        now: the workflow's time, ISO 8601 with milliseconds.
        open_answer: id, position and step of a model call that gave no answer; what is known of it is kept.
        error: {"type", "message", ...} of a failed run.
        controls: ids of the controls that asked for it.
        usage_by_agent: TokenUsage JSON of sub-agents, by agent path.
        paid: its payments are to be settled.
    """

    tenant: str
    session: str
    run: str
    status: str
    now: str
    step: int
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    cycles: int = 0
    error: dict[str, Any] | None = None
    open_answer: dict[str, Any] | None = None
    controls: list[str] = field(default_factory=list[str])
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    usage_by_agent: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    paid: bool = False


@dataclass(frozen=True, slots=True)
class EndRunResult:
    """What a rebuild needs of a run's end: of the first end, if the run had ended before."""

    kind: str
    run: str
    status: str
    at: str
    step: int
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    cycles: int = 0
    error: dict[str, Any] | None = None
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    usage_by_agent: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
