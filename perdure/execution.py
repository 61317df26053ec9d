"""The execution strategies. Source: UAP-1.0 section 3.2."""

from __future__ import annotations

from perdure.workflows.strategies.loop import loop

__all__ = ["loop"]
