"""What an agent may be given as its execution, and what the agent keeps of it."""

from __future__ import annotations

from typing import Any, Protocol

from typing_extensions import TypeIs

from perdure.uap.execution import ExecutionStrategy
from perdure.uap.spec import StrategySpec
from perdure.upp.tool_use import ToolUseStrategy


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
