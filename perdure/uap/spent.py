"""What a run has spent, counted from its events: the same after a replay or a retry, since no clock is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONValue
from perdure.upp.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has spent so far.

    Attributes:
        tokens: input and output tokens of all steps that have ended.
        steps: the run's own steps that have ended.
        cost: of those tokens, in the currency of the table of prices; None if a model call's cost is not known.
    """

    tokens: int = 0
    steps: int = 0
    cost: Decimal | None = Decimal(0)

    @classmethod
    def by(cls, state: ExecutionState) -> Spent:
        """What a run had spent at a step's end, to go on counting where it is taken up again; its own steps' only."""
        return cls(state.usage.total_tokens, state.step, state.usage.cost if state.cycles else Decimal(0))

    def after_step(self, step: int, data: Mapping[str, JSONValue]) -> Spent:
        """The sum after a `step_end` of the run itself; one that is counted already changes nothing.

        Args:
            step: its number, from 1.
            data: the event's data; its `usage` is that of the step alone.
        """
        return self if step <= self.steps else replace(self.after_child(data), steps=step)

    def after_child(self, data: Mapping[str, JSONValue]) -> Spent:
        """The sum after a `step_end` of a sub-agent: its tokens count, its steps are its own."""
        return self.after_usage(TokenUsage.from_json(data.get("usage") or {}))

    def after_usage(self, usage: TokenUsage) -> Spent:
        """The sum with model calls that are no step's of the run."""
        return replace(self, tokens=self.tokens + usage.total_tokens, cost=self._cost(usage))

    def _cost(self, usage: TokenUsage) -> Decimal | None:
        if usage.cost is None:
            return self.cost if usage.cycles == [] else None  # no model was asked
        return None if self.cost is None else self.cost + usage.cost
