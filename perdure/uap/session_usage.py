"""What a session's runs have used, by agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perdure.upp.usage import TokenUsage, aggregate_usage, empty_usage


class SessionUsage:
    """Sums, without the single model calls, so that their size does not grow with the session.

    Attributes:
        by_agent: by agent path.
    """

    def __init__(self, by_agent: Mapping[str, TokenUsage] | None = None) -> None:
        """Go on from these sums."""
        self.by_agent: dict[str, TokenUsage] = dict(by_agent or {})

    @property
    def total(self) -> TokenUsage:
        """All of it."""
        return _sum(*self.by_agent.values())

    def add(self, used: Mapping[str, TokenUsage]) -> None:
        """Count what a run has used, by agent path."""
        for path, usage in used.items():
            known = self.by_agent.get(path)
            self.by_agent[path] = _sum(usage) if known is None else _sum(known, usage)


def _sum(*parts: TokenUsage) -> TokenUsage:
    return replace(aggregate_usage(parts) if parts else empty_usage(), cycles=None)
