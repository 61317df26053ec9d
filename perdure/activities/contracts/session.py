"""What a session's execution is given and carries, and how a run begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perdure.uap.spec import AgentSpec


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands at a step boundary: enough for another execution to go on from.

    Attributes:
        step: the last step that ended.
        position: messages of the thread node so far.
        usage: TokenUsage JSON so far.
        cycles: model calls so far.
        metadata: the state's metadata.
        done: the run needs no further step.
        reasoning: ids of react's reasoning so far, one per step, oldest first.
        plan: PlanStepJSON of plan's steps; None before there is a plan.
        sub_agents: session ids of the sub-agents that the run has finished, by tool call id.
        usage_by_agent: TokenUsage JSON of those sub-agents and of theirs, by agent path.
    """

    step: int
    position: int
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    cycles: int = 0
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    done: bool = False
    reasoning: list[str] = field(default_factory=list[str])
    plan: list[dict[str, Any]] | None = None
    sub_agents: dict[str, str] = field(default_factory=dict[str, str])
    usage_by_agent: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


NO_PROGRESS = Progress(0, 0)


@dataclass(frozen=True, slots=True)
class ParentLink:
    """Whose sub-agent a session is.

    Attributes:
        session: the parent's session.
        run: the parent's run.
        message: row id of the parent's message that holds the tool call, and
        index: the call's place in it; its arguments are the task.
        options: the child's run options as far as its parent decides them, JSON.
    """

    session: str
    run: str
    message: str
    index: int
    options: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class RunFrame:
    """What stays the same for a whole run.

    Attributes:
        run: its id.
        node: the thread node it works on.
        start: position of its first message.
        epoch: how often the thread has lost messages; part of the name of a cached conversation.
        message: row id of its input.
        message_sha: of that row's body.
        input: the input as MessageJSON, long parts cut.
        spec: its agent, frozen.
        options: the submit's options that a workflow needs.
        adopted: it was begun by another execution or by a workflow task that was lost, so stored results may exist.
        started: when it began, ISO 8601: a rebuild asks.
        session: what was left of its session's limits when it began, see `Allowance`; empty if it has none.
        elapsed_s: seconds that it had taken before this execution, if it may take only so many.
    """

    run: str
    node: str
    start: int
    epoch: int
    message: str
    message_sha: str
    input: dict[str, Any]
    spec: AgentSpec
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    adopted: bool = False
    started: str = ""
    session: dict[str, Any] = field(default_factory=dict[str, Any])
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Carried:
    """What a session takes along into its next execution: ids and counters, never messages.

    Attributes:
        paused: the session's flag.
        seen: ids of controls that were handled, oldest first, bounded.
        answered: waits whose answer was signalled and not yet used.
        frame: the open run, or None.
        progress: where it stands.
        started: tool calls of the step in hand that were started, by index; None if it is not in hand.
        parked: what the open `run.parked` events say.
        pending: records that no activity has written yet.
        steered: inputs may have joined the open run in the step in hand, or wait to join it.
    """

    paused: bool = False
    seen: list[str] = field(default_factory=list[str])
    answered: list[str] = field(default_factory=list[str])
    frame: RunFrame | None = None
    progress: Progress | None = None
    started: list[int] | None = None
    parked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    steered: bool = False


@dataclass(frozen=True, slots=True)
class SessionInput:
    """Input of the session workflow. `agent` is a name, or a sub-agent's path; `parent` is whose sub-agent's it is."""

    tenant: str
    session: str
    agent: str
    carried: Carried | None = None
    parent: ParentLink | None = None


@dataclass(frozen=True, slots=True)
class BeginRunInput:
    """Ask for the session's next run. `now` is the workflow's time, ISO 8601; `parent` opens a sub-agent's session."""

    tenant: str
    session: str
    agent: str
    now: str
    parent: ParentLink | None = None


@dataclass(frozen=True, slots=True)
class BeginRunResult:
    """The next run, or why there is none.

    Attributes:
        kind: "new", "adopted", "nothing" or "gone".
        paused: the session is paused.
        frame: the run.
        progress: of a run that another execution had: where it stood.
        source: of an adopted run: "history" if the progress comes from that execution's history, "row" if that was
            gone and it comes from the last checkpoint row; None if this execution itself began the run.
        pending: of an adopted run: its last checkpoint's record, if that execution may not have come to write it.
        orphan: a sub-agent's run whose parent's run has ended; it is to be cancelled.
        steered: inputs have joined the run, or wait to join it.
    """

    kind: str
    paused: bool = False
    frame: RunFrame | None = None
    progress: Progress | None = None
    source: str | None = None
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    orphan: bool = False
    steered: bool = False
