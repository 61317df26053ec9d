"""What the model calls of a run's middleware use: it is the run's, under `<agent path>#<middleware>`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from perdure.upp.prices import PriceTable, cost_of, find_price
from perdure.upp.provider import BoundLLMModel
from perdure.upp.usage import TokenUsage, aggregate_usage


class MiddlewareUsage:
    """The sums of one run.

    Attributes:
        by_name: by the middleware's name.
    """

    def __init__(self, prices: PriceTable | None = None, told: Callable[[TokenUsage], None] | None = None) -> None:
        """Count nothing yet.

        Args:
            prices: what models cost.
            told: is told of what each call used.
        """
        self._prices = prices or {}
        self._told = told
        self.by_name: dict[str, TokenUsage] = {}

    def add(self, name: str, model: BoundLLMModel, usage: TokenUsage) -> TokenUsage:
        """Count what a middleware's use of a model took; returns it with its cost."""
        price = find_price(self._prices, model.provider, model.model_id)
        if price is not None and not usage.is_empty:
            usage = replace(usage, cost=cost_of(usage, price, model.provider))
        known = self.by_name.get(name)
        self.by_name[name] = usage if known is None else aggregate_usage([known, usage])
        if self._told is not None:
            self._told(usage)
        return usage

    def by_path(self, path: str) -> dict[str, TokenUsage]:
        """The sums by `<path>#<middleware>`."""
        return {f"{path}#{name}": usage for name, usage in self.by_name.items()}
