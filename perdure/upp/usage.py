"""What model calls used, in tokens. Source: UPP-1.2, TokenUsage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from perdure.upp.json_field import invalid, read_int, read_list, read_object
from perdure.upp.json_value import JSONObject, JSONValue


@dataclass(frozen=True, slots=True)
class CycleUsage:
    """The tokens of one model call."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        return {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "cacheReadTokens": self.cache_read_tokens,
            "cacheWriteTokens": self.cache_write_tokens,
        }

    @classmethod
    def from_json(cls, value: JSONValue) -> CycleUsage:
        """Returns the usage of a JSON object; absent counts are 0.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object.
        """
        source, what = read_object(value, "cycle usage"), "cycle usage"
        names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
        return cls(*(read_int(source, name, what, 0) for name in names))


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The tokens of one model call, or of several.

    Attributes:
        total_tokens: the vendor's own total for one call; input + output for several.
        cache_read_tokens: 0 if the vendor does not say.
        cycles: one entry per model call, oldest first; None for the usage of one call as a vendor reports it.
        cost: by the table of prices, in its currency; None if a model in it has no price. It is Perdure's own, in
            JSON a decimal as text.
    """

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cycles: list[CycleUsage] | None = None
    cost: Decimal | None = None

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        result: JSONObject = {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "totalTokens": self.total_tokens,
            "cacheReadTokens": self.cache_read_tokens,
            "cacheWriteTokens": self.cache_write_tokens,
        }
        if self.cycles is not None:
            result["cycles"] = [cycle.to_json() for cycle in self.cycles]
        if self.cost is not None:
            result["cost"] = _plain(self.cost)
        return result

    @classmethod
    def from_json(cls, value: JSONValue) -> TokenUsage:
        """Returns the usage of a JSON object; absent counts are 0, an absent total is input + output.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object.
        """
        source, what = read_object(value, "usage"), "usage"
        spent, made = read_int(source, "inputTokens", what, 0), read_int(source, "outputTokens", what, 0)
        cycles = [CycleUsage.from_json(item) for item in read_list(source, "cycles", what)]
        return cls(
            input_tokens=spent,
            output_tokens=made,
            total_tokens=read_int(source, "totalTokens", what, spent + made),
            cache_read_tokens=read_int(source, "cacheReadTokens", what, 0),
            cache_write_tokens=read_int(source, "cacheWriteTokens", what, 0),
            cycles=cycles if source.get("cycles") is not None else None,
            cost=_read_cost(source.get("cost")),
        )

    @property
    def is_empty(self) -> bool:
        """Whether no token is counted, so that it costs nothing whatever the price."""
        return not any((self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens))


def empty_usage() -> TokenUsage:
    """Returns the usage of no model call."""
    return TokenUsage(0, 0, 0, cycles=[])


def aggregate_usage(usages: Iterable[TokenUsage]) -> TokenUsage:
    """Returns the sum: totals are input + output of the sums, cycles have one entry per model call.

    A usage that is itself a sum adds its own cycles. The cost is known if that of each usage is; none has none.
    """
    cycles: list[CycleUsage] = []
    costs: list[Decimal | None] = []
    sums = [0, 0, 0, 0]
    for usage in usages:
        own = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
        sums = [total + count for total, count in zip(sums, own, strict=True)]
        cycles.extend([CycleUsage(*own)] if usage.cycles is None else usage.cycles)
        if usage.cost is not None or not usage.is_empty:
            costs.append(usage.cost)
    return TokenUsage(sums[0], sums[1], sums[0] + sums[1], sums[2], sums[3], cycles, _total(costs))


def _total(costs: list[Decimal | None]) -> Decimal | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if known and len(known) == len(costs) else None


def _plain(cost: Decimal) -> str:
    """Returns a cost digit by digit, without an exponent and without zeros at its end."""
    text = format(cost, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _read_cost(value: JSONValue) -> Decimal | None:
    if value is None:
        return None
    try:
        cost = Decimal(value) if isinstance(value, str) else None
    except InvalidOperation:
        cost = None
    if cost is None or not cost.is_finite() or cost < 0:
        raise invalid("usage", "field 'cost' must be a decimal as text, at least 0")
    return cost
