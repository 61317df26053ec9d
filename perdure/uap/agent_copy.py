"""What a copy of an agent is defined by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.upp.provider import ModelReference

if TYPE_CHECKING:
    from perdure.uap.agent import Agent
    from perdure.uap.option_types import AgentOptions


def copied_options(agent: Agent, changes: AgentOptions) -> AgentOptions:
    """The options of an agent with some changed. A configuration is not taken along to another provider."""
    options: AgentOptions = {
        "model": agent.model,
        "name": agent.name,
        "description": agent.description,
        "system": agent.system,
        "tools": agent.tools,
        "execution": agent.custom or agent.staged or agent.execution,
        "params": agent.params,
        "config": agent.config,
        "strategy": agent.strategy,
        "middleware": agent.middleware,
        "structure": agent.structure,
        "tool_strategy": agent.tool_strategy,
        "max_depth": agent.max_depth,
    }
    if _vendor(changes.get("model", agent.model)) != _vendor(agent.model):
        options["config"] = None
    options.update(changes)
    return options


def _vendor(model: ModelReference | None) -> str | None:
    return None if model is None else model.provider.name
