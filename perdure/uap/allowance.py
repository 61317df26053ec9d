"""What a run may use: by its own options, and of what is left of its session's limits. Plain data, for workflow code too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from perdure.errors import LimitExceeded
from perdure.uap.options import RunOptions
from perdure.uap.state import ExecutionState
from perdure.upp.usage import TokenUsage

_UNCOUNTED = "the model's server does not say how many tokens it took"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a run may use; None for no limit. With a session's, 0 or less says that nothing is left.

    Attributes:
        steps: of the run itself.
        tokens: input and output tokens, sub-agents' included.
        cost: likewise, in the currency of the table of prices.
        seconds: the run's time.
        session: it is what is left of the session's limits. The codes of its errors begin with "session_".
    """

    steps: int | None = None
    tokens: int | None = None
    cost: Decimal | None = None
    seconds: float | None = None
    session: bool = False

    @classmethod
    def by(cls, options: RunOptions) -> Allowance:
        """What a run's own options allow."""
        seconds = None if options.max_duration is None else options.max_duration.total_seconds()
        return cls(options.max_steps, options.max_total_tokens, options.max_cost, seconds)

    def to_json(self) -> dict[str, Any]:
        """It as plain JSON; a limit that is not there is left out."""
        values = {"steps": self.steps, "tokens": self.tokens, "seconds": self.seconds, "session": self.session or None}
        kept: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
        return kept if self.cost is None else {**kept, "cost": format(self.cost, "f")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Allowance:
        """Read what `to_json` wrote."""
        cost = data.get("cost")
        return cls(
            data.get("steps"),
            data.get("tokens"),
            None if cost is None else Decimal(cost),
            data.get("seconds"),
            bool(data.get("session")),
        )

    def within(self, other: Allowance) -> Allowance:
        """The less of both, limit by limit."""
        return Allowance(
            _least(self.steps, other.steps),
            _least(self.tokens, other.tokens),
            _least(self.cost, other.cost),
            _least(self.seconds, other.seconds),
        )

    def check_step(self, state: ExecutionState, run: str, used: TokenUsage | None = None) -> None:
        """See that another step may begin.

        Args:
            state: where the run stands.
            run: its id.
            used: what it and its sub-agents have used; None if it has none.

        Raises:
            LimitExceeded: with code "max_steps", "max_total_tokens" or "max_cost".
        """
        if self.steps is not None and state.step >= self.steps:
            raise self.exceeded("max_steps", run, f"took {self.steps} steps, {self._whose}")
        own = state.usage
        if self.tokens is not None:
            self._check_tokens(state.cycles, (used or own).total_tokens, run)
        if self.cost is None or (state.cycles == 0 and self.cost > 0):
            return
        if own.cost is None and state.cycles:
            raise self.exceeded("max_cost", run, f"may cost {self.cost:f}, and {_UNCOUNTED}")
        spent = own.cost or Decimal(0)
        if spent >= self.cost:
            raise self.exceeded("max_cost", run, f"cost {spent:f}, {self._whose} is {self.cost:f}")
        if used is not None:
            self.check_cost(used.cost, run)

    def _check_tokens(self, calls: int, tokens: int, run: str) -> None:
        assert self.tokens is not None, "asked by who has a limit"
        if calls and not tokens:
            raise self.exceeded("max_total_tokens", run, f"may use {self.tokens} tokens, and {_UNCOUNTED}")
        if tokens >= self.tokens:
            raise self.exceeded("max_total_tokens", run, f"used {tokens} tokens, {self._whose} is {self.tokens}")

    def check_tokens(self, tokens: int, run: str | None = None) -> None:
        """See that tokens are left, sub-agents' counted. Raises LimitExceeded."""
        if self.tokens is not None and tokens >= self.tokens:
            said = f"and its sub-agents used {tokens} tokens, {self._whose} is {self.tokens}"
            raise self.exceeded("max_total_tokens", run, said)

    def check_cost(self, spent: Decimal | None, run: str | None = None) -> None:
        """See that money is left, sub-agents' counted. Raises LimitExceeded, also if what was spent is not known."""
        if self.cost is None:
            return
        if spent is None:
            said = f"may cost {self.cost:f}, and what it and its sub-agents cost is not known"
            raise self.exceeded("max_cost", run, said)
        if spent >= self.cost:
            raise self.exceeded("max_cost", run, f"and its sub-agents cost {spent:f}, {self._whose} is {self.cost:f}")

    def time_over(self, run: str | None = None) -> LimitExceeded:
        """What ends a run whose time is over."""
        shown = timedelta(seconds=max(0.0, self.seconds or 0.0))
        return self.exceeded("max_duration", run, f"took {shown.total_seconds():g} s, {self._whose}")

    def exceeded(self, code: str, run: str | None, said: str) -> LimitExceeded:
        """The error of a limit that is reached."""
        return LimitExceeded(f"the run {said}", run_id=run, code=f"session_{code}" if self.session else code)

    @property
    def _whose(self) -> str:
        return "what its session had left" if self.session else "its limit"


def _least(left: Any, right: Any) -> Any:
    known = [value for value in (left, right) if value is not None]
    return min(known) if known else None


def shorter(*allowances: Allowance | None) -> Allowance | None:
    """The one whose time is over first; None if none has a limit on it."""
    timed = [one for one in allowances if one is not None and one.seconds is not None]
    return min(timed, key=lambda one: one.seconds or 0.0, default=None)
