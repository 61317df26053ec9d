"""Usage as records carry it: JSON without cycles, whose number grows, and without zeros; also by agent path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.upp.usage import TokenUsage, aggregate_usage


def plain_usage(usage: TokenUsage) -> dict[str, Any]:
    """Usage in that form."""
    return {name: value for name, value in usage.to_json().items() if name != "cycles" and value}


def total_usage(usages: Iterable[Mapping[str, Any]]) -> TokenUsage:
    """The sum of usages in that form."""
    return aggregate_usage(TokenUsage.from_json(dict(usage)) for usage in usages)


def join_usage(left: Mapping[str, dict[str, Any]], right: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Both by agent path, one that both know added up. The database does the same by `join_usage_v1`."""
    joined = dict(left)
    for path, usage in right.items():
        joined[path] = plain_usage(total_usage([joined[path], usage])) if path in joined else dict(usage)
    return joined
