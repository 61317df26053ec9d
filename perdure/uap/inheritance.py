"""What a sub-agent inherits from its parent, and how deep sub-agents may go. Source: UAP-1.0 sections 8.3 and 16.1."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from perdure.uap.agent_checks import check_fit
from perdure.upp.errors import ErrorCode, UPPError

if TYPE_CHECKING:
    from perdure.uap.agent import Agent


def label_of(agent: Agent) -> str:
    """What an agent is called in paths: by its name, or by its id if it has none."""
    return agent.name or f"agent_{agent.id}"


def inherit(child: Agent, parent: Agent) -> Agent:
    """The sub-agent as it runs below its parent.

    A model of its own is never replaced. The parent's configuration fills what the child's leaves open, but only for
    the same provider: the parent's key is not for another vendor. Parameters are inherited with the model alone, by
    a child that has none.

    Args:
        child: as it was defined.
        parent: with all that it has inherited itself.

    Raises:
        UPPError: INVALID_REQUEST if the inherited model's provider would refuse the child's tools or structure.
    """
    if parent.model is None:
        return child
    if child.model is not None:
        same = child.model.provider.name == parent.model.provider.name
        if not same or parent.reach is None:
            return child
        own = child.reach
        return dataclasses.replace(child, config=parent.reach if own is None else own.over(parent.reach))
    for tools in child.shown():
        check_fit(parent.model, tools, child.structure)
    config = child.config.over(parent.reach) if child.config is not None else parent.reach
    return dataclasses.replace(child, model=parent.model, config=config, params=child.params or parent.params)


def deepest(agent: Agent, depth: int, limit: int | None) -> int:
    """The depth of the last sub-agents that may run below an agent.

    Args:
        agent: whose `max_depth` counts besides its parents'.
        depth: where it runs; 0 for a root.
        limit: what its parent has; None for a root.
    """
    own = depth + agent.max_depth
    return own if limit is None else min(own, limit)


def check_level(path: tuple[str, ...], limit: int) -> None:
    """Refuse a sub-agent that is nested too deeply.

    Args:
        path: of the sub-agent, the root first.
        limit: `deepest` of its parent.

    Raises:
        UPPError: INVALID_REQUEST if it is.
    """
    if len(path) - 1 > limit:
        raise UPPError(
            f"sub-agent {'/'.join(path)!r} is nested {len(path) - 1} deep, the limit is {limit}; do the task "
            "without it, or raise max_depth",
            ErrorCode.INVALID_REQUEST,
            "perdure",
        )
