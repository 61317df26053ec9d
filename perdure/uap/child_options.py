"""What a sub-agent's run is allowed, out of what its parent's is. Plain data, so that workflow code may use it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from perdure.uap.allowance import Allowance
from perdure.uap.options import RunOptions


def child_options(
    parent: RunOptions,
    spent: Decimal | None,
    tokens: int = 0,
    *,
    seconds: float | None = None,
    session: Allowance | None = None,
) -> RunOptions:
    """The options of a sub-agent's run: it never has more than its parent.

    It may take as many steps as its parent's whole run, and use, cost and take what is left of it. Instructions, client
    tools, a form of the answer and a history are the parent's alone, and model parameters are inherited by agents, not
    by runs.

    Args:
        parent: the options of the run that calls it.
        spent: what that run has cost so far, its other sub-agents included; None if it is not known.
        tokens: what it has used, likewise.
        seconds: what is left of its time; None if it has no limit.
        session: what was left of its session's limits when it began, if it has any.

    Raises:
        LimitExceeded: with code "max_cost", "max_total_tokens" or "max_duration": nothing is left, or nobody knows.
    """
    allowed = Allowance.by(parent)
    if session is not None:
        allowed = allowed.within(session)
    allowed.check_cost(spent)
    allowed.check_tokens(tokens)
    if seconds is not None and seconds <= 0:
        raise allowed.time_over()
    return RunOptions(
        max_steps=parent.max_steps,
        max_cost=None if allowed.cost is None or spent is None else allowed.cost - spent,
        max_total_tokens=None if allowed.tokens is None else allowed.tokens - tokens,
        max_duration=None if seconds is None else timedelta(seconds=seconds),
    )
