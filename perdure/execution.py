"""The execution strategies. Source: UAP-1.0 section 3.2; `staged` is Perdure's."""

from __future__ import annotations

from perdure.uap.staged import staged
from perdure.workflows.strategies.loop import loop
from perdure.workflows.strategies.plan import plan
from perdure.workflows.strategies.react import react

__all__ = ["loop", "plan", "react", "staged"]
