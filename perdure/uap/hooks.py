"""An agent's lifecycle hooks, and what they are given. Calling one is `hook_calls`' part.

Hooks get a copy of the state. What they leave in its `metadata` counts; everything else of it is for reading.
Source: UAP-1.0 section 11.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TypeAlias

from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.turn import Turn


class Hook(StrEnum):
    """The hooks, by their names in frozen specs and histories."""

    STEP_START = "on_step_start"
    REASON = "on_reason"
    ACT = "on_act"
    OBSERVE = "on_observe"
    STEP_END = "on_step_end"
    STOP = "stop_condition"
    COMPLETE = "on_complete"
    ERROR = "on_error"


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step came to. Source: UAP-1.0 section 11.2, StepResult.

    Attributes:
        turn: the step's own messages and usage.
        state: as after the step; its metadata may be written.
    """

    turn: Turn
    state: ExecutionState


StopCondition: TypeAlias = Callable[[ExecutionState], bool | Awaitable[bool]]
OnStepStart: TypeAlias = Callable[[int, ExecutionState], object]
OnReason: TypeAlias = Callable[[int, str], object]
OnAct: TypeAlias = Callable[[int, Sequence[ToolCall]], object]
OnObserve: TypeAlias = Callable[[int, Sequence[ToolResult]], object]
OnStepEnd: TypeAlias = Callable[[int, StepResult], object]
OnComplete: TypeAlias = Callable[[Turn], object]
OnError: TypeAlias = Callable[[Exception, ExecutionState], Turn | Awaitable[Turn | None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStrategy:
    """An agent's lifecycle hooks; each may be async, or sync and run on a thread. Source: UAP-1.0 section 11.

    In a durable run each is called in a worker, at least once: a worker that dies in the middle of one calls it again.

    Attributes:
        stop_condition: asked after every step; true ends the run there.
        on_step_start: a step begins.
        on_reason: react's reasoning is there.
        on_act: react is about to run these calls.
        on_observe: their results are there, in call order.
        on_step_end: a step has ended.
        on_complete: the run has its turn.
        on_error: the run failed; a Turn that is returned completes it all the same.
    """

    stop_condition: StopCondition | None = None
    on_step_start: OnStepStart | None = None
    on_reason: OnReason | None = None
    on_act: OnAct | None = None
    on_observe: OnObserve | None = None
    on_step_end: OnStepEnd | None = None
    on_complete: OnComplete | None = None
    on_error: OnError | None = None

    @property
    def names(self) -> list[str]:
        """The hooks that there are, in the order of the class."""
        return [item.name for item in fields(self) if getattr(self, item.name) is not None]


@dataclass(frozen=True, slots=True)
class HookCall:
    """A hook with what it is given; which of it depends on the hook.

    Attributes:
        state: a copy that the hook may keep.
        turn: the step's for `on_step_end`, the whole for `on_complete`.
    """

    hook: Hook
    step: int
    state: ExecutionState
    reasoning: str = ""
    actions: Sequence[ToolCall] = ()
    observations: Sequence[ToolResult] = ()
    turn: Turn | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """What a hook left.

    Attributes:
        metadata: the state's metadata after it, JSON.
        stop: what the stop condition said.
        turn: what `on_error` returned.
    """

    metadata: JSONObject = field(default_factory=dict[str, JSONValue])
    stop: bool = False
    turn: Turn | None = None


def state_copy(state: ExecutionState) -> ExecutionState:
    """A copy whose lists and metadata are its own; messages never change, so they are shared."""
    made = copy.copy(state)
    made.messages, made.reasoning = list(state.messages), list(state.reasoning)
    made.metadata, made.plan = copy.deepcopy(state.metadata), copy.deepcopy(state.plan)
    made.tool_executions = list(state.tool_executions)
    return made
