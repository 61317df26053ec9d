"""The strategies. They know UAP and UPP, not where they run."""

from __future__ import annotations

from collections.abc import Callable

from perdure.errors import StrategyError
from perdure.uap.custom_strategy import CustomStrategy
from perdure.uap.execution import ExecutionStrategy
from perdure.uap.spec import StrategySpec
from perdure.uap.strategy import Strategy
from perdure.workflows.strategies.loop import Loop
from perdure.workflows.strategies.plan import Plan
from perdure.workflows.strategies.react import React
from perdure.workflows.strategies.staged import Staged

STRATEGIES: dict[str, Callable[..., Strategy]] = {"loop": Loop, "react": React, "plan": Plan, "staged": Staged}
"""What builds each strategy from its options, by the name that frozen specs carry."""


def build(spec: StrategySpec, own: ExecutionStrategy | None = None) -> Strategy:
    """The strategy that a frozen spec names.

    Args:
        spec: the spec.
        own: the strategy itself, where it is one of the user's own.

    Raises:
        StrategyError: this version knows no strategy of that name, or not its options.
    """
    if own is not None:
        return CustomStrategy(own)
    if spec.source:
        raise StrategyError(
            f"strategy {spec.name!r} is one of your own, and this session was begun when its agent had another; "
            "begin a new session"
        )
    kind = STRATEGIES.get(spec.name)
    if kind is None:
        raise StrategyError(f"this worker knows no strategy {spec.name!r}; it has {', '.join(STRATEGIES)}")
    try:
        return kind(**spec.options)
    except TypeError as error:
        raise StrategyError(f"strategy {spec.name!r} does not take these options: {error}") from error
