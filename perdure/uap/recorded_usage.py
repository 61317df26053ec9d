"""Usage as records carry it: JSON without cycles, whose number grows, and without zeros; also by agent path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from perdure.upp.usage import TokenUsage, aggregate_usage


def plain_usage(usage: TokenUsage) -> dict[str, Any]:
    """Usage in that form."""
    return {name: value for name, value in usage.to_json().items() if name != "cycles" and value}


def total_usage(usages: Iterable[Mapping[str, Any]]) -> TokenUsage:
    """The sum of usages in that form."""
    return aggregate_usage(TokenUsage.from_json(dict(usage)) for usage in usages)


def known_cost(usages: Iterable[Mapping[str, Any]]) -> Decimal:
    """What usages in that form cost together; one whose cost is not known counts nothing."""
    costs = (TokenUsage.from_json(dict(usage)).cost for usage in usages)
    return sum((cost for cost in costs if cost is not None), Decimal(0))


def join_usage(left: Mapping[str, dict[str, Any]], right: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Both by agent path, one that both know added up. The database does the same by `join_usage_v1`."""
    joined = dict(left)
    for path, usage in right.items():
        joined[path] = plain_usage(total_usage([joined[path], usage])) if path in joined else dict(usage)
    return joined


def less_usage(
    whole: Mapping[str, Mapping[str, Any]], part: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """What is left of one without the other, which is part of it, by agent path. The database's is `less_usages_v1`."""
    return {path: _less(usage, part.get(path, {})) for path, usage in whole.items()}


def _less(whole: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value - part.get(name, 0) for name, value in whole.items() if name != "cost"}
    left: dict[str, Any] = {name: value for name, value in rest.items() if value}
    if "cost" in whole:
        left["cost"] = format((Decimal(whole["cost"]) - Decimal(part.get("cost", 0))).normalize(), "f")
    return left
