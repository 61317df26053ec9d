"""The record of a step boundary. Temporal's history holds it first; Postgres is the index of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class MessageMark:
    """A message by id and hash of its stored body."""

    id: str
    sha256: str


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """Everything of a checkpoint but the bodies of its messages. Source: UAP-1.0 section 6.4.

    Attributes:
        id: derived from run and step.
        run: the run it belongs to.
        step: the step that ended.
        node: the thread node.
        position: messages of the node up to this boundary.
        start: position of the run's first message.
        at: ISO 8601, UTC, milliseconds: the workflow's time.
        usage: TokenUsage JSON of the run so far, without its cycles.
        step_usage: TokenUsage JSON of this step.
        cycles: model calls of the run so far.
        messages: the step's new messages, oldest first.
        metadata: the state's metadata.
        done: the run needs no further step.
        history_length: events of the execution when it was taken.
        reasoning: ids of react's reasoning so far, one per step, oldest first.
        plan: PlanStepJSON of plan's steps; None before there is a plan.
        sub_agents: session ids of the sub-agents that the run has finished, by tool call id.
        usage_by_agent: TokenUsage JSON of those sub-agents and of theirs, by agent path.
    """

    id: str
    run: str
    step: int
    node: str
    position: int
    start: int
    at: str
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    step_usage: dict[str, Any] = field(default_factory=dict[str, Any])
    cycles: int = 0
    messages: list[MessageMark] = field(default_factory=list[MessageMark])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    done: bool = False
    history_length: int = 0
    reasoning: list[str] = field(default_factory=list[str])
    plan: list[dict[str, Any]] | None = None
    sub_agents: dict[str, str] = field(default_factory=dict[str, str])
    usage_by_agent: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
