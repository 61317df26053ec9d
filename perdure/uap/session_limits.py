"""What all runs of a session may use together, and what they have used of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

from perdure.errors import InvalidInput, SessionLimitReached
from perdure.uap.allowance import Allowance
from perdure.uap.options import LIMITS, plain_limit, to_cost, to_duration
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.usage import TokenUsage

_NAMES = ("max_steps", "max_total_tokens", "max_cost", "max_duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """What a session's runs may use, all together; None for no limit. A run that reaches one ends as `LimitExceeded`.

    What is left is looked at when a run begins; limits that are changed meanwhile count from the next run on.

    Attributes:
        max_steps: of its runs themselves.
        max_total_tokens: input and output tokens, sub-agents' included.
        max_cost: likewise, in the currency of the table of prices. In JSON a decimal as text.
        max_duration: the time of its runs, without that in which they were paused or parked. In JSON seconds.

    Raises:
        InvalidInput: a value that can be no limit.
    """

    max_steps: int | None = None
    max_total_tokens: int | None = None
    max_cost: Decimal | None = None
    max_duration: timedelta | None = None

    def __post_init__(self) -> None:
        for name, (fits, needed) in LIMITS.items():
            value: object = getattr(self, name)
            if not fits(value):
                raise InvalidInput(f"the session's {name} is {str(value)[:80]!r}; it must be {needed}")
        object.__setattr__(self, "max_cost", to_cost(self.max_cost))
        object.__setattr__(self, "max_duration", to_duration(self.max_duration))

    def to_json(self) -> JSONObject:
        """The limits that there are, by name."""
        pairs = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))
        return {name: plain_limit(value) for name, value in pairs if value is not None}

    @classmethod
    def from_json(cls, data: JSONValue) -> SessionLimits:
        """Read what `to_json` wrote.

        Raises:
            InvalidInput: not an object, or a limit that does not exist or can be none.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        if not isinstance(data, dict) or set(data) - known:
            raise InvalidInput(f"a session's limits are an object with one or more of {', '.join(sorted(known))}")
        return cls(**cast("dict[str, Any]", data))

    def left(self, used: SessionUsed) -> Allowance:
        """What is left of them; 0 or less where one is reached. A cost that is not known leaves nothing."""
        cost = None
        if self.max_cost is not None:
            cost = Decimal(0) if used.cost is None else self.max_cost - used.cost
        return Allowance(
            steps=None if self.max_steps is None else self.max_steps - used.steps,
            tokens=None if self.max_total_tokens is None else self.max_total_tokens - used.tokens,
            cost=cost,
            seconds=None if self.max_duration is None else self.max_duration.total_seconds() - used.seconds,
            session=True,
        )

    def check(self, used: SessionUsed, session: str) -> None:
        """See that another run may be handed in.

        Raises:
            SessionLimitReached: one of them is reached.
        """
        left = self.left(used)
        values = zip(_NAMES, (left.steps, left.tokens, left.cost, left.seconds), strict=True)
        reached = [name for name, value in values if value is not None and value <= 0]
        if reached:
            shown = self.to_json()[reached[0]]
            raise SessionLimitReached(
                f"session {session} has reached its {reached[0]} of {shown}; raise that limit, or open another session",
                code=f"session_{reached[0]}",
            )


@dataclass(frozen=True, slots=True)
class SessionUsed:
    """What a session's runs that have ended have used.

    Attributes:
        cost: None if a model call's cost is not known.
    """

    steps: int = 0
    tokens: int = 0
    cost: Decimal | None = Decimal(0)
    seconds: float = 0.0

    @classmethod
    def by(cls, steps: int, usage: TokenUsage, seconds: float) -> SessionUsed:
        """What was used, with the tokens and the cost of `usage`."""
        return cls(steps, usage.total_tokens, Decimal(0) if usage.is_empty else usage.cost, seconds)

    def less(self, steps: int, usage: TokenUsage) -> SessionUsed:
        """What was used without what a run that goes on had used before: it counts that itself."""
        own = SessionUsed.by(steps, usage, 0.0)
        known = self.cost is not None and own.cost is not None
        cost = cast(Decimal, self.cost) - cast(Decimal, own.cost) if known else None
        return SessionUsed(self.steps - own.steps, self.tokens - own.tokens, cost, self.seconds)


def limits_of(data: Mapping[str, Any] | None) -> SessionLimits | None:
    """A row's limits."""
    return None if data is None else SessionLimits.from_json(cast(JSONValue, data))
