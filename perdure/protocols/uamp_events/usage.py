"""Usage statistics. Source: UAMP 1.0, section 8.7."""

from __future__ import annotations

from perdure.protocols.uamp_events.wire import WireModel
from perdure.upp.usage import TokenUsage


class Cost(WireModel):
    """What it cost; all members are of `currency`."""

    input_cost: float | None = None
    output_cost: float | None = None
    total_cost: float | None = None
    currency: str | None = None


class AudioUsage(WireModel):
    """Seconds of sound."""

    input_seconds: float | None = None
    output_seconds: float | None = None


class UsageStats(WireModel):
    """Tokens of a response, or of a part of one. `cached_tokens` are reads and writes, and part of `input_tokens`."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    cost: Cost | None = None
    audio: AudioUsage | None = None


def usage_stats(usage: TokenUsage, *, currency: str = "USD") -> UsageStats:
    """The statistics of a run's or a model call's tokens.

    Args:
        usage: as UPP has it.
        currency: of `usage.cost`.
    """
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return UsageStats(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        cached_tokens=cached or None,
        cost=None if usage.cost is None else Cost(total_cost=float(usage.cost), currency=currency),
    )


def rest_of(whole: UsageStats, told: UsageStats) -> UsageStats | None:
    """What usage.delta events have not told yet of the whole; None if that is nothing."""
    names = ("input_tokens", "output_tokens", "total_tokens", "cached_tokens")
    left = {name: (getattr(whole, name) or 0) - (getattr(told, name) or 0) for name in names}
    more = {name: count for name, count in left.items() if count > 0}
    return UsageStats.model_validate(more) if more else None


def added(told: UsageStats, more: UsageStats) -> UsageStats:
    """The sum of two usages' tokens."""
    names = ("input_tokens", "output_tokens", "total_tokens", "cached_tokens")
    return UsageStats.model_validate({name: (getattr(told, name) or 0) + (getattr(more, name) or 0) for name in names})
