"""What `agent`, its `to_tool`, the strategies and `logging` take, as types of dicts: `agent(**options)`.

The keys are the functions' keywords; what they mean and their defaults are said there. Source: UAP-1.0 section 14.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from perdure.uap.agent import Agent
from perdure.uap.agent_execution import NamedStrategy
from perdure.uap.execution import ExecutionStrategy
from perdure.uap.hooks import AgentStrategy
from perdure.uap.middleware import Middleware
from perdure.uap.middlewares.logging import LogLine
from perdure.uap.spec import StrategySpec
from perdure.upp.json_value import JSONObject
from perdure.upp.provider import ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.tool_use import ToolUseStrategy
from perdure.upp.tools import Tool


class AgentOptions(TypedDict, total=False):
    """What `agent` takes. Source: UAP-1.0 section 4.2, AgentOptions."""

    model: ModelReference | None
    name: str | None
    id: str | None
    description: str | None
    system: str | None
    tools: Sequence[Tool | Agent]
    execution: NamedStrategy | ExecutionStrategy | StrategySpec | None
    params: Mapping[str, Any] | None
    config: ProviderConfig | None
    strategy: AgentStrategy | None
    middleware: Sequence[Middleware]
    structure: JSONObject | None
    tool_strategy: ToolUseStrategy | None
    max_depth: int


class ToToolOptions(TypedDict, total=False):
    """What `Agent.to_tool` takes. Source: UAP-1.0 section 8.2, ToToolOptions."""

    name: str | None
    description: str | None
    parameter_schema: JSONObject | None


class LoopOptions(TypedDict, total=False):
    """What `loop` takes. Source: UAP-1.0 section 5.2, LoopOptions."""

    max_iterations: int


class ReactOptions(TypedDict, total=False):
    """What `react` takes. Source: UAP-1.0 section 5.3, ReactOptions."""

    max_steps: int
    reasoning_prompt: str
    observation_format: str


class PlanOptions(TypedDict, total=False):
    """What `plan` takes. Source: UAP-1.0 section 5.4, PlanOptions."""

    max_plan_steps: int
    allow_replan: bool
    plan_schema: JSONObject | None


class StagedOptions(TypedDict, total=False):
    """What `staged` takes besides the workflow."""

    max_steps: int


class LoggingOptions(TypedDict, total=False):
    """What `logging` takes. Source: UAP-1.0 section 10.3, LoggingOptions."""

    level: str
    logger: LogLine | None
    include_messages: bool
    include_timing: bool
