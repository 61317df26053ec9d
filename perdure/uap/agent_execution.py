"""What an agent may be given as its execution, and what the agent keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from typing_extensions import TypeIs

from perdure.uap.execution import ExecutionStrategy
from perdure.uap.spec import StrategySpec
from perdure.upp.tool_use import ToolUseStrategy
from perdure.upp.tools import Tool

if TYPE_CHECKING:
    from perdure.uaip.bound_task import BoundTask
    from perdure.uaip.definition import WorkflowDefinition


class NamedStrategy(Protocol):
    """What `agent` asks of a strategy: a name and options from which a worker builds it again."""

    @property
    def name(self) -> str:
        """The strategy's registered name."""
        ...

    @property
    def options(self) -> dict[str, Any]:
        """JSON options."""
        ...


class StageTools(Protocol):
    """What an agent has of the workflow that it walks."""

    @property
    def definition(self) -> WorkflowDefinition:
        """As it is deployed."""
        ...

    @property
    def sha256(self) -> str:
        """Of the definition."""
        ...

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tasks of all stages, by `stage.task`: what a run freezes of them, and the agents among them."""
        ...

    def task(self, stage: str, name: str) -> BoundTask | None:
        """What carries a task out."""
        ...

    def shown(self) -> list[list[Tool]]:
        """The tools that the model may be shown, stage by stage."""
        ...


@runtime_checkable
class StagedStrategy(NamedStrategy, Protocol):
    """The strategy that walks a workflow, with the workflow. Made by `staged(...)`."""

    @property
    def stages(self) -> StageTools:
        """The workflow."""
        ...


def staged_of(execution: object) -> StagedStrategy | None:
    """The execution, if it walks a workflow."""
    return execution if isinstance(execution, StagedStrategy) else None


def spec_of_execution(
    execution: NamedStrategy | ExecutionStrategy | StrategySpec | None, tool_strategy: ToolUseStrategy | None
) -> tuple[StrategySpec, ExecutionStrategy | None]:
    """The name and options that an agent keeps of its execution, and the strategy itself if it is one of the user's own.

    Args:
        execution: what was given; None for a loop with the rounds of `tool_strategy`.
        tool_strategy: hooks around the tool calls, if there are any.
    """
    chosen = execution or _default_loop(tool_strategy)
    if _is_own(chosen):
        return StrategySpec(chosen.name), chosen
    return StrategySpec(chosen.name, dict(chosen.options)), None


def _is_own(given: NamedStrategy | ExecutionStrategy | StrategySpec) -> TypeIs[ExecutionStrategy]:
    """Whether a strategy is one of the user's own: those can stream."""
    return callable(getattr(given, "stream", None))


def _default_loop(tool_strategy: ToolUseStrategy | None) -> StrategySpec:
    return StrategySpec(options={} if tool_strategy is None else {"max_iterations": tool_strategy.max_iterations})
