"""The middleware that comes with Perdure. Source: UAP-1.0 sections 3.2 and 10.

Names are imported when they are first used.

    from perdure.middleware import budget, guardrails, logging, memory
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.uap.middlewares.budget import budget
    from perdure.uap.middlewares.guardrails import Rejection, guardrails
    from perdure.uap.middlewares.logging import logging
    from perdure.uap.middlewares.memory import memory
    from perdure.uap.middlewares.retriever import Retriever

__all__ = ["Rejection", "Retriever", "budget", "guardrails", "logging", "memory"]

_HOME = {"Rejection": "guardrails", "Retriever": "retriever"}
"""The module of each name that does not have its own name's."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'perdure.middleware' has no attribute {name!r}")
    return getattr(_import_module(f"perdure.uap.middlewares.{_HOME.get(name, name)}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
