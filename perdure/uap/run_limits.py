"""Where a run's own options end it, and its session's limits: one meaning in both hosts."""

from __future__ import annotations

from perdure.errors import InvalidInput
from perdure.uap.allowance import Allowance
from perdure.uap.options import RunOptions
from perdure.uap.spec import AgentSpec
from perdure.uap.state import ExecutionState
from perdure.upp.usage import TokenUsage


def check_start(options: RunOptions, agent: AgentSpec, session: Allowance | None = None) -> None:
    """Look at a run's limits before its first step.

    Args:
        options: of the run.
        agent: whose run it is.
        session: what is left of its session's limits, if it has any.

    Raises:
        InvalidInput: the run may cost only so much, and what its model costs is not known.
    """
    limit = options.max_cost if options.max_cost is not None or session is None else session.cost
    if limit is not None and not agent.priced:
        raise InvalidInput(
            f"max_cost is {limit}, but the model of agent {agent.name!r} has no price; "
            "add it to the setting `prices`, or leave max_cost out"
        )


def check_next_step(
    options: RunOptions,
    state: ExecutionState,
    run: str,
    used: TokenUsage | None = None,
    session: Allowance | None = None,
) -> None:
    """Look at a run's limits before its next step.

    Args:
        options: of the run.
        state: where it stands.
        run: its id.
        used: what it and its sub-agents have used; None if it has none.
        session: what is left of its session's limits, if it has any.

    Raises:
        LimitExceeded: with code "max_steps", "max_total_tokens" or "max_cost", after "session_" if it is the session's.
    """
    Allowance.by(options).check_step(state, run, used)
    if session is not None:
        session.check_step(state, run, used)
