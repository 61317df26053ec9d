"""Where a run's own options end it: one meaning in both hosts."""

from __future__ import annotations

from perdure.errors import InvalidInput, LimitExceeded
from perdure.uap.child_options import check_cost
from perdure.uap.options import RunOptions
from perdure.uap.spec import AgentSpec
from perdure.uap.state import ExecutionState
from perdure.upp.usage import TokenUsage


def check_start(options: RunOptions, agent: AgentSpec) -> None:
    """Look at a run's limits before its first step.

    Raises:
        InvalidInput: the run may cost only so much, and what its model costs is not known.
    """
    if options.max_cost is not None and not agent.priced:
        raise InvalidInput(
            f"max_cost is {options.max_cost}, but the model of agent {agent.name!r} has no price; "
            "add it to the setting `prices`, or leave max_cost out"
        )


def check_next_step(options: RunOptions, state: ExecutionState, run: str, used: TokenUsage | None = None) -> None:
    """Look at a run's limits before its next step.

    Args:
        options: of the run.
        state: where it stands.
        run: its id.
        used: what it and its sub-agents have used; None if it has none.

    Raises:
        LimitExceeded: with code "max_steps" or "max_cost".
    """
    if options.max_steps is not None and state.step >= options.max_steps:
        raise LimitExceeded(f"the run took {options.max_steps} steps, its limit", run_id=run, code="max_steps")
    if options.max_cost is None or state.cycles == 0:
        return
    spent = state.usage.cost
    if spent is None:
        raise LimitExceeded(
            f"the run may cost {options.max_cost:f}, and the model's server does not say how many tokens it took",
            run_id=run,
            code="max_cost",
        )
    if spent >= options.max_cost:
        raise LimitExceeded(f"the run cost {spent:f}, its limit is {options.max_cost:f}", run_id=run, code="max_cost")
    if used is not None:
        check_cost(options.max_cost, used.cost, run)
