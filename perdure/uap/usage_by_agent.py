"""What the agents of one run have used, by their paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from perdure.upp.usage import TokenUsage, aggregate_usage

UsageByAgent: TypeAlias = dict[str, TokenUsage]
"""By agent path, `root/tool/tool`: what that agent's own model calls used, over all its runs."""


def sum_by_agent(parts: Iterable[Mapping[str, TokenUsage]]) -> UsageByAgent:
    """The sums, in the order in which paths come first."""
    found: dict[str, list[TokenUsage]] = {}
    for part in parts:
        for path, usage in part.items():
            found.setdefault(path, []).append(usage)
    return {path: usages[0] if len(usages) == 1 else aggregate_usage(usages) for path, usages in found.items()}


def usage_since(before: TokenUsage, now: TokenUsage) -> TokenUsage:
    """What was used between two states of one sum."""
    first = len(before.cycles or ())
    if not first:
        return now
    cost = now.cost if now.cost is None or before.cost is None else now.cost - before.cost
    return replace(
        now,
        input_tokens=now.input_tokens - before.input_tokens,
        output_tokens=now.output_tokens - before.output_tokens,
        total_tokens=now.total_tokens - before.total_tokens,
        cache_read_tokens=now.cache_read_tokens - before.cache_read_tokens,
        cache_write_tokens=now.cache_write_tokens - before.cache_write_tokens,
        cycles=(now.cycles or [])[first:],
        cost=cost,
    )
