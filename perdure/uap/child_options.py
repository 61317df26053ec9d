"""What a sub-agent's run is allowed, out of what its parent's is. Plain data, so that workflow code may use it."""

from __future__ import annotations

from decimal import Decimal

from perdure.errors import LimitExceeded
from perdure.uap.options import RunOptions


def child_options(parent: RunOptions, spent: Decimal | None) -> RunOptions:
    """The options of a sub-agent's run: it never has more than its parent.

    It may take as many steps as its parent's whole run and cost what is left of it. Instructions, client tools, a form
    of the answer and a history are the parent's alone, and model parameters are inherited by agents, not by runs.

    Args:
        parent: the options of the run that calls it.
        spent: what that run has cost so far, its other sub-agents included; None if it is not known.

    Raises:
        LimitExceeded: with code "max_cost": nothing is left, or nobody knows.
    """
    if parent.max_cost is None:
        return RunOptions(max_steps=parent.max_steps)
    check_cost(parent.max_cost, spent)
    assert spent is not None, "looked at just now"
    return RunOptions(max_steps=parent.max_steps, max_cost=parent.max_cost - spent)


def check_cost(limit: Decimal, spent: Decimal | None, run: str | None = None) -> None:
    """Look at what a run and its sub-agents have cost.

    Raises:
        LimitExceeded: with code "max_cost": the limit is reached, or what was spent is not known.
    """
    if spent is None:
        raise LimitExceeded(
            f"the run may cost {limit:f}, and what it and its sub-agents cost is not known",
            run_id=run,
            code="max_cost",
        )
    if spent >= limit:
        raise LimitExceeded(
            f"the run and its sub-agents cost {spent:f}, the run's limit is {limit:f}", run_id=run, code="max_cost"
        )
