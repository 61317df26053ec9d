"""Every name of the specification's section 14.2, for annotations. UPP's own types are in `perdure.upp`, and only there.

Names are imported when they are first used.

    from perdure.types import AgentStrategy, ExecutionContext, Middleware
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.uap.agent import Agent
    from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult, UAPEvent, UAPEventType
    from perdure.uap.conversations import QueryResult
    from perdure.uap.execution import ExecutionContext, ExecutionStrategy
    from perdure.uap.hooks import AgentStrategy, StepResult
    from perdure.uap.middleware import Middleware, MiddlewareContext
    from perdure.uap.option_types import (
        AgentOptions,
        LoggingOptions,
        LoopOptions,
        PlanOptions,
        ReactOptions,
        ToToolOptions,
    )
    from perdure.uap.persistence import PersistenceAdapter
    from perdure.uap.plan_steps import PlanStep
    from perdure.uap.session import Session
    from perdure.uap.session_checkpoints import Checkpoint
    from perdure.uap.session_options import SessionOptions
    from perdure.uap.state import ExecutionState
    from perdure.uap.thread_node import ThreadNode
    from perdure.uap.thread_tree import ThreadTree

__all__ = [
    "Agent",
    "AgentOptions",
    "AgentStrategy",
    "AgentStreamEvent",
    "AgentStreamResult",
    "Checkpoint",
    "ExecutionContext",
    "ExecutionState",
    "ExecutionStrategy",
    "LoggingOptions",
    "LoopOptions",
    "Middleware",
    "MiddlewareContext",
    "PersistenceAdapter",
    "PlanOptions",
    "PlanStep",
    "QueryResult",
    "ReactOptions",
    "Session",
    "SessionOptions",
    "StepResult",
    "ThreadNode",
    "ThreadTree",
    "ToToolOptions",
    "UAPEvent",
    "UAPEventType",
]

_HOME = {
    "Agent": "perdure.uap.agent",
    "AgentOptions": "perdure.uap.option_types",
    "AgentStrategy": "perdure.uap.hooks",
    "AgentStreamEvent": "perdure.uap.agent_stream",
    "AgentStreamResult": "perdure.uap.agent_stream",
    "Checkpoint": "perdure",
    "ExecutionContext": "perdure.uap.execution",
    "ExecutionState": "perdure.uap.state",
    "ExecutionStrategy": "perdure.uap.execution",
    "LoggingOptions": "perdure.uap.option_types",
    "LoopOptions": "perdure.uap.option_types",
    "Middleware": "perdure.uap.middleware",
    "MiddlewareContext": "perdure.uap.middleware",
    "PersistenceAdapter": "perdure.uap.persistence",
    "PlanOptions": "perdure.uap.option_types",
    "PlanStep": "perdure.uap.plan_steps",
    "QueryResult": "perdure.uap.conversations",
    "ReactOptions": "perdure.uap.option_types",
    "Session": "perdure",
    "SessionOptions": "perdure.uap.session_options",
    "StepResult": "perdure.uap.hooks",
    "ThreadNode": "perdure",
    "ThreadTree": "perdure",
    "ToToolOptions": "perdure.uap.option_types",
    "UAPEvent": "perdure.uap.agent_stream",
    "UAPEventType": "perdure.uap.agent_stream",
}
"""What `perdure` exports too comes from there: a session needs a host, which that door installs."""


if not TYPE_CHECKING:  # a type checker that saw it would take every name, wrong ones too

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module 'perdure.types' has no attribute {name!r}")
        return getattr(_import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
