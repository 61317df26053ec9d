"""An agent's frozen spec, out of its definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from perdure.uap.agent_stream import UAPEventType
from perdure.uap.agent_tool import AgentTool
from perdure.uap.inheritance import label_of
from perdure.uap.middleware import Middleware, wanted
from perdure.uap.spec import AgentSpec, Limits, ModelSpec, StrategySpec, ToolSpec
from perdure.uap.strategy_source import source_spec
from perdure.upp.errors import UPPError
from perdure.upp.prices import PriceTable, find_price
from perdure.upp.provider import ModelReference
from perdure.upp.tools import Tool, approval_name, effect_name

if TYPE_CHECKING:
    from perdure.uap.agent import Agent


def make_spec(agent: Agent, limits: Limits, prices: PriceTable, path: str) -> AgentSpec:
    """The spec of an agent.

    Args:
        agent: the agent, with the model that it has or inherits.
        limits: of whoever runs it.
        prices: what models cost.
        path: of a sub-agent: its path. By default the agent's name.
    """
    model = agent.model
    root = path or label_of(agent)
    return AgentSpec(
        name=path or agent.name or "",
        id=agent.id,
        strategy=_strategy_spec(agent),
        tools=[_tool_spec(tool, name, root) for name, tool in agent.all_tools()],
        limits=limits,
        priced=model is not None and find_price(prices, model.provider.name, model.model_id) is not None,
        hooks=agent.strategy.names,
        middleware=[item.name for item in agent.middleware],
        listens=_listens(agent.middleware),
        model=None if model is None else _model_spec(model),
    )


def _model_spec(model: ModelReference) -> ModelSpec:
    try:
        can = [name for name, is_so in asdict(model.bind().capabilities).items() if is_so]
    except UPPError:
        can = []
    return ModelSpec(model.provider.name, model.model_id, can, str(model.options.get("api") or ""), model.short)


def _strategy_spec(agent: Agent) -> StrategySpec:
    """Its strategy; one of the user's own with where it is found, if it can be."""
    found = None if agent.custom is None else source_spec(agent.custom)
    return found or agent.execution


def _tool_spec(tool: Tool, name: str, root: str) -> ToolSpec:
    return ToolSpec(
        name=name,
        effect=effect_name(tool),
        timeout_s=tool.timeout.total_seconds() if tool.timeout else None,
        sequential=tool.sequential,
        agent=f"{root}/{name}" if isinstance(tool, AgentTool) else "",
        sandboxed=isinstance(tool, AgentTool) and bool(_strategy_spec(tool.agent).source),
        approval=approval_name(tool),
        attempts=tool.retry.max_attempts if tool.retry else 1,
        waits_s=tool.retry.waits.total_seconds() if tool.retry else 0.0,
        short=tool.short,
    )


def _listens(middleware: Sequence[Middleware]) -> list[str]:
    """The types of the events that some middleware is to be told."""
    return [kind.value for kind in UAPEventType if any(kind in wanted(item) for item in middleware)]
