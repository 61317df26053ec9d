"""Perdure: agents that outlive their processes.

The front door. Names are imported when they are first used, so `import perdure` costs nothing.

    from perdure import App, agent, connect
    from perdure.execution import loop
    from perdure.upp import tool
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.runtime.connect import connect
    from perdure.uap.agent import agent
    from perdure.uap.app import App
    from perdure.uap.conversations import ask, query
    from perdure.uap.delegate import delegate
    from perdure.uap.present import present
    from perdure.uap.remote_agent import remote_agent
    from perdure.uap.session import Session, session
    from perdure.uap.session_checkpoints import Checkpoint
    from perdure.uap.thread_node import ThreadNode
    from perdure.uap.thread_tree import ThreadTree
    from perdure.upp.secrets import secret
    from perdure.upp.tool_media import StructuredToolResult, ToolMedia

__all__ = [
    "App",
    "Checkpoint",
    "Session",
    "StructuredToolResult",
    "ThreadNode",
    "ThreadTree",
    "ToolMedia",
    "agent",
    "ask",
    "connect",
    "delegate",
    "present",
    "query",
    "remote_agent",
    "secret",
    "session",
]

_HOME = {
    "App": "perdure.uap.app",
    "Checkpoint": "perdure.uap.session_checkpoints",
    "Session": "perdure.uap.session",
    "StructuredToolResult": "perdure.upp.tool_media",
    "ThreadNode": "perdure.uap.thread_node",
    "ThreadTree": "perdure.uap.thread_tree",
    "ToolMedia": "perdure.upp.tool_media",
    "agent": "perdure.uap.agent",
    "ask": "perdure.uap.conversations",
    "connect": "perdure.runtime.connect",
    "delegate": "perdure.uap.delegate",
    "present": "perdure.uap.present",
    "query": "perdure.uap.conversations",
    "remote_agent": "perdure.uap.remote_agent",
    "secret": "perdure.upp.secrets",
    "session": "perdure.uap.session",
}
_RUNS = frozenset({"agent", "ask", "query", "session", "Session"})
"""What runs agents, and so needs a host."""


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    if name in _RUNS:
        host, here = import_module("perdure.uap.host"), import_module("perdure.inprocess")
        host.install_default(here.InProcessHost())
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
