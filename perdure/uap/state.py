"""What a strategy remembers between steps, small enough to be carried from one execution to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.uap.plan_steps import PlanStep
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import Message
from perdure.upp.tool_call import ToolExecution
from perdure.upp.usage import TokenUsage, empty_usage


@dataclass(slots=True)
class ExecutionState:
    """The mutable state of one run. Source: UAP-1.0 section 5.1, ExecutionState.

    Attributes:
        step: the step that is running or has just ended; 0 before the first.
        messages: messages of this run that this host knows, oldest first, the input first. In a workflow that has
            continued as new these are the ones since then; all of them are rows.
        metadata: the user's own data, JSON.
        tool_executions: tool calls of this run that this host knows, in call order.
        usage: tokens of this run so far, over all steps.
        cycles: model calls of this run so far.
        done: the last step has ended; a strategy that is taken up again here only returns the turn.
        reasoning: what react reasoned, one per step, oldest first. In a workflow long ones are previews.
        plan: plan's steps; None before there is a plan.
    """

    step: int = 0
    messages: list[Message] = field(default_factory=list[Message])
    metadata: JSONObject = field(default_factory=dict[str, JSONValue])
    tool_executions: list[ToolExecution] = field(default_factory=list[ToolExecution])
    usage: TokenUsage = field(default_factory=empty_usage)
    cycles: int = 0
    done: bool = False
    reasoning: list[str] = field(default_factory=list[str])
    plan: list[PlanStep] | None = None
