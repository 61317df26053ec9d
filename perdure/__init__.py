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

__all__ = ["App", "agent", "connect"]

_HOME = {"App": "perdure.uap.app", "agent": "perdure.uap.agent", "connect": "perdure.runtime.connect"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    if name == "agent":
        host, here = import_module("perdure.uap.host"), import_module("perdure.inprocess")
        host.install_default(here.InProcessHost())
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
