"""`budget`: what a run may use up. Source: UAP-1.0 section 10.4."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from perdure.errors import InvalidInput, LimitExceeded
from perdure.uap.agent_stream import UAPEvent, UAPEventType
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.uap.spent import Spent

_STARTED = "_budget_startTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """Where a run's next step does not begin; None is no limit.

    Attributes:
        max_tokens: input and output tokens, sub-agents' included.
        max_steps: steps of the run itself.
        max_seconds: since the run began.
        max_cost: in the currency of the table of prices, sub-agents' included.
    """

    max_tokens: int | None = None
    max_steps: int | None = None
    max_seconds: float | None = None
    max_cost: Decimal | None = None


def decide(limits: BudgetLimits, spent: Spent, seconds: float) -> str | None:
    """The code of the first limit that is reached, in the order of `BudgetLimits`; None if none is.

    It looks at nothing but its arguments. A cost that is not known has reached any limit.

    Args:
        limits: the limits.
        spent: by the steps that have ended.
        seconds: since the run began.
    """
    if limits.max_tokens is not None and spent.tokens >= limits.max_tokens:
        return "max_tokens"
    if limits.max_steps is not None and spent.steps >= limits.max_steps:
        return "max_steps"
    if limits.max_seconds is not None and seconds >= limits.max_seconds:
        return "max_time"
    if limits.max_cost is not None and (spent.cost is None or spent.cost >= limits.max_cost):
        return "max_cost"
    return None


class Budget(Middleware):
    """Ends a run before the step that would begin over its limits. Made by `budget(...)`."""

    name = "budget"
    listens = frozenset({UAPEventType.STEP_START})

    def __init__(self, limits: BudgetLimits, clock: Callable[[], float] = time.time) -> None:
        """Takes the limits, and what tells the time in seconds since the epoch."""
        self.limits = limits
        self._clock = clock

    async def before(self, context: MiddlewareContext) -> None:
        context.metadata.setdefault(_STARTED, round(self._clock() * 1000))

    def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
        if event.type is not UAPEventType.STEP_START or event.agent_id != context.agent.id:
            return
        now = round(self._clock() * 1000)
        seconds = (now - int(context.metadata.get(_STARTED, now))) / 1000
        code = decide(self.limits, context.spent, seconds)
        if code is not None:
            raise LimitExceeded(_said(code, self.limits, context.spent, seconds), code=code)


def _said(code: str, limits: BudgetLimits, spent: Spent, seconds: float) -> str:
    match code:
        case "max_tokens":
            return f"the run took {spent.tokens} tokens, its budget is {limits.max_tokens}"
        case "max_steps":
            return f"the run took {spent.steps} steps, its budget is {limits.max_steps}"
        case "max_time":
            return f"the run took {seconds:.1f} s, its budget is {limits.max_seconds:g}"
        case _ if spent.cost is None:
            return f"the run may cost {limits.max_cost:f}, and what it cost is not known; the setting `prices` says it"
        case _:
            return f"the run cost {spent.cost:f}, its budget is {limits.max_cost:f}"


def budget(
    *,
    max_tokens: int | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    max_cost: Decimal | int | str | None = None,
) -> Middleware:
    """Middleware that ends a run with `LimitExceeded` at the step boundary where a limit is reached.

    A step that has begun is brought to its end, and an answer that ends the run is never taken away. Tokens, steps and
    cost are counted from the run's events, so that a replay or a retry counts the same.

    Args:
        max_tokens: input and output tokens; at least 1. Code "max_tokens".
        max_steps: steps; at least 1. Code "max_steps".
        max_seconds: since the run began; above 0. Code "max_time".
        max_cost: in the currency of the table of prices, a decimal above 0; a run whose cost is not known ends after
            its first step. Code "max_cost".

    Raises:
        InvalidInput: no limit at all, or one that cannot be one.
    """
    _check_whole("max_tokens", max_tokens)
    _check_whole("max_steps", max_steps)
    if not _is_positive(max_seconds):
        raise InvalidInput(f"max_seconds is {max_seconds!r:.80}; it must be a number above 0, or left out")
    cost = _to_cost(max_cost)
    if (max_tokens, max_steps, max_seconds, cost) == (None, None, None, None):
        raise InvalidInput("budget() lacks a limit: give max_tokens, max_steps, max_seconds or max_cost")
    limits = BudgetLimits(max_tokens=max_tokens, max_steps=max_steps, max_seconds=max_seconds, max_cost=cost)
    return Budget(limits)


def _check_whole(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise InvalidInput(f"{name} is {value!r:.80}; it must be a whole number of at least 1, or left out")


def _is_positive(value: object) -> bool:
    return value is None or (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    )


def _to_cost(value: object) -> Decimal | None:
    if value is None:
        return None
    try:
        cost = Decimal(value) if isinstance(value, Decimal | int | str) and not isinstance(value, bool) else None
    except InvalidOperation:
        cost = None
    if cost is None or not cost.is_finite() or cost <= 0:
        raise InvalidInput(f"max_cost is {value!r:.80}; it must be a decimal above 0, or left out")
    return cost
